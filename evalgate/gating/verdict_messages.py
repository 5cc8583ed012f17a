"""Describe the verdict on each metric in plain sentences, for a reviewer who knows no statistics.

The sentences use points, counts and odds, never a p-value, and have no icons. Numbers are rounded so that
they never contradict the verdict.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from math import floor, isinf, log10
from typing import Literal

from evalgate.core.formatting import (
    format_limit,
    format_score,
    format_scores,
    join_first,
    pluralize,
    round_to_limit,
)
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseComparison, MetricSummary, ThresholdEstimate
from evalgate.gating.score_tables import is_report_row_table
from evalgate.statistics.mean_difference import MeanDifference
from evalgate.statistics.metric_assessment import RuleCheck
from evalgate.statistics.metric_decisions import Decision, MetricDecision
from evalgate.statistics.parameters import EPSILON, Parameters

REGRESSION = "Regression: "
"""First word of sentences about averages that fell; `control_comparison.py` finds the sentences by it."""

_EFFECTS: Mapping[str, str] = {
    "warn": "Not blocking.",
    "fail": "Blocking, as on_inconclusive: fail asks.",
    "distinguish": "Exit code 4, as on_inconclusive: distinguish asks.",
}
_RAREST = 1_000_000  # rarer events are not worth a number
_MOST_DIGITS = 7
_NAMED = 5  # cases that one sentence lists
_NAMED_METRICS = 3  # metrics that one sentence lists
_FEW_RUNS = 3  # fewer stored runs of a case hardly measure luck


@frozen
class MessageContext:
    """Names, settings and formats for the sentences. Methods take scores as shares of a metric's range."""

    base_branch: str = "main"
    """Branch that the baseline comes from."""
    on_inconclusive: Literal["warn", "fail", "distinguish"] = "warn"
    """The setting `gate.on_inconclusive`; `warn` with `gate.report_only`, which blocks nothing."""
    fixed_runs: bool = False
    """True if the number of runs is fixed, False with `runs: auto`."""
    max_runs: int | None = None
    """Largest number of rounds (one run of every case) with `runs: auto`; None if not known."""
    case_alpha: float = 0.02
    """Largest chance that at least one unchanged case of the suite is called broken."""
    missing_because: str = "judge or API errors"
    """Causes of missing scores in words, for the sentence about runs without a score."""
    quote: Callable[[str], str] = "`{}`".format
    """Function that converts the name of a case's row in the score tables to the case's name in sentences."""
    confirmed: AbstractSet[str] = frozenset()
    """Rows of the cases that follow-up runs show to be broken."""
    score: Callable[[float], float] = float
    """Function that converts a share of the metric's range (0 to 1) to a score in this range."""
    is_part: bool = False
    """True: the sentences are about a part of the metric's cases only, such as those with a tag."""
    width: float | None = None
    """Width of the metric's range, for differences in units of this range. None: the range is 0 to 1, and
    differences are shown in points (hundredths)."""

    def format_score(self, score: float | None, beside: float | None = None) -> str:
        """Format a score in the metric's own range, with enough digits to differ from `beside`."""
        own, other = (None if each is None else self.score(each) for each in (score, beside))
        return format_score(own, beside=other)

    def format_scores(self, *scores: float, limit: float) -> tuple[str, ...]:
        """Format scores and their limit in the metric's own range, with enough digits to compare them.

        The limit is the last item of the result.
        """
        return format_scores([*map(self.score, scores)], self.score(limit))

    def format_difference(self, amount: float) -> str:
        """Return a difference of scores as text: `5 points`, or `0.20` if the range is not 0 to 1."""
        if self.width is None:
            return _format_points(amount)
        own = amount * self.width
        return format_score(own, digits=_count_digits(own, 2))

    def format_approximate(self, amount: float, limit: float) -> str:
        """Return a difference as rounded text: `about 4 points`, or `just under 5 points`.

        A rounded drop must not look equal to a limit that it does not reach. If it would, the result is `just
        under` (or `just over`) the limit.
        """
        if self.width is None:
            text = _format_near_limit(_to_percent(amount), _to_percent(limit), 0, f"{_to_percent(limit):g}")
            return f"{text} point" if text.endswith(" 1") else f"{text} points"
        own, most = amount * self.width, limit * self.width
        return _format_near_limit(own, most, 2, format_limit(most))

    def format_allowance(self, limit: float) -> str:
        """Return the allowed drop as text, such as `your 5-point allowance`."""
        if self.width is None:
            return f"your {_to_percent(limit):g}-point allowance"
        return f"your allowance of {format_limit(limit * self.width)}"


def describe_metric(metric: MetricDecision, context: MessageContext) -> tuple[str, ...]:
    """Return sentences about the checks that decided on one metric, then a sentence about its suspects.

    Suspects are cases that scored lower than in their stored runs, maybe by luck. Checks with a better result
    than the metric's verdict are not mentioned.
    """
    worst = [part for part in metric.checks if part.verdict == metric.verdict]
    texts = [text for part in worst for text in _describe_check(part, metric, context)]
    return (*texts, *describe_suspects(metric, context))


def describe_suspects(metric: MetricDecision, context: MessageContext) -> tuple[str, ...]:
    """Return one sentence that lists the suspects: cases that scored lower, maybe by luck; () without any."""
    suspects = metric.list_cases("suspect")
    names = [name for name in suspects if name not in context.confirmed]
    if not names:
        return ()
    other = "other " if metric.list_cases("broken") or len(names) < len(suspects) else ""
    count, whose = pluralize(len(names), f"{other}case"), "its" if len(names) == 1 else "their"
    listed = join_first([context.quote(name) for name in names], _NAMED)
    return (f"{count} scored lower; taken alone, {whose} runs could be luck: {listed}.",)


def _describe_check(part: RuleCheck, metric: MetricDecision, context: MessageContext) -> Iterator[str]:
    if part.kind == "cases":
        for case in metric.list_cases("broken"):
            yield describe_broken_case(case, metric.cases[case], context)
    elif part.kind == "average" and metric.change is not None:
        yield _describe_average(part, metric, metric.change, context)
    elif part.kind == "minimum" and metric.minimum is not None:
        yield _describe_minimum(metric.minimum, "", context)
    elif part.kind == "reliability":
        yield _describe_reliability(metric)
    elif part.reason == "no_baseline":
        yield "No baseline for these cases yet; scores recorded, nothing compared."
    elif part.reason == "missing_runs":
        have = "has" if metric.missing == 1 else "have"
        yield (
            f"Not enough data: {metric.missing:,} of {pluralize(metric.planned, 'run')} {have} no score "
            f"({context.missing_because})."
        )


def describe_broken_case(case: str, outcome: CaseComparison, context: MessageContext) -> str:
    """Return a sentence about a broken case, with its results now and in the baseline."""
    opening, base_branch = begin_broken_sentence(context.quote(case)), context.base_branch
    if outcome.need is None:  # compared exactly
        return (
            f"{opening}{context.format_score(outcome.mean)}, "
            f"{context.format_score(outcome.baseline_mean)} on {base_branch}."
        )
    if _is_binary(outcome):
        failed = outcome.runs - outcome.passed
        what = (
            f"failed {failed} of {pluralize(outcome.runs, 'run')}, "
            f"passed {outcome.baseline_passed} of {outcome.baseline_runs} on {base_branch}"
        )
    else:
        what = (
            f"{context.format_score(outcome.mean)} on average over {pluralize(outcome.runs, 'run')}, "
            f"{context.format_score(outcome.baseline_mean)} over {outcome.baseline_runs} on {base_branch}"
        )
    chance = f"{context.case_alpha * 100:g} %"
    return f"{opening}{what}. Less than a {chance} chance of this happening by luck anywhere in the suite."


def begin_broken_sentence(name: str) -> str:
    """Return the first words of the sentence about a broken case.

    `control_comparison.py` finds the sentence by these words, to remove it.
    """
    return f"{name} broke: "


def _is_binary(outcome: CaseComparison) -> bool:
    """Return True if both averages (now, baseline) equal the shares of passed runs, as for scores 0 or 1."""
    return outcome.mean == outcome.passed / max(1, outcome.runs) and (
        outcome.baseline_mean == outcome.baseline_passed / max(1, outcome.baseline_runs)
    )


def _describe_average(
    part: RuleCheck, metric: MetricDecision, change: MeanDifference, context: MessageContext
) -> str:
    if part.reason in {"exact_fell", "exact_held"}:
        return _describe_exact(part, metric, change, context)
    if part.reason in {"average_fell", "noisy_drop", "likely_luck"}:
        return _describe_drop(part, metric, change, context)
    if part.reason in {"small_drop", "proven", "unproven"}:
        return _describe_against_allowance(part, metric, change, context)
    if part.reason == "unchanged":
        whole = "the only case" if change.cases == 1 else f"all {change.cases:,} cases"
        return f"No change: {whole} scored the same as on {context.base_branch}."
    if part.reason == "better":
        gain = context.format_difference(-change.drop)
        return f"Better than {context.base_branch}: +{gain}, too much to be luck."
    size = f"{pluralize(change.cases, 'case')}, {pluralize(metric.rounds, 'run')} each"
    sentence = f"No sign of a regression: {_format_means(change, context)} ({size})."
    return _add_power(sentence, metric, change, context)


def _describe_against_allowance(
    part: RuleCheck, metric: MetricDecision, change: MeanDifference, context: MessageContext
) -> str:
    limit = metric.rule.max_drop or 0.0
    allowance = context.format_allowance(limit)
    if part.reason == "small_drop":
        return (
            f"Passed. A small real drop of {context.format_approximate(change.drop, limit)}, inside "
            f"{allowance}."
        )
    if change.high <= 0:
        return f"No regression. {_format_means(change, context)}; even at worst no lower."
    found = (
        f"{_format_means(change, context)}; at worst {context.format_approximate(change.high, limit)} lower"
    )
    if part.reason == "proven":
        return f"No regression. {found}, inside {allowance}."
    return f"Not proven. {found}, outside {allowance}. {suggest_more_runs(metric, context)}"


def _describe_drop(
    part: RuleCheck, metric: MetricDecision, change: MeanDifference, context: MessageContext
) -> str:
    if part.verdict == "fail":
        fall = _format_drop(metric, change, context)
        return f"{REGRESSION}{fall}. Run-to-run noise alone would do this {format_odds(change.p)}."
    if part.reason == "likely_luck":
        return _describe_likely_luck(metric, change, context)
    lower = f"The average is {context.format_difference(change.drop)} lower"
    # If the noise looks smaller than the drop, it comes from very few cases, and its size would mislead.
    if _to_whole_points(change.noise) < _to_whole_points(change.drop):
        noise = f"run-to-run noise alone would do this {format_odds(change.p)}"
    else:
        runs = pluralize(metric.rounds, "run")
        noise = (
            f"this suite's noise is about ±{context.format_difference(change.noise)} after {runs} per case"
        )
    return f"Can't tell. {lower}, but {noise}. {suggest_more_runs(metric, context)}"


def _describe_likely_luck(metric: MetricDecision, change: MeanDifference, context: MessageContext) -> str:
    fall, odds = _format_drop(metric, change, context), format_odds(change.p)
    sentence = f"Passed: {fall}, but run-to-run noise alone would do this {odds}."
    return _add_power(sentence, metric, change, context)


def _describe_exact(
    part: RuleCheck, metric: MetricDecision, change: MeanDifference, context: MessageContext
) -> str:
    how = "The agent is declared deterministic, so this was compared exactly."
    if part.verdict == "fail":
        return f"{REGRESSION}{_format_drop(metric, change, context)}. {how}"
    if change.same:
        return f"No change: {_format_means(change, context)} ({pluralize(change.cases, 'case')}). {how}"
    return f"No regression: {_format_means(change, context)} ({pluralize(change.cases, 'case')}). {how}"


def _format_drop(metric: MetricDecision, change: MeanDifference, context: MessageContext) -> str:
    before = context.format_score(change.baseline, beside=change.candidate)
    after = context.format_score(change.candidate, beside=change.baseline)
    size = f"{pluralize(change.cases, 'case')} × {pluralize(metric.rounds, 'run')}"
    return f"the average fell {context.format_difference(change.drop)} ({before} → {after}) over {size}"


def _format_means(change: MeanDifference, context: MessageContext) -> str:
    if abs(change.drop) < 1e-9:
        return (
            f"{context.format_score(change.candidate)} vs {context.format_score(change.candidate)} on "
            f"{context.base_branch}"
        )
    now = context.format_score(change.candidate, beside=change.baseline)
    return (
        f"{now} vs {context.format_score(change.baseline, beside=change.candidate)} on {context.base_branch}"
    )


def _add_power(sentence: str, metric: MetricDecision, change: MeanDifference, context: MessageContext) -> str:
    """Return `sentence`, followed by one on the smallest reliably caught drop if this drop was estimated."""
    if metric.detectable_drop is None:
        return sentence
    if not context.is_part:
        subject, catches, few = "A suite this size", "catches", "is too small"
    elif change.cases == 1:
        subject, catches, few = "This case alone", "catches", "is too little"
    else:
        subject, catches, few = f"These {change.cases:,} cases", "catch", "are too few"
    if isinf(metric.detectable_drop):
        return f"{sentence} {subject} {few} to catch any drop reliably."
    smallest = context.format_difference(metric.detectable_drop)
    return f"{sentence} {subject} reliably {catches} drops of about {smallest} or more."


def suggest_more_runs(metric: MetricDecision, context: MessageContext) -> str:
    """Return sentences about an inconclusive metric: its effect on the gate, and ways to a clear answer."""
    effect = _EFFECTS[context.on_inconclusive]
    stored = [case.baseline_runs for case in metric.cases.values() if case.baseline_runs]
    # Noise comes from both sides. If the baseline has fewer runs, further runs now would hardly help.
    if stored and max(stored) < metric.rounds:
        return f"{effect} Add cases or store more runs in the baseline for a clear answer."
    if context.fixed_runs:
        return f"{effect} Add cases or raise runs for a clear answer."
    # The runs ended before `max_runs`, so a larger `max_runs` would change nothing.
    if context.max_runs is not None and metric.rounds < context.max_runs:
        return f"{effect} Add cases for a clear answer."
    return f"{effect} Add cases or raise max_runs for a clear answer."


def _describe_minimum(estimate: ThresholdEstimate, name: str, context: MessageContext) -> str:
    value, low, high = (
        round_to_limit(each, estimate.minimum) for each in (estimate.value, estimate.low, estimate.high)
    )
    shown, lowest, highest, minimum = context.format_scores(value, low, high, limit=estimate.minimum)
    if estimate.verdict == "fail":
        return f"{name}{shown} is below the required {minimum}, beyond noise (at most {highest})."
    interval = f"{lowest}–{highest}"
    if value < estimate.minimum:
        return f"{name}{shown} is below {minimum} but within noise ({interval})."
    if estimate.verdict == "inconclusive":
        return f"{name}{shown} meets the required {minimum}, but is not proven to ({interval})."
    return f"{name}{shown} meets the required {minimum}."


def _describe_reliability(metric: MetricDecision) -> str:
    k = metric.rule.reliability.k if metric.rule.reliability else 1
    if metric.reliability is None:
        return f"pass^{k} needs {pluralize(k, 'run')} of every case; a case has fewer."
    return _describe_minimum(metric.reliability, f"pass^{k} of ", MessageContext())


def format_odds(p: float) -> str:
    """Return a probability as odds with one significant digit: `about 1 time in 200`."""
    if p * _RAREST < 1:
        return "less than 1 time in a million"
    times = 1 / p
    unit = 10 ** floor(log10(times))
    return f"about 1 time in {round(times / unit) * unit:,}"


def _format_points(amount: float) -> str:
    """Return a difference of scores in points (hundredths): `5 points` for 0.05.

    The difference is rounded to whole points. It gets more digits only if it would look like zero.
    """
    value = _to_percent(float(f"{amount:.2f}") or amount)  # rounded as a table of scores rounds it
    text = format_score(value, digits=_count_digits(value, 0))
    return f"{text} point" if text == "1" else f"{text} points"


def _format_near_limit(value: float, limit: float, digits: int, limit_text: str) -> str:
    """Return `about <value>`, or `just under <limit>` or `just over <limit>`.

    The value gets as many decimals as are needed to distinguish it from the limit: at least `digits`, and at
    most as many as the limit has. If it then still looks equal to the limit, although it is not, the result
    is `just under` or `just over` the limit, written as `limit_text`.
    """
    digits = _count_digits(value, digits)
    most = max(digits, len(f"{limit:g}".partition(".")[2]))
    while digits < most and f"{value:.{digits}f}" == f"{limit:.{digits}f}":
        digits += 1
    if f"{value:.{digits}f}" != f"{limit:.{digits}f}" or value == limit:
        return f"about {format_score(value, digits=digits)}"
    return f"just {'under' if value < limit else 'over'} {limit_text}"


def _count_digits(value: float, fewest: int) -> int:
    """Return the fewest decimals, from `fewest` to 7, with which the value does not look like zero."""
    digits = fewest
    while value and digits < _MOST_DIGITS and float(f"{value:.{digits}f}") == 0:
        digits += 1
    return digits


def _to_whole_points(amount: float) -> int:
    return round(_to_percent(amount))


def _to_percent(amount: float) -> float:
    return round(amount * 100, 7)


def describe_decision(decision: Decision, parameters: Parameters) -> Iterator[str]:
    """Yield sentences about weaknesses of the decision.

    The weaknesses are runs that differ although they were declared deterministic, runs without a score, and a
    baseline with too few runs.
    """
    for name in (each for each in decision.disagreeing if not is_report_row_table(each)):
        metric = name.partition("\0")[0]
        yield f"{metric} was declared deterministic, but runs disagree: it was judged with its noise."
    for name, found in decision.metrics.items():
        if not is_report_row_table(name) and found.missing and found.reason != "missing_runs":
            metric = name.partition("\0")[0]
            runs = f"{found.missing:,} of {pluralize(found.planned, 'run')}"
            yield f"{metric} was judged without {runs}, which lack a score through no fault of the agent."
    tested = [
        found for found in decision.metrics.values() if found.level is not None and not found.rule.is_figure
    ]
    stored = [case.baseline_runs for found in tested for case in found.cases.values() if case.baseline_runs]
    if stored and max(stored) < _FEW_RUNS:
        runs = pluralize(max(stored), "run")
        yield (
            f"The baseline holds {runs} of each case, which hardly tells how far luck reaches. For a clear "
            "answer use `evalgate run --runs 10` on the default branch once, and `evalgate baseline save`."
        )
    elif tested and not any(_can_confirm(found, parameters) for found in tested):
        yield (
            "The exact test cannot confirm that a single case broke, with this baseline and `confirm_runs`; "
            "cases that fail in every run are found all the same. `evalgate baseline show` says what is "
            "missing."
        )


def _can_confirm(found: MetricDecision, parameters: Parameters) -> bool:
    """Return True if a break of at least one case can be confirmed with its stored runs and `confirm_runs`.

    Also return True if all cases scored so low in the baseline that none can break.
    """
    least = parameters.case_drop - EPSILON
    high = [case for case in found.cases.values() if (case.baseline_mean or 0.0) >= least]
    return not high or any(case.need is not None for case in high)


def describe_low_means(metrics: Iterable[MetricSummary]) -> Iterator[str]:
    """Yield one sentence that lists the means that pass although they are below the cases' threshold.

    Yield nothing if there is no such mean. Means with a minimum of their own are not listed.
    """
    below = [
        f"{metric.label} ({' < '.join(metric.range.format_pair(metric.score, metric.threshold))})"
        for metric in metrics
        if metric.minimum is None and not metric.regressed
        if metric.judgement is None or metric.judgement.reason != "missing_runs"
        if metric.score is not None and not metric.range.is_met(metric.score, metric.threshold)
    ]
    if below:
        yield (
            f"The mean is lower than each case must score: "
            f"{join_first(below, _NAMED_METRICS)}. This closes "
            "nothing, because the mean is compared with the baseline. To require a minimum of the mean, too, "
            "set `min_mean` in its criterion."
        )

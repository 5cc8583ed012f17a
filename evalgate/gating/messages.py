"""The verdicts in words: plain text without an icon, for a reviewer who knows no statistics.

Points, counts and luck; never a p-value. What the sentences round never contradicts what was decided.
"""

from collections.abc import Callable, Iterator
from math import floor, log10

from evalgate.core.formatting import counted, shown
from evalgate.core.frozen import frozen
from evalgate.statistics.mean_difference import Change
from evalgate.statistics.results import CaseOutcome, MetricDecision, Part, RunCount
from evalgate.statistics.threshold_test import Estimate

_RAREST = 1_000_000  # what luck does less often than this is not worth a number
_MOST_DIGITS = 7
_NOISE = 1e-9
_NAMED = 5  # cases that one sentence lists


@frozen
class Words:
    """What the sentences cannot know from the statistics."""

    base: str = "main"
    """Where the baseline comes from."""
    blocking: bool = False
    """`on_inconclusive: fail`."""
    fixed_runs: bool = False
    """The number of runs was given; AUTO otherwise."""
    max_runs: int | None = None
    """Most rounds of AUTO, if known."""
    case_alpha: float = 0.02
    """The chance that any unchanged case is called broken."""
    missing_because: str = "judge or API errors"
    """Why runs have no score."""
    quote: Callable[[str], str] = "`{}`".format
    """How a case id is written; it may be hostile where the text ends up."""
    score: Callable[[float], float] = float
    """A score of 0 to 1 as it is in the metric's own range."""
    is_part: bool = False
    """The metric speaks of some of the cases, as those with a tag."""
    width: float | None = None
    """Of that range, where it is not 0 to 1: differences are told in its numbers. None: in points, which are
    hundredths."""

    def shown(self, score: float | None, beside: float | None = None) -> str:
        """A score in the metric's own range."""
        own, other = (None if each is None else self.score(each) for each in (score, beside))
        return shown(own, beside=other)

    def difference(self, amount: float) -> str:
        """Return how far two scores are apart: `5 points`, or `0.20` in another range than 0 to 1."""
        if self.width is None:
            return _points(amount)
        own = amount * self.width
        return shown(own, digits=_digits(own, 2))

    def approximate(self, amount: float, limit: float) -> str:
        """Return the same beside a limit: `about 4 points`, or `just under 5 points`.

        A drop is not known to a hundredth of a point; and rounded, it must not look like a limit that it
        does not reach.
        """
        if self.width is None:
            text = _approximate(_percent(amount), _percent(limit), 0, f"{_percent(limit):g}")
            return f"{text} point" if text.endswith(" 1") else f"{text} points"
        own, most = amount * self.width, limit * self.width
        return _approximate(own, most, 2, shown(most))

    def allowance(self, limit: float) -> str:
        """`your 5-point allowance`."""
        if self.width is None:
            return f"your {_percent(limit):g}-point allowance"
        return f"your allowance of {shown(limit * self.width)}"


def sentences(metric: MetricDecision, words: Words) -> tuple[str, ...]:
    """What decided about one metric, and its suspects; nothing about parts that ended better."""
    worst = [part for part in metric.parts if part.verdict == metric.verdict]
    texts = [text for part in worst for text in _of_part(part, metric, words)]
    return (*texts, *suspects(metric, words))


def suspects(metric: MetricDecision, words: Words) -> tuple[str, ...]:
    """The cases that look worse and gate nothing; empty without one."""
    names = metric.having("suspect")
    if not names:
        return ()
    other = "other " if metric.having("broken") else ""
    noun = f"{other}case" if len(names) == 1 else f"{other}cases"
    listed = ", ".join(words.quote(name) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    whose = "its" if len(names) == 1 else "their"
    return (f"{len(names):,} {noun} scored lower, which {whose} runs cannot tell from luck: {listed}{more}.",)


def effort(runs: RunCount) -> str:
    """What AUTO saved."""
    return f"{counted(runs.spent, 'run')} instead of {runs.fixed:,}."


def _of_part(part: Part, metric: MetricDecision, words: Words) -> Iterator[str]:
    if part.kind == "cases":
        for case in metric.having("broken"):
            yield broken(case, metric.cases[case], words)
    elif part.kind == "average" and metric.change is not None:
        yield _average(part, metric, metric.change, words)
    elif part.kind == "minimum" and metric.minimum is not None:
        yield _minimum(metric.minimum, "", words)
    elif part.kind == "reliability":
        yield _reliability(metric)
    elif part.reason == "no_baseline":
        yield "No baseline for these cases yet; scores recorded, nothing compared."
    elif part.reason == "missing_runs":
        yield (
            f"Not enough data: {metric.missing:,} of {counted(metric.planned, 'run')} have no score "
            f"({words.missing_because})."
        )


def broken(case: str, outcome: CaseOutcome, words: Words) -> str:
    """One case that broke."""
    name, base = words.quote(case), words.base
    if outcome.need is None:  # compared exactly
        return f"{name} broke: {words.shown(outcome.mean)}, {words.shown(outcome.baseline_mean)} on {base}."
    if _binary(outcome):
        failed = outcome.runs - outcome.passed
        what = (
            f"failed {failed} of {counted(outcome.runs, 'run')}, "
            f"passed {outcome.baseline_passed} of {outcome.baseline_runs} on {base}"
        )
    else:
        what = (
            f"{words.shown(outcome.mean)} on average over {counted(outcome.runs, 'run')}, "
            f"{words.shown(outcome.baseline_mean)} over {outcome.baseline_runs} on {base}"
        )
    chance = f"{words.case_alpha * 100:g} %"
    return (
        f"{name} broke: {what}. Less than a {chance} chance of this happening by luck anywhere in the suite."
    )


def _binary(outcome: CaseOutcome) -> bool:
    """Counting passed runs tells the whole average."""
    return outcome.mean == outcome.passed / max(1, outcome.runs) and (
        outcome.baseline_mean == outcome.baseline_passed / max(1, outcome.baseline_runs)
    )


def _average(part: Part, metric: MetricDecision, change: Change, words: Words) -> str:
    if part.reason in {"exact_fell", "exact_held"}:
        return _describe_exact(part, metric, change, words)
    if part.reason in {"average_fell", "noisy_drop", "likely_luck"}:
        return _fell(part, metric, change, words)
    if part.reason in {"small_drop", "proven", "unproven"}:
        return _beside_allowance(part, metric, change, words)
    if part.reason == "unchanged":
        whole = "the only case" if change.cases == 1 else f"all {change.cases:,} cases"
        return f"No change: {whole} scored the same as on {words.base}."
    if part.reason == "better":
        return f"Better than {words.base}: +{words.difference(-change.drop)}, too much to be luck."
    size = f"{counted(change.cases, 'case')}, {counted(metric.rounds, 'run')} each"
    return f"No sign of a regression: {_now(change, words)} ({size}). {_notice(change, words)}"


def _beside_allowance(part: Part, metric: MetricDecision, change: Change, words: Words) -> str:
    limit = metric.rule.max_drop or 0.0
    allowance = words.allowance(limit)
    if part.reason == "small_drop":
        return f"Passed. A small real drop of {words.approximate(change.drop, limit)}, inside {allowance}."
    if change.high <= 0:
        return f"No regression. {_now(change, words)}; even at worst no lower."
    found = f"{_now(change, words)}; at worst {words.approximate(change.high, limit)} lower"
    if part.reason == "proven":
        return f"No regression. {found}, inside {allowance}."
    return f"Not proven. {found}, outside {allowance}. {_advice(metric, words)}"


def _fell(part: Part, metric: MetricDecision, change: Change, words: Words) -> str:
    if part.verdict == "fail":
        fall = _fall(metric, change, words)
        return f"Regression: {fall}. Run-to-run noise alone would do this {_often(change.p)}."
    if part.reason == "likely_luck":
        return _likely_luck(metric, change, words)
    lower = f"The average is {words.difference(change.drop)} lower"
    if _whole(change.noise) < _whole(change.drop):  # few cases carry all the noise: its width says nothing
        noise = f"run-to-run noise alone would do this {_often(change.p)}"
    else:
        runs = counted(metric.rounds, "run")
        noise = f"this suite's noise is about ±{words.difference(change.noise)} after {runs} per case"
    return f"Can't tell. {lower}, but {noise}. {_advice(metric, words)}"


def _likely_luck(metric: MetricDecision, change: Change, words: Words) -> str:
    return (
        f"Passed: {_fall(metric, change, words)}, but run-to-run noise alone would do this "
        f"{_often(change.p)}. {_notice(change, words)}"
    )


def _describe_exact(part: Part, metric: MetricDecision, change: Change, words: Words) -> str:
    how = "The agent is declared deterministic, so this was compared exactly."
    if part.verdict == "fail":
        return f"Regression: {_fall(metric, change, words)}. {how}"
    if change.same:
        return f"No change: {_now(change, words)} ({counted(change.cases, 'case')}). {how}"
    return f"No regression: {_now(change, words)} ({counted(change.cases, 'case')}). {how}"


def _fall(metric: MetricDecision, change: Change, words: Words) -> str:
    before = words.shown(change.baseline, beside=change.candidate)
    after = words.shown(change.candidate, beside=change.baseline)
    size = f"{counted(change.cases, 'case')} × {counted(metric.rounds, 'run')}"
    return f"the average fell {words.difference(change.drop)} ({before} → {after}) over {size}"


def _now(change: Change, words: Words) -> str:
    if abs(change.drop) < 1e-9:
        return f"{words.shown(change.candidate)} vs {words.shown(change.candidate)} on {words.base}"
    now = words.shown(change.candidate, beside=change.baseline)
    return f"{now} vs {words.shown(change.baseline, beside=change.candidate)} on {words.base}"


def _notice(change: Change, words: Words) -> str:
    if not words.is_part:
        subject, catches, few = "A suite this size", "catches", "is too small"
    elif change.cases == 1:
        subject, catches, few = "This case alone", "catches", "is too little"
    else:
        subject, catches, few = f"These {change.cases:,} cases", "catch", "are too few"
    if change.notice >= 1:
        return f"{subject} {few} to catch any drop reliably."
    return f"{subject} reliably {catches} drops of about {words.difference(change.notice)} or more."


def _advice(metric: MetricDecision, words: Words) -> str:
    """Return whether this closes the gate, and what would give a clear answer.

    The noise is that of both sides: where the baseline has fewer runs than were made now, more runs now
    change next to nothing. `max_runs` helps only a run that used it up.
    """
    standing = "Blocking, as on_inconclusive: fail asks." if words.blocking else "Not blocking."
    stored = [case.baseline_runs for case in metric.cases.values() if case.baseline_runs]
    if stored and max(stored) < metric.rounds:
        return f"{standing} Add cases or store more runs in the baseline for a clear answer."
    if words.fixed_runs:
        return f"{standing} Add cases or raise runs for a clear answer."
    if words.max_runs is not None and metric.rounds < words.max_runs:
        return f"{standing} Add cases for a clear answer."
    return f"{standing} Add cases or raise max_runs for a clear answer."


def _minimum(estimate: Estimate, name: str, words: Words) -> str:
    # What the last bits are below the minimum meets it, and is printed as such.
    is_met = abs(estimate.value - estimate.minimum) < _NOISE
    value = words.shown(estimate.minimum if is_met else estimate.value, beside=estimate.minimum)
    minimum = words.shown(estimate.minimum)
    if estimate.verdict == "fail":
        highest = words.shown(estimate.high, beside=estimate.minimum)
        return f"{name}{value} is below the required {minimum}, beyond noise (at most {highest})."
    interval = f"{words.shown(estimate.low)}–{words.shown(estimate.high)}"
    if estimate.value < estimate.minimum - _NOISE:
        return f"{name}{value} is below {minimum} but within noise ({interval})."
    if estimate.verdict == "inconclusive":
        return f"{name}{value} meets the required {minimum}, but is not proven to ({interval})."
    return f"{name}{value} meets the required {minimum}."


def _reliability(metric: MetricDecision) -> str:
    k = metric.rule.reliability.k if metric.rule.reliability else 1
    if metric.reliability is None:
        return f"pass^{k} needs {counted(k, 'run')} of every case; a case has fewer."
    return _minimum(metric.reliability, f"pass^{k} of ", Words())


def _often(p: float) -> str:
    """How often luck does it: one digit says enough."""
    if p * _RAREST < 1:
        return "less than 1 time in a million"
    times = 1 / p
    unit = 10 ** floor(log10(times))
    return f"about 1 time in {round(times / unit) * unit:,}"


def _points(amount: float) -> str:
    """Whole points, unless that looks like nothing."""
    value = _percent(float(f"{amount:.2f}") or amount)  # rounded as a table of scores rounds it
    text = shown(value, digits=_digits(value, 0))
    return f"{text} point" if text == "1" else f"{text} points"


def _approximate(value: float, limit: float, digits: int, limit_text: str) -> str:
    """Return `about` and the value with the decimals of the limit, or on which side of it the value is."""
    digits = _digits(value, digits)
    most = max(digits, len(f"{limit:g}".partition(".")[2]))
    while digits < most and f"{value:.{digits}f}" == f"{limit:.{digits}f}":
        digits += 1
    if f"{value:.{digits}f}" != f"{limit:.{digits}f}" or value == limit:
        return f"about {shown(value, digits=digits)}"
    return f"just {'under' if value < limit else 'over'} {limit_text}"


def _digits(value: float, fewest: int) -> int:
    """Return with how many decimals the value does not look like nothing."""
    digits = fewest
    while value and digits < _MOST_DIGITS and float(f"{value:.{digits}f}") == 0:
        digits += 1
    return digits


def _whole(amount: float) -> int:
    return round(_percent(amount))


def _percent(amount: float) -> float:
    return round(amount * 100, 7)

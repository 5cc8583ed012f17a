"""The facts of a run that every report shows: its failing cases, their faults, and what changed.

All reports for people use these functions, so that they show the same facts in the same order.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator

from evalgate.core.formatting import format_figure, format_limit, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import UNLIMITED
from evalgate.core.types import (
    AGENT_FAULT_OUTCOMES,
    NON_AGENT_OUTCOMES,
    CaseChange,
    CaseMetric,
    CaseResult,
    Change,
    Comparison,
    MetricSummary,
    Outcome,
    Record,
    Reply,
    RunResult,
    Status,
    Totals,
    TurnResult,
)

_LEAST_SHARE = 0.2
_LEAST_SECONDS = 0.1
"""The smallest changes that are shown: a share of time, tokens or cost, and seconds. Less is noise."""

_MOST_REASONS = 10
"""The most reasons of a verdict that reports show in full."""


@frozen
class Finding:
    """A case that a report shows, usually because it failed or could not be judged."""

    case: CaseResult
    is_new: bool = False
    """True if the comparison with the baseline says that the case is newly failing."""
    baseline_replies: tuple[Reply | None, ...] = ()
    """The agent's replies in the baseline, turn by turn; () if they are not known."""

    @property
    def name(self) -> str:
        """Return `eval_set/eval_id`. It comes from the eval set, so it may hold any characters."""
        return format_case_name(self.case)

    @property
    def run(self) -> RunResult | None:
        """Return the first unanswered run, else the first with a bad metric, else the first; None: no run."""
        from evalgate.datasets.divergences import find_failing_run  # a green run has no use for it

        return find_failing_run(self.case)

    @property
    def turn(self) -> tuple[int, TurnResult] | None:
        """Return number (1-based) and result of the turn to look at in `run`; None if there is none.

        The turn is the only turn, or the first that lacks a reply or an expectation, or failed a metric.
        """
        run = self.run
        if run is None or len(run.turns) <= 1:
            return (1, run.turns[0]) if run and run.turns else None
        reported = {metric.name for metric in run.metrics if not metric.gates}
        # If no turn is expected, a simulated user wrote them all, and none is more than the case asks for.
        has_expected = any(turn.expected is not None for turn in run.turns)
        odd = (
            (number, turn)
            for number, turn in enumerate(run.turns, 1)
            if (has_expected and turn.expected is None) or _is_bad(turn, reported)
        )
        return next(odd, None)


def list_findings(record: Record) -> list[Finding]:
    """Return the gating cases that failed or errored, newly failing ones first, each group in file order."""
    newly = {
        change.key: change.then
        for change in (record.comparison.changes if record.comparison else ())
        if change.change == "newly_failing"
    }
    findings = [
        Finding(case, key in newly, newly.get(key, ()))
        for case in record.cases
        if case.status in {"failed", "errored"} and case.gates
        for key in [case.key]
    ]
    return sorted(findings, key=lambda finding: not finding.is_new)


@frozen
class FindingGroup:
    """Cases that failed for the same reason, as far as their outcomes, scores and messages show."""

    first: Finding
    """The case that is shown in full."""
    others: tuple[Finding, ...] = ()

    @property
    def size(self) -> int:
        """Return the number of cases, 1 or more."""
        return 1 + len(self.others)

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        """Return all cases of the group."""
        return tuple(finding.case for finding in (self.first, *self.others))


_NUMBER = re.compile(r"\d+")


def group_findings(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Group findings with similar reasons, and with the same outcome or the same metrics and scores.

    Reasons are similar if they differ only in numbers. Groups keep the order of their first finding. Newly
    failing cases have groups apart from the other cases. A case without a reason is a group by itself.
    """
    groups: dict[object, list[Finding]] = {}
    for index, finding in enumerate(findings):
        # A finding without a key gets its own index, so it joins no group.
        groups.setdefault(_build_cause_key(finding) or index, []).append(finding)
    return [FindingGroup(members[0], tuple(members[1:])) for members in groups.values()]


def _build_cause_key(finding: Finding) -> tuple[object, ...]:
    """Return the key of a finding's cause, by which findings are grouped; empty if no reason is known."""
    case = finding.case
    run = next((run for run in case.runs if run.outcome != "answered"), None)
    if run is not None:
        message = run.failure.message if run.failure else ""
        return (finding.is_new, run.outcome, _NUMBER.sub("", message)) if message else ()
    bad = [metric for metric in case.metrics if metric.gating_status in {"failed", "errored"}]
    if not any(metric.reason for metric in bad):
        return ()
    return finding.is_new, *((metric.name, metric.score, _NUMBER.sub("", metric.reason)) for metric in bad)


def find_still_failing(record: Record) -> list[CaseResult]:
    """Return the gating cases that fail and failed in the baseline; none if there is no baseline."""
    if record.comparison is None:
        return []
    other = {change.key for change in record.comparison.changes}
    gating = (case for case in record.cases if case.gates)
    bad = (case for case in gating if case.is_conclusive and case.status != "passed")
    return [case for case in bad if case.key not in other]


def find_flaky_cases(record: Record) -> list[tuple[CaseResult, int, int]]:
    """Return the gating cases with both passed and failed runs, as (case, passed runs, conclusive runs)."""
    gating = (case for case in record.cases if len(case.runs) > 1 and case.gates)
    counted = ((case, *count_passed_runs(case)) for case in gating)
    return [(case, passed, runs) for case, passed, runs in counted if 0 < passed < runs]


def count_passed_runs(case: CaseResult) -> tuple[int, int]:
    """Return the number of passed runs and of conclusive runs, which no broken metric or service spoiled."""
    conclusive = [run for run in case.runs if _is_conclusive(run)]
    passed = sum(
        run.outcome == "answered"
        and all(metric.gating_status not in {"failed", "errored"} for metric in run.metrics)
        for run in conclusive
    )
    return passed, len(conclusive)


def _is_conclusive(run: RunResult) -> bool:
    """Return True if the result of a run is due to the agent, not to a broken metric, judge or service."""
    if run.outcome in NON_AGENT_OUTCOMES:
        return False
    return run.outcome in AGENT_FAULT_OUTCOMES or all(each.gating_status != "errored" for each in run.metrics)


def format_case_name(case: CaseResult) -> str:
    """Return the name of a case in reports: `eval_set/eval_id`."""
    return f"{case.eval_set_id}/{case.eval_id}"


def resolve_from_root(folder: str, path: str) -> str:
    """Return a record's path, relative to `folder`, as a path relative to the repository's root."""
    return posixpath.normpath(posixpath.join(folder, path))


def describe_faults(case: CaseResult) -> Iterator[str]:
    """Yield the reasons why a case did not pass, one sentence each.

    If a run has no answer, the first such run is the only reason. Otherwise each gating metric that failed
    or errored is a reason, so a case that passed has none.
    """
    if agent_fault := _describe_agent_fault(case):
        yield agent_fault
        return
    for metric in case.metrics:
        if metric.gating_status == "failed":
            yield _append_reason(f"{metric.name} {format_score_and_threshold(metric)}", metric.reason)
        elif metric.gating_status == "errored":
            yield _append_reason(f"{metric.name} could not be evaluated", metric.reason)


def explain_not_evaluated(case: CaseResult) -> str:
    """Return the reason why a case could not be evaluated."""
    reasons = (metric.reason for metric in case.metrics if metric.reason and metric.gates)
    return _describe_agent_fault(case) or next(reasons, "no metric applies to this case")


def format_score_and_threshold(metric: CaseMetric) -> str:
    """Return `0.50 < 1.00`, with enough digits that the sign is right; `– of 1.00` without a score."""
    score, threshold = metric.range.format_pair(metric.score, metric.threshold)
    if metric.score is None:
        return f"– of {threshold}"
    above, below = ("≤", ">") if metric.range.lower_is_better else ("≥", "<")
    sign = above if metric.range.is_met(metric.score, metric.threshold) else below
    return f"{score} {sign} {threshold}"


def get_effective_status(metric: MetricSummary) -> Status:
    """Return the status for the metric table: `failed` for a metric that passed but regressed."""
    return "failed" if metric.regressed and metric.status == "passed" else metric.status


def describe_comparisons(record: Record) -> Iterator[tuple[str, str]]:
    """Yield (label, sentence) of statistical findings that the verdict's shown reasons do not contain.

    A metric with too few runs to decide is included, even if another metric decides the verdict.
    """
    reasons = frozenset(record.verdict.reasons[:_MOST_REASONS])
    for metric in record.metrics:
        judgement = metric.judgement
        if judgement is None or judgement.reason == "nothing_asked":
            continue
        if judgement.reason == "no_baseline" and record.comparison is None:
            continue  # reports say once that there is no baseline at all
        yield from (
            (label, sentence)
            for label, sentence in metric.iter_sentences()
            if f"{label}: {sentence}" not in reasons
        )


def format_run_counts(record: Record) -> str:
    """Return the number of runs: `3 runs each, 2 follow-up runs`; "" if each case was run once.

    With `runs: auto`, return the number of all runs, and the runs saved in comparison with a fixed number.
    """
    further = sum(run.confirms for case in record.cases for run in case.runs)
    followed = pluralize(further, "follow-up run") if further else ""
    if record.effort is None:
        each = "1 run each" if followed else ""
        each = f"{record.runs:,} runs each" if record.runs > 1 else each
        return ", ".join(filter(None, (each, followed)))
    saved = f"{record.effort.saved:,} saved by `runs: auto`" if record.effort.saved else ""
    followed = f"{further:,} of them to follow up" if further else ""
    return ", ".join(filter(None, (pluralize(record.effort.spent, "run"), followed, saved)))


def format_mean(metric: MetricSummary) -> str:
    """Return the mean; it compares with the minimum and with the baseline as the numbers do."""
    return _format_beside_others(metric, metric.score)


def format_baseline(metric: MetricSummary) -> str:
    """Return the mean in the baseline; without a change it may look like the mean."""
    if metric.delta or metric.baseline == metric.score:
        return _format_beside_others(metric, metric.baseline)
    return metric.range.format(metric.baseline)


def format_minimum(metric: MetricSummary) -> str:
    """Return the minimum of the mean, of each case (`0.50 a case`) or of both, or the limits of a budget."""
    own = _format_beside_others(metric, metric.threshold)
    if metric.range.lower_is_better:
        return _format_limits(metric, own)
    each = f"{own} a case"
    if metric.mean_judged_by == "baseline":
        return each
    return own if metric.min_mean is None else f"{_format_beside_others(metric, metric.min_mean)} ({each})"


def _format_beside_others(metric: MetricSummary, number: float | None) -> str:
    """Format one of the numbers that a table shows of a metric, so that they compare as they are."""
    limits = (metric.minimum, metric.threshold)
    printed = (metric.score, metric.baseline if metric.delta else None, *limits)
    if number is not None and number in limits:
        return metric.range.format_limit(number, beside=printed)
    return metric.range.format(number, beside=printed)


def _format_limits(metric: MetricSummary, own: str) -> str:
    """Return the limits of a budget, as `6,000, × 1.15, p95 9,000`; "–" if none is known."""
    ratio = metric.judgement.ratio if metric.judgement else None
    percentile = metric.judgement.percentile if metric.judgement else None
    limits = (
        own if metric.threshold < UNLIMITED else "",
        f"× {format_limit(ratio.max)}" if ratio else "",
        f"p95 {format_figure(percentile.minimum, beside=percentile.value)}" if percentile else "",
    )
    return ", ".join(filter(None, limits)) or own


CHANGES: dict[Change, str] = {
    "newly_failing": "newly failing",
    "flaky": "failing now and then",
    "newly_passing": "newly passing",
    "changed": "changed",
    "new": "new",
    "removed": "removed",
}
"""The name of each kind of change in reports, the most important first."""


def group_changes(record: Record, comparison: Comparison) -> dict[Change, list[CaseChange]]:
    """Return the changes of gating cases by kind, in the order of `CHANGES`, without empty kinds."""
    exempt = {case.key for case in record.cases if not case.gates}
    groups: dict[Change, list[CaseChange]] = {change: [] for change in CHANGES}
    for change in comparison.changes:
        if change.key not in exempt:
            groups[change.change].append(change)
    return {change: found for change, found in groups.items() if found}


def format_change_counts(record: Record, comparison: Comparison) -> str:
    """Return `1 newly failing, 2 new, 5 unchanged, 1 quarantined, 3 not part of this run`."""
    groups = group_changes(record, comparison)
    counts = [f"{len(found):,} {CHANGES[change]}" for change, found in groups.items()]
    exempt = [case for case in record.cases if not case.gates]
    quarantined = sum(case.quarantine is not None for case in exempt)
    changed = {change.key for change in comparison.changes}
    # The comparison counts cases that do not gate as unchanged too; here they have counts of their own.
    unchanged_exempt = sum(case.is_conclusive and case.key not in changed for case in exempt)
    unchanged = max(0, comparison.unchanged - unchanged_exempt)
    others = {
        "quarantined": quarantined,
        "observed": len(exempt) - quarantined,
        "not part of this run": comparison.left_out,
    }
    return ", ".join(
        [*counts, f"{unchanged:,} unchanged", *(f"{many:,} {what}" for what, many in others.items() if many)]
    )


def count_compared_cases(record: Record) -> int:
    """Return the number of compared cases if a metric has cases that cannot be compared; else 0.

    Of several such metrics the largest number counts. Budgets are left out: other sentences describe them.
    """
    scores = [each for each in record.metrics if not each.range.lower_is_better]
    return max((each.compared for each in scores if 0 < each.compared < each.n), default=0)


def explain_delta(record: Record) -> Iterator[str]:
    """Yield the reasons why Δ is not simply the score minus the baseline."""
    if compared := count_compared_cases(record):
        yield f"Δ is over the {pluralize(compared, 'case')} that can be compared."
    scores = [metric for metric in record.metrics if not metric.range.lower_is_better]
    if any(metric.errors and metric.compared_score != metric.score for metric in scores):
        which = "" if len(scores) == len(record.metrics) else " of scores"
        yield f"The baseline and Δ{which} count a run without an answer as 0; the score is over the answers."


def describe_missing_baseline(record: Record) -> str:
    """Return the sentence that reports show if there is no comparison with a baseline."""
    if record.shard is not None:
        return "One shard alone is compared with no baseline: that is done when all are merged."
    unchecked = [each.metric for each in record.criteria if each.options.get("max_increase") is not None]
    if unchecked:
        names = ", ".join(dict.fromkeys(unchecked))
        return f"No baseline: absolute thresholds only. Not checked: `max_increase` of {names}."
    return "No baseline: absolute thresholds only."


def format_case_counts(totals: Totals) -> str:
    """Return `3 cases: 2 passed, 1 failed`."""
    counts = {
        "passed": totals.passed,
        "failed": totals.failed,
        "errored": totals.errored,
        "not evaluated": totals.not_evaluated,
    }
    parts = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
    return f"{pluralize(totals.cases, 'case')}{': ' if parts else ''}{parts}"


def format_total_cost(record: Record) -> str:
    """Return `0.0123 USD` or `at least 0.0123 USD: the cost of 3 runs is not known`; "" for no cost.

    If no cost at all is known, return `the cost of 3 runs is not known`.
    """
    totals = record.totals
    if totals.cost_usd is not None:
        return f"{totals.cost_usd:,.4f} USD" if totals.cost_usd else ""
    unknown = 0
    for run in (run for case in record.cases for run in case.runs):
        usages = (run.usage, run.user_usage, *(attempt.usage for attempt in run.earlier_attempts))
        unknown += any(usage is not None and usage.cost_usd is None for usage in usages)
    blind = f"the cost of {pluralize(unknown, 'run') if unknown else 'some runs'} is not known"
    return f"at least {totals.known_usd:,.4f} USD: {blind}" if totals.known_usd else blind


def describe_run_costs(comparison: Comparison) -> str:
    """Return `a run takes 1.20 s (+0.40 s), 350 tokens (−112), on average over 12 cases`.

    The changes are those since the baseline. Only a figure that changed by a fifth or more is named, and the
    time only if it changed by 0.1 seconds or more. Return "" if there is no such figure.
    """
    then, now = comparison.then, comparison.now
    if then is None or now is None:
        return ""
    parts = []
    difference = now.duration_s - then.duration_s
    if abs(difference) >= max(_LEAST_SECONDS, _LEAST_SHARE * then.duration_s):
        parts.append(f"{now.duration_s:,.2f} s ({_format_change(difference, 2)} s)")
    tokens_then, tokens = then.input_tokens + then.output_tokens, now.input_tokens + now.output_tokens
    if tokens and tokens_then and abs(tokens - tokens_then) >= _LEAST_SHARE * tokens_then:
        parts.append(f"{pluralize(round(tokens), 'token')} ({_format_change(tokens - tokens_then, 0)})")
    if now.cost_usd and then.cost_usd and abs(now.cost_usd - then.cost_usd) >= _LEAST_SHARE * then.cost_usd:
        parts.append(f"{now.cost_usd:,.4f} USD ({_format_change(now.cost_usd - then.cost_usd, 4)} USD)")
    if not parts:
        return ""
    return f"a run takes {', '.join(parts)}, on average over {pluralize(now.cases, 'case')}"


def _format_change(difference: float, digits: int) -> str:
    rounded = round(difference, digits)
    sign = "+" if rounded > 0 else "−" if rounded < 0 else "±"
    return f"{sign}{abs(rounded):,.{digits}f}"


OUTCOMES: dict[Outcome, str] = {
    "answered": "answered",
    "crashed": "crashed",
    "timed_out": "timed out",
    "faulted": "could not be run",
    "not_run": "not run",
}
"""The words for each outcome of a run."""


def _describe_agent_fault(case: CaseResult) -> str:
    run = next((run for run in case.runs if run.outcome != "answered"), None)
    if run is None:
        return ""
    where = f" in run {run.run} of {len(case.runs)}" if len(case.runs) > 1 else ""
    return _append_reason(f"{OUTCOMES[run.outcome]}{where}", run.failure.message if run.failure else "")


def _append_reason(sentence: str, reason: str) -> str:
    return f"{sentence}: {reason}" if reason else sentence


def _is_bad(turn: TurnResult, reported: Collection[str]) -> bool:
    """Return True if the turn lacks a reply, or fails a metric that is not among `reported`."""
    return turn.actual is None or any(
        each.status in {"failed", "errored"} and each.name not in reported for each in turn.metrics
    )

"""Facts that every report shows: the failing cases, the reasons of failures, counts and cost.

All reports for people use these functions, so that they show the same facts in the same order.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator

from evalgate.core.formatting import format_usd, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import (
    AGENT_FAULT_OUTCOMES,
    NON_AGENT_OUTCOMES,
    CaseMetric,
    CaseResult,
    MetricSummary,
    Outcome,
    Record,
    Reply,
    RunResult,
    Totals,
    TurnResult,
)

_MOST_REASONS = 10
"""Number of first reasons of a verdict that every report shows, if there is space."""

_MINIMA = "Minima that are judged with their noise"
_ROUNDING = 0.00051
"""Largest difference between two equal means that rounding can cause, as a share of the metric's range."""


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
        """Return `eval_set/eval_id`. It may hold any characters, so reports have to escape it."""
        return format_case_name(self.case)

    @property
    def run(self) -> RunResult | None:
        """Return the run that explains the failure best; None if the case was not run.

        This is the first run without an answer. If every run has an answer, it is the first run with a failed
        or errored gating metric. If there is no such run, it is the first run.
        """
        from evalgate.core.failures.run_divergences import find_failing_run

        return find_failing_run(self.case)

    @property
    def turn(self) -> tuple[int, TurnResult] | None:
        """Return (1-based number, result) of the turn in `run` that explains the failure best.

        If the run has only one turn, return this turn. Otherwise return the first turn that:

        - has no reply,
        - failed or errored in a gating metric, or
        - has no expected reply, although other turns have one.

        Return None if there is no such turn.
        """
        run = self.run
        if run is None or len(run.turns) <= 1:
            return (1, run.turns[0]) if run and run.turns else None
        not_gating = {metric.name for metric in run.metrics if not metric.gates}
        # A case without expected turns has a simulated user, so no turn is unexpected.
        has_expected = any(turn.expected is not None for turn in run.turns)
        odd = (
            (number, turn)
            for number, turn in enumerate(run.turns, 1)
            if (has_expected and turn.expected is None) or _is_bad(turn, not_gating)
        )
        return next(odd, None)


def list_findings(record: Record) -> list[Finding]:
    """Return the gating cases that failed or errored: first those that are newly failing, then the others.

    Cases of both kinds are in the order of the record.
    """
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
    """Cases that failed for the same reason, judged by their outcomes, scores and messages."""

    first: Finding
    """The case that is shown in full."""
    others: tuple[Finding, ...] = ()

    @property
    def size(self) -> int:
        """Return the number of cases, 1 or more."""
        return 1 + len(self.others)

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        """Return the results of all cases in the group."""
        return tuple(finding.case for finding in (self.first, *self.others))


_NUMBER = re.compile(r"\d+")


def group_findings(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Group findings by the reason of the failure, in the order of each group's first finding.

    If a run has no answer, the reason is the outcome and the message of the first such run. Otherwise the
    reason is the failed and errored gating metrics, with their scores and messages. Numbers in messages are
    ignored. A newly failing case is never in a group with a case that is not newly failing. A case without
    any message is a group by itself.
    """
    groups: dict[object, list[Finding]] = {}
    for index, finding in enumerate(findings):
        # A finding without a key gets its own index, so it joins no group.
        groups.setdefault(_build_cause_key(finding) or index, []).append(finding)
    return [FindingGroup(members[0], tuple(members[1:])) for members in groups.values()]


def _build_cause_key(finding: Finding) -> tuple[object, ...]:
    """Return the reason of the failure as a key, equal for findings of the same group.

    Return () if the failure has no message.
    """
    case = finding.case
    run = next((run for run in case.runs if run.outcome != "answered"), None)
    if run is not None:
        message = run.failure.message if run.failure else ""
        return (finding.is_new, run.outcome, _NUMBER.sub("", message)) if message else ()
    bad = [metric for metric in case.metrics if metric.gating_status in {"failed", "errored"}]
    if not any(metric.reason for metric in bad):
        return ()
    return finding.is_new, *((metric.name, metric.score, _NUMBER.sub("", metric.reason)) for metric in bad)


def find_flaky_cases(record: Record) -> list[tuple[CaseResult, int, int]]:
    """Return the gating cases with both passed and failed runs, as (case, passed runs, conclusive runs)."""
    gating = (case for case in record.cases if len(case.runs) > 1 and case.gates)
    counted = ((case, *count_passed_runs(case)) for case in gating)
    return [(case, passed, runs) for case, passed, runs in counted if 0 < passed < runs]


def count_passed_runs(case: CaseResult) -> tuple[int, int]:
    """Return (number of passed runs, number of conclusive runs).

    A run is conclusive if the agent caused its result. A failed metric, judge or service makes a run
    inconclusive.
    """
    conclusive = [run for run in case.runs if _is_conclusive(run)]
    passed = sum(
        run.outcome == "answered"
        and all(metric.gating_status not in {"failed", "errored"} for metric in run.metrics)
        for run in conclusive
    )
    return passed, len(conclusive)


def _is_conclusive(run: RunResult) -> bool:
    """Return True if the result of a run is due to the agent, not to a failed metric, judge or service."""
    if run.outcome in NON_AGENT_OUTCOMES:
        return False
    return run.outcome in AGENT_FAULT_OUTCOMES or all(each.gating_status != "errored" for each in run.metrics)


def format_case_name(case: CaseResult) -> str:
    """Return the name of a case in reports: `eval_set/eval_id`."""
    return f"{case.eval_set_id}/{case.eval_id}"


@frozen
class NamedCases:
    """Names of cases with one description for all named cases, such as `still failing`."""

    description: str
    """What the cases have in common: a kind of change, or the reason why the cases could not be evaluated."""
    names: tuple[str, ...]
    left_out: int
    """The number of cases that are not named."""


def resolve_from_root(folder: str, path: str) -> str:
    """Return `path`, which is relative to `folder`, as a path relative to the repository's root."""
    return posixpath.normpath(posixpath.join(folder, path))


def describe_faults(case: CaseResult) -> Iterator[str]:
    """Yield a sentence for each reason why a case did not pass; nothing for a passed case.

    If a run has no answer, the only reason is the outcome of the first such run, with its message. Otherwise
    each gating metric that failed or errored is a reason.
    """
    if fault := _describe_unanswered_run(case):
        yield fault
        return
    for metric in case.metrics:
        if metric.gating_status == "failed":
            yield _append_reason(f"{metric.name} {format_score_and_threshold(metric)}", metric.reason)
        elif metric.gating_status == "errored":
            yield _append_reason(f"{metric.name} could not be evaluated", metric.reason)


def explain_not_evaluated(case: CaseResult) -> str:
    """Return the reason why a case could not be evaluated: a run without an answer, or a metric's reason."""
    reasons = (metric.reason for metric in case.metrics if metric.reason and metric.gates)
    return _describe_unanswered_run(case) or next(reasons, "no metric applies to this case")


def format_score_and_threshold(metric: CaseMetric) -> str:
    """Return a score and its threshold as `0.50 < 1.00`, with enough digits to make the sign true.

    The sign is `<` or `≥`; for a budget `>` or `≤`. Without a score, return `– of 1.00`.
    """
    score, threshold = metric.range.format_pair(metric.score, metric.threshold)
    if metric.score is None:
        return f"– of {threshold}"
    above, below = ("≤", ">") if metric.range.lower_is_better else ("≥", "<")
    sign = above if metric.range.is_met(metric.score, metric.threshold) else below
    return f"{score} {sign} {threshold}"


def describe_comparisons(record: Record) -> Iterator[tuple[str, str]]:
    """Yield (label of the metric, sentence) for each sentence about the statistical comparison of a metric.

    A sentence is left out if it is among the first 10 reasons of the verdict, because every report shows
    these reasons. If the whole run has no baseline, the sentence that a metric has none is left out.
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
    """Return the number of runs per case as `3 runs each, 2 follow-up runs`; "" if each case was run once.

    With `runs: auto`, return the number of runs of all cases, and the number of runs that this option saved.
    A follow-up run repeats a failed case, to tell if the case is flaky.
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


def describe_missing_baseline(record: Record) -> str:
    """Return the sentences that reports show instead of a comparison with a baseline."""
    if record.shard is not None:
        return "One shard alone is compared with no baseline: that is done when all are merged."
    sentences = ["No baseline: absolute thresholds only."]
    unchecked = [each.metric for each in record.criteria if each.options.get("max_increase") is not None]
    if unchecked:
        sentences.append(f"Not checked: `max_increase` of {', '.join(dict.fromkeys(unchecked))}.")
    return " ".join((*sentences, *explain_left_out_cases(record)))


def explain_left_out_cases(record: Record) -> Iterator[str]:
    """Yield sentences about cases that count in other figures of a metric, but not in its score.

    These cases have a run without a score. The other figures are the baseline, the change since the baseline
    (Δ), and the value that is compared with the minimum. A sentence about crashes in the baseline and Δ is
    not yielded here, but by `baseline_lines.explain_delta`.
    """
    cases = [case for case in record.cases if case.gates]
    scores = [metric for metric in record.metrics if metric.gates and not metric.range.lower_is_better]
    compared = [metric for metric in scores if _differs(metric, metric.compared_score)]
    judged = [
        metric
        for metric in scores
        if metric.judgement and metric.judgement.minimum and _differs(metric, metric.judgement.minimum.value)
    ]
    for subject, metrics in (("The baseline and Δ", compared), (_MINIMA, judged)):
        if any(_has_lost_run(metric, case) for metric in metrics for case in cases):
            yield (
                f"{subject} leave out a run without a score that is no fault of the agent; the score leaves "
                "its case out."
            )
    if judged and any(case.agent_failed for case in cases):
        yield f"{_MINIMA} count a crash or timeout as the worst score; the score leaves its case out."


def _differs(metric: MetricSummary, mean: float | None) -> bool:
    """Return True if `mean` differs from the metric's score by more than rounding.

    If `mean` is None, return False. If only the score is None, return True.
    """
    if mean is None:
        return False
    return metric.score is None or abs(mean - metric.score) > _ROUNDING * metric.range.width


def _has_lost_run(metric: MetricSummary, case: CaseResult) -> bool:
    """Return True if a run of a case lacks a score of `metric` for a reason that is no fault of the agent.

    Such a reason is, for example, a failure of the judge. The case then has no score, although some of its
    runs have a score.
    """
    return not case.agent_failed and any(
        own.name == metric.name
        and own.score is None
        and any(each.name == own.name and each.score is not None for run in case.runs for each in run.metrics)
        for own in case.metrics
    )


def format_case_counts(totals: Totals) -> str:
    """Return the number of cases by status: `3 cases: 2 passed, 1 failed`."""
    counts = {
        "passed": totals.passed,
        "failed": totals.failed,
        "errored": totals.errored,
        "not evaluated": totals.not_evaluated,
    }
    parts = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
    return f"{pluralize(totals.cases, 'case')}{': ' if parts else ''}{parts}"


def format_total_cost(record: Record) -> str:
    """Return the cost of all runs, such as `0.0123 USD`; "" if the runs cost nothing.

    If only some costs are known, return `at least 0.0123 USD: the cost of 3 runs is not known`. If no cost is
    known, return `the cost of 3 runs is not known`.
    """
    totals = record.totals
    if totals.cost_usd is not None:
        return format_usd(totals.cost_usd) if totals.cost_usd else ""
    unknown = 0
    for run in (run for case in record.cases for run in case.runs):
        unknown += any(usage.cost_usd is None for usage in run.usages)
    blind = f"the cost of {pluralize(unknown, 'run') if unknown else 'some runs'} is not known"
    return f"at least {format_usd(totals.known_usd)}: {blind}" if totals.known_usd else blind


OUTCOMES: dict[Outcome, str] = {
    "answered": "answered",
    "crashed": "crashed",
    "timed_out": "timed out",
    "faulted": "could not be run",
    "not_run": "not run",
}
"""The words for each outcome of a run."""


def _describe_unanswered_run(case: CaseResult) -> str:
    run = next((run for run in case.runs if run.outcome != "answered"), None)
    if run is None:
        return ""
    where = f" in run {run.run} of {len(case.runs)}" if len(case.runs) > 1 else ""
    return _append_reason(f"{OUTCOMES[run.outcome]}{where}", run.failure.message if run.failure else "")


def _append_reason(sentence: str, reason: str) -> str:
    return f"{sentence}: {reason}" if reason else sentence


def _is_bad(turn: TurnResult, not_gating: Collection[str]) -> bool:
    """Return True if the turn has no reply, or failed or errored in a metric other than `not_gating`."""
    return turn.actual is None or any(
        each.status in {"failed", "errored"} and each.name not in not_gating for each in turn.metrics
    )

"""Choose the run that best shows the failure of a case, and find the first divergence of a failed run."""

import re
from collections.abc import Iterator, Mapping, Sequence

from evalgate.core.failures.call_divergences import compares_responses, find_call_divergence
from evalgate.core.failures.divergence import Criteria, Divergence, clean_name
from evalgate.core.score_ranges import BUDGETS
from evalgate.core.types import AGENT_FAULT_OUTCOMES, CaseMetric, CaseResult, RunMetric, RunResult

_CHECK = "check/"
_EXCEPTION = re.compile(r"\braised ([A-Za-z_][\w.]*)|\b((?:\w+\.)*[A-Z]\w*(?:Error|Exception))\b")
_HALF = 0.5  # judges' scores of rubrics: yes is 1, no is 0


def find_failing_run(case: CaseResult) -> RunResult | None:
    """Return the run of a case that shows the failure best; None if the case was not run.

    Return the first run without an answer. If all runs have an answer, return the first run with a failed or
    errored gating metric. If there is no such run either, return the first run.
    """
    if len(case.runs) <= 1:
        return case.runs[0] if case.runs else None
    unanswered = (run for run in case.runs if run.outcome != "answered")
    fell_short = (run for run in case.runs if any(_list_bad_metrics(run)))
    return next(unanswered, None) or next(fell_short, case.runs[0])


def find_divergence(case: CaseResult, criteria: Criteria) -> Divergence:
    """Return the divergence of a failed case: the divergence of the run that `find_failing_run` chooses.

    A case can also fail without a failed run, as when only the mean of its runs misses the threshold. Then
    the divergence names the case's first failed gating metric. Without one, it names the first errored gating
    metric. Without either, the kind of the divergence is `unknown`.
    """
    run = find_failing_run(case)
    found = find_run_divergence(case, run, criteria) if run is not None else None
    return found or _find_case_fault(case.metrics)


def find_run_divergence(case: CaseResult, run: RunResult, criteria: Criteria) -> Divergence | None:
    """Return the first divergence of a run from the expectation of its case.

    Return None if the run has an answer, and no gating metric failed or errored.
    """
    if run.outcome != "answered":
        return _describe_ending(run)
    bad = list(_list_bad_metrics(run))
    if not bad:
        return None
    failed = [metric for metric in bad if metric.gating_status == "failed"]
    if not failed:
        return Divergence("not_scored", detail=clean_name(bad[0].name))
    return (
        _find_odd_turn(run, failed)
        or find_call_divergence(case, run, failed, criteria)
        or _find_judged_fault(run, failed)
    )


def has_failed(run: RunResult) -> bool:
    """Return True if the agent crashed or timed out in a run, or if a gating metric failed.

    An errored metric does not count, because the agent is not to blame for it.
    """
    return run.outcome in AGENT_FAULT_OUTCOMES or any(
        metric.gating_status == "failed" for metric in run.metrics
    )


def _list_bad_metrics(run: RunResult) -> Iterator[RunMetric]:
    return (metric for metric in run.metrics if metric.gating_status in {"failed", "errored"})


def _describe_ending(run: RunResult) -> Divergence:
    if run.outcome == "timed_out":
        return Divergence("timeout")
    failure = run.failure
    raised = _EXCEPTION.search(failure.message) if failure else None
    detail = (
        (raised[1] or raised[2]).rpartition(".")[2] if raised else failure.kind if failure else "no reason"
    )
    return Divergence("crash" if run.outcome == "crashed" else "not_run", detail=clean_name(detail))


def _find_case_fault(metrics: Sequence[CaseMetric]) -> Divergence:
    """Return a divergence that names the first failed gating metric of a case.

    If no gating metric failed, the divergence names the first errored one. If no gating metric failed or
    errored, the kind of the divergence is `unknown`.
    """
    failed = (metric for metric in metrics if metric.gating_status == "failed")
    errored = (metric for metric in metrics if metric.gating_status == "errored")
    if metric := next(failed, None):
        return _name_metric(metric.name)
    if metric := next(errored, None):
        return Divergence("not_scored", detail=clean_name(metric.name))
    return Divergence("unknown")


def _find_odd_turn(run: RunResult, failed: Sequence[RunMetric]) -> Divergence | None:
    """Return a divergence of the kind `missing_turn` or `extra_turn`; None if no turn is missing or extra.

    In a conversation with a simulated user, no turn counts as extra. Return None, too, if all metrics in
    `failed` are checks or budgets, because the number of turns does not explain such a failure.
    """
    if all(metric.name.startswith(_CHECK) or metric.name in BUDGETS for metric in failed):
        return None
    is_simulated = all(turn.expected is None for turn in run.turns)  # a simulated user wrote the messages
    for turn in run.turns:
        if turn.actual is None:
            return Divergence("missing_turn")
        if turn.expected is None and not is_simulated:
            return Divergence("extra_turn")
    return None


def _find_judged_fault(run: RunResult, failed: Sequence[RunMetric]) -> Divergence:
    """Return a divergence that names a failed check, a missed rubric or a failed metric of a run.

    It names the first failed check. Without a failed check, it names the first missed rubric; without either,
    the first metric in `failed` that does not compare responses. Without all three, its kind is `response`.
    """
    for metric in failed:
        if metric.name.startswith(_CHECK):
            return _name_metric(metric.name)
    for metric in failed:
        if rubric := _find_missed_rubric(run, metric):
            return Divergence("rubric", detail=clean_name(rubric))
    others = [metric for metric in failed if not compares_responses(metric.name)]
    return Divergence("response") if not others else _name_metric(others[0].name)


def _name_metric(name: str) -> Divergence:
    if name.startswith(_CHECK):
        return Divergence("check", detail=clean_name(name.removeprefix(_CHECK)))
    if name in BUDGETS:
        return Divergence("budget", detail=clean_name(name.rpartition("/")[2]))
    return Divergence("metric", detail=clean_name(name))


def _find_missed_rubric(run: RunResult, metric: RunMetric) -> str:
    """Return the id of the metric's first rubric that a judge scored below 0.5; "" without such a rubric."""
    turns = (each.details for turn in run.turns for each in turn.metrics if each.name == metric.name)
    for details in (*turns, metric.details):
        listed = (details or {}).get("rubrics") or (details or {}).get("rubric_scores")
        for rubric in listed if isinstance(listed, Sequence) else ():
            score = rubric.get("score") if isinstance(rubric, Mapping) else None
            if isinstance(score, int | float) and score < _HALF:
                return str(rubric.get("id", ""))
    return ""

"""Combine statuses and means of several metrics, cases and runs, by the rules of tRPC-Agent-Go.

One rule differs. tRPC-Agent-Go computes means without runs that failed before they were scored. So in
tRPC-Agent-Go, a case that crashed in one of two runs can pass. Here, the case fails.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from evalgate.api.trpc.evaluators import decide_status
from evalgate.api.trpc.results import (
    CaseRunSummary,
    EvalCaseResult,
    EvalCaseSummary,
    EvalMetricResult,
    EvalSetResultSummary,
    EvalStatus,
    EvaluationCaseResult,
    MetricSummary,
    RunSummary,
    StatusCounts,
)
from evalgate.core.means import compute_sequential_mean


def summarize_statuses(statuses: Iterable[EvalStatus]) -> EvalStatus:
    """Combine statuses into one: "failed" if any is "failed", or else "passed" if any is "passed".

    If neither occurs, return "not_evaluated".
    """
    found = set(statuses)
    if "failed" in found:
        return "failed"
    return "passed" if "passed" in found else "not_evaluated"


def average_metrics(results: Iterable[EvalCaseResult]) -> list[EvalMetricResult]:
    """Return the mean of each metric over the results in which it was evaluated, sorted by name.

    A metric that was evaluated in no result has the score 0.0 and the status "not_evaluated".
    """
    return [
        EvalMetricResult(
            metric_name=own[0].metric_name,
            score=_compute_mean(own) or 0.0,
            eval_status=decide_status(_compute_mean(own), own[0].threshold),
            threshold=own[0].threshold,
            criterion=own[0].criterion,
        )
        for own in _group_metrics(results)
    ]


def _group_metrics(results: Iterable[EvalCaseResult]) -> list[list[EvalMetricResult]]:
    listed = [metric for result in results for metric in result.overall_eval_metric_results]
    listed.sort(key=lambda metric: metric.metric_name)
    return [list(own) for _, own in groupby(listed, key=lambda metric: metric.metric_name)]


def _compute_mean(metrics: Sequence[EvalMetricResult]) -> float | None:
    scores = [metric.score for metric in metrics if metric.eval_status in {"passed", "failed"}]
    return compute_sequential_mean(scores) if scores else None


def aggregate_case(eval_case_id: str, runs: Sequence[EvalCaseResult]) -> EvaluationCaseResult:
    """Combine the runs of one case into its result.

    A case with one run has the status of this run. With several runs, the status is "failed" if a run has an
    error message or the mean of a metric fails. Otherwise, it is "passed" if the mean of a metric passes, and
    "not_evaluated" if no metric was evaluated.
    """
    metrics = average_metrics(runs)
    if len(runs) == 1:
        status = runs[0].final_eval_status
    elif any(run.error_message for run in runs):
        status = "failed"
    else:
        status = summarize_statuses(metric.eval_status for metric in metrics)
    return EvaluationCaseResult(
        eval_case_id=eval_case_id,
        overall_status=status,
        eval_case_results=list(runs),
        metric_results=metrics,
    )


def build_summary(cases: Sequence[EvaluationCaseResult], num_runs: int) -> EvalSetResultSummary:
    """Summarize all runs of `cases`, with one entry for each run from 1 to `num_runs`."""
    results = [run for case in cases for run in case.eval_case_results]
    runs = [
        _summarize_run(number, [each for each in results if each.run_id == number])
        for number in range(1, num_runs + 1)
    ]
    return EvalSetResultSummary(
        overall_status=summarize_statuses(case.overall_status for case in cases),
        num_runs=num_runs,
        run_status_counts=_count_statuses(run.overall_status for run in runs),
        run_summaries=runs,
        eval_case_summaries=[
            _summarize_case(case) for case in sorted(cases, key=lambda case: case.eval_case_id)
        ],
    )


def _summarize_run(run_id: int, results: Sequence[EvalCaseResult]) -> RunSummary:
    return RunSummary(
        run_id=run_id,
        overall_status=summarize_statuses(each.final_eval_status for each in results),
        case_status_counts=_count_statuses(each.final_eval_status for each in results),
        metric_summaries=_summarize_metrics(results),
    )


def _summarize_case(case: EvaluationCaseResult) -> EvalCaseSummary:
    return EvalCaseSummary(
        eval_id=case.eval_case_id,
        overall_status=case.overall_status,
        run_status_counts=_count_statuses(run.final_eval_status for run in case.eval_case_results),
        metric_summaries=_summarize_metrics(case.eval_case_results),
        run_summaries=[
            CaseRunSummary(
                run_id=run.run_id,
                final_eval_status=run.final_eval_status,
                error_message=run.error_message,
                metric_results=[_strip_metric(own[0]) for own in _group_metrics([run])],
            )
            for run in case.eval_case_results
        ],
    )


def _strip_metric(metric: EvalMetricResult) -> EvalMetricResult:
    return EvalMetricResult(
        metric_name=metric.metric_name,
        score=metric.score,
        eval_status=metric.eval_status,
        threshold=metric.threshold,
    )


def _summarize_metrics(results: Sequence[EvalCaseResult]) -> list[MetricSummary]:
    return [
        MetricSummary(
            metric_name=own[0].metric_name,
            average_score=_compute_mean(own) or 0.0,
            eval_status=decide_status(_compute_mean(own), own[0].threshold),
            threshold=own[0].threshold,
            status_counts=_count_statuses(metric.eval_status for metric in own),
        )
        for own in _group_metrics(results)
    ]


def _count_statuses(statuses: Iterable[EvalStatus]) -> StatusCounts | None:
    """Count how often each status occurs. Return None if all counts are 0."""
    listed = list(statuses)
    counts = StatusCounts(
        passed=listed.count("passed"),
        failed=listed.count("failed"),
        not_evaluated=listed.count("not_evaluated"),
    )
    return counts if counts.to_wire() else None

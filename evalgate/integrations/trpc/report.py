"""Write results in the format, and under the file names, of tRPC-Agent-Go's result manager (August 2026).

The report's folder serves as the manager's base folder. Each eval set has one file in the subfolder `<app>`.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evalgate.core.means import compute_sequential_mean
from evalgate.core.sanitize import to_file_name
from evalgate.core.types import (
    AGENT_FAULT_OUTCOMES,
    CaseMetric,
    CaseResult,
    CaseTurn,
    JsonObject,
    Record,
    RecordedCriterion,
    Reply,
    RunMetric,
    RunResult,
    Status,
    TurnMetric,
    TurnResult,
    UserMessage,
)
from evalgate.datasets.conversion_losses import omit_empty
from evalgate.integrations.trpc.writer import build_invocation
from evalgate.metrics.scoring import decide_case_status

RESULT_ENDING = ".evalset_result.json"
_PASSED, _FAILED, _NOT_EVALUATED = "passed", "failed", "not_evaluated"
_STATUSES: Mapping[Status, str] = {"passed": _PASSED, "failed": _FAILED}
_COUNTED = {_PASSED: "passed", _FAILED: "failed", _NOT_EVALUATED: "notEvaluated"}
"""Maps a status of tRPC-Agent-Go to the key under which a summary counts it."""

_Criteria = Mapping[tuple[str, str], RecordedCriterion]


class TrpcReport:
    """An `EvalSetResult` for each eval set, with all its runs and their summary."""

    file_name = "trpc"

    def render_files(self, record: Record) -> Iterator[tuple[str, str]]:
        """Yield the path and the text of one file for each eval set.

        The path is `<app>/<app>_<eval set>_<uuid>.evalset_result.json`.
        """
        app = record.agent.app_name
        for result in build_eval_set_results(record, app):
            name = to_file_name(str(result["evalSetResultId"]), 200)
            text = json.dumps(result, indent=2, ensure_ascii=False) + "\n"
            yield f"{to_file_name(app)}/{name}{RESULT_ENDING}", text


def build_eval_set_results(record: Record, app_name: str) -> Iterator[JsonObject]:
    """Yield the JSON of tRPC-Agent-Go's `EvalSetResult` for each eval set of a record."""
    criteria = record.index_criteria()
    for eval_set_id, cases in record.group_cases().items():
        # Not random: the report of a record is the same each time that it is rendered.
        unique = uuid.uuid5(uuid.NAMESPACE_URL, f"evalgate:{record.created_at}:{eval_set_id}")
        result_id = f"{app_name}_{eval_set_id}_{unique}"
        runs = [(run, case) for case in cases for run in case.runs]
        runs.sort(key=lambda pair: pair[0].run)  # all first runs come first, as in tRPC-Agent-Go
        results = [_build_case_result(case, run, criteria) for run, case in runs]
        yield {
            "evalSetResultId": result_id,
            "evalSetResultName": result_id,
            "evalSetId": eval_set_id,
            **omit_empty(evalCaseResults=results, summary=build_summary(results)),
            "creationTimestamp": record.timestamp,
        }


def _build_case_result(case: CaseResult, run: RunResult, criteria: _Criteria) -> JsonObject:
    metrics = {metric.name: metric for metric in case.metrics}
    status = _decide_status(run)
    return {
        "evalSetId": case.eval_set_id,
        "evalId": case.eval_id,
        "runId": run.run,
        **omit_empty(score=1 if status == _PASSED else 0),
        "finalEvalStatus": status,
        **omit_empty(
            errorMessage=run.failure.message if run.failure else "",
            overallEvalMetricResults=[
                _build_metric_result(each, metrics.get(each.name), criteria) for each in run.metrics
            ],
            evalMetricResultPerInvocation=[_build_turn(turn, metrics, criteria) for turn in run.turns],
            sessionId=run.session_id,
            userId=run.user_id,
        ),
    }


def _decide_status(run: RunResult) -> str:
    """Return a run's status: `failed` if the agent crashed or timed out, else as the metrics decide."""
    if run.outcome in AGENT_FAULT_OUTCOMES:
        return _FAILED
    return _STATUSES.get(decide_case_status([run], run.metrics), _NOT_EVALUATED)


def _build_turn(turn: TurnResult, metrics: Mapping[str, CaseMetric], criteria: _Criteria) -> JsonObject:
    expected = None if turn.expected is None else _build_invocation(turn, turn.expected)
    results = [_build_metric_result(each, metrics.get(each.name), criteria) for each in turn.metrics]
    return {
        "actualInvocation": _build_invocation(turn, turn.actual),
        **omit_empty(expectedInvocation=expected, evalMetricResults=results),
    }


def _build_invocation(turn: TurnResult, reply: Reply | None) -> JsonObject:
    return build_invocation(CaseTurn(UserMessage(turn.user)), reply or Reply())


def _build_metric_result(
    metric: RunMetric | TurnMetric, known: CaseMetric | None, criteria: _Criteria
) -> JsonObject:
    details = metric.details or {}
    criterion = criteria.get((known.name, known.fingerprint)) if known else None
    return {
        "metricName": metric.name,
        **omit_empty(score=metric.score),
        "evalStatus": _STATUSES.get(metric.status, _NOT_EVALUATED),
        **omit_empty(
            threshold=known.threshold if known else None,
            criterion=criterion.options if criterion else None,
            details=omit_empty(
                reason=metric.reason, score=metric.score, rubricScores=details.get("rubric_scores")
            ),
        ),
    }


# --- the summary --------------------------------------------------------------------------------------------


def build_summary(results: Sequence[JsonObject]) -> JsonObject:
    """Return the JSON of `EvalSetResultSummary` for all runs of an eval set; {} if there is no run."""
    by_run, by_case = _group(results, "runId"), _group(results, "evalId")
    if not by_run:
        return {}
    statuses = {run: _combine(each["finalEvalStatus"] for each in own) for run, own in by_run.items()}
    return {
        "overallStatus": _combine(_decide_case_status(own) for own in by_case.values()),
        "numRuns": len(by_run),
        **omit_empty(runStatusCounts=_count(statuses.values())),
        "runSummaries": [
            {
                "runId": run,
                "overallStatus": statuses[run],
                **omit_empty(
                    caseStatusCounts=_count(each["finalEvalStatus"] for each in own),
                    metricSummaries=_summarize_metrics(own),
                ),
            }
            for run, own in sorted(by_run.items())
        ],
        "evalCaseSummaries": [_summarize_case(name, own) for name, own in sorted(by_case.items())],
    }


def _group(results: Iterable[JsonObject], key: str) -> dict[Any, list[dict[str, Any]]]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault(result[key], []).append(dict(result))
    return groups


def _decide_case_status(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the status of a case from the results of its runs.

    If there is only one run, the result is the status of this run. If there are several runs and one has an
    error message, the result is `failed`. Otherwise, the mean of each metric over the runs decides.
    """
    if len(results) == 1:
        return str(results[0]["finalEvalStatus"])
    if any(each.get("errorMessage") for each in results):
        return _FAILED
    return _combine(str(each["evalStatus"]) for each in _summarize_metrics(results))


def _summarize_case(name: str, results: Sequence[Mapping[str, Any]]) -> JsonObject:
    metrics = _summarize_metrics(results)
    return {
        "evalId": name,
        "overallStatus": _decide_case_status(results),
        **omit_empty(
            runStatusCounts=_count(each["finalEvalStatus"] for each in results), metricSummaries=metrics
        ),
        "runSummaries": [
            {
                "runId": each["runId"],
                "finalEvalStatus": each["finalEvalStatus"],
                **omit_empty(errorMessage=each.get("errorMessage"), metricResults=_list_results(each)),
            }
            for each in results
        ],
    }


def _list_results(result: Mapping[str, Any]) -> list[JsonObject]:
    kept = ("metricName", "score", "evalStatus", "threshold")
    return [
        {key: metric[key] for key in kept if key in metric}
        for metric in sorted(_get_metrics(result), key=lambda each: str(each["metricName"]))
    ]


def _summarize_metrics(results: Iterable[Mapping[str, Any]]) -> list[JsonObject]:
    found = _group((metric for result in results for metric in _get_metrics(result)), "metricName")
    summaries: list[JsonObject] = []
    for name, metrics in sorted(found.items()):
        scores = [each.get("score", 0.0) for each in metrics if each["evalStatus"] != _NOT_EVALUATED]
        mean = compute_sequential_mean(scores) if scores else 0.0
        threshold = metrics[0].get("threshold", 0.0)
        status = (_PASSED if mean >= threshold else _FAILED) if scores else _NOT_EVALUATED
        counts = _count(each["evalStatus"] for each in metrics)
        summaries.append(
            {
                "metricName": name,
                **omit_empty(averageScore=mean),
                "evalStatus": status,
                **omit_empty(threshold=threshold, statusCounts=counts),
            }
        )
    return summaries


def _get_metrics(result: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = result.get("overallEvalMetricResults", ())
    return found


def _combine(statuses: Iterable[str]) -> str:
    found = set(statuses)
    return next((status for status in (_FAILED, _PASSED) if status in found), _NOT_EVALUATED)


def _count(statuses: Iterable[str]) -> JsonObject:
    counts = Counter(statuses)
    return {key: counts[status] for status, key in _COUNTED.items() if counts[status]}

"""Write results in the format, and under the file names, of Google ADK's `LocalEvalSetResultsManager`.

The report's folder can be the `agents_dir` of that class. Its method `list_eval_set_results` then lists the
results of all runs of evalgate that wrote into the folder.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

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
from evalgate.integrations.adk.writer import build_invocation
from evalgate.metrics.scoring import decide_case_status

HISTORY_FOLDER = ".adk/eval_history"
RESULT_ENDING = ".evalset_result.json"

_PASSED, _FAILED, _NOT_EVALUATED = 1, 2, 3
_STATUSES: Mapping[Status, int] = {"passed": _PASSED, "failed": _FAILED}
"""Numbers of statuses in Google ADK's `EvalStatus`; any other status becomes NOT_EVALUATED."""

_Criteria = Mapping[tuple[str, str], RecordedCriterion]


class AdkReport:
    """An `EvalSetResult` for each eval set, with an `EvalCaseResult` for each run of a case."""

    file_name = "adk"

    def render_files(self, record: Record) -> Iterator[tuple[str, str]]:
        """Yield the path and the text of one file for each eval set.

        The path is `<app>/.adk/eval_history/<app>_<eval set>_<time>.evalset_result.json`.
        """
        app = record.agent.app_name
        for result in build_eval_set_results(record, app):
            name = to_file_name(str(result["eval_set_result_name"]), 200)
            text = json.dumps(result, indent=2, ensure_ascii=False)
            yield f"{to_file_name(app)}/{HISTORY_FOLDER}/{name}{RESULT_ENDING}", text


def build_eval_set_results(record: Record, app_name: str) -> Iterator[dict[str, Any]]:
    """Yield the fields of Google ADK's `EvalSetResult` for each eval set of a record."""
    criteria = record.index_criteria()
    for eval_set_id, cases in record.group_cases().items():
        result_id = f"{app_name}_{eval_set_id}_{record.timestamp}"
        yield {
            "eval_set_result_id": result_id,
            "eval_set_result_name": result_id.replace("/", "_"),
            "eval_set_id": eval_set_id,
            "eval_case_results": [
                _build_case_result(case, run, criteria) for case in cases for run in case.runs
            ],
            "creation_timestamp": record.timestamp,
        }


def _build_case_result(case: CaseResult, run: RunResult, criteria: _Criteria) -> JsonObject:
    metrics = {metric.name: _build_metric(metric, criteria) for metric in case.metrics}
    return {
        "eval_set_file": case.eval_set_id,
        "eval_set_id": case.eval_set_id,
        "eval_id": case.eval_id,
        "final_eval_status": _decide_status(run),
        "eval_metric_results": None,
        "overall_eval_metric_results": [_build_metric_result(each, metrics) for each in run.metrics],
        "eval_metric_result_per_invocation": [
            {
                "actual_invocation": _build_invocation(turn, turn.actual),
                "expected_invocation": turn.expected and _build_invocation(turn, turn.expected),
                "eval_metric_results": [_build_metric_result(each, metrics) for each in turn.metrics],
            }
            for turn in run.turns
        ],
        "session_id": run.session_id,
        "session_details": None,
        "user_id": run.user_id or None,
    }


def _decide_status(run: RunResult) -> int:
    """Return a run's `EvalStatus`: FAILED if the agent crashed or timed out, else as the metrics decide."""
    if run.outcome in AGENT_FAULT_OUTCOMES:
        return _FAILED
    return _STATUSES.get(decide_case_status([run], run.metrics), _NOT_EVALUATED)


def _build_metric(metric: CaseMetric, criteria: _Criteria) -> JsonObject:
    known = criteria.get((metric.name, metric.fingerprint))
    return {
        "metric_name": metric.name,
        "threshold": metric.threshold,
        "criterion": {"threshold": metric.threshold, **(known.options if known else {})},
        "custom_function_path": None,
    }


def _build_metric_result(metric: RunMetric | TurnMetric, metrics: Mapping[str, JsonObject]) -> JsonObject:
    return {
        **metrics.get(metric.name, {"metric_name": metric.name}),
        "score": metric.score,
        "eval_status": _STATUSES.get(metric.status, _NOT_EVALUATED),
        "details": {"rubric_scores": _build_rubric_scores(metric.details or {})},
    }


def _build_rubric_scores(details: JsonObject) -> list[JsonObject] | None:
    rubrics = details.get("rubrics") or details.get("rubric_scores")
    if not isinstance(rubrics, list | tuple):
        return None
    return [
        {"rubric_id": each["id"], "rationale": each.get("reason"), "score": each.get("score")}
        for each in rubrics
        if isinstance(each, Mapping) and "id" in each
    ]


def _build_invocation(turn: TurnResult, reply: Reply | None) -> JsonObject:
    return build_invocation(CaseTurn(UserMessage(turn.user), reply or Reply()))

"""Write results in the format of `EvalReport`, which the command `eval` of adk-rs prints."""

import json
from collections.abc import Mapping

from evalgate.core.means import compute_mean
from evalgate.core.types import CaseResult, JsonObject, Record, RunMetric, RunResult, Status

_STATUSES: Mapping[Status, str] = {"passed": "PASSED", "failed": "FAILED"}
"""Names of statuses in adk-rs' `EvalStatus`; any other status becomes ERROR."""
_PREFIX = "adk-rs/"


class AdkRsReport:
    """The `EvalReport` of all eval sets, with an `EvalResult` for each run of a case."""

    file_name = "adk-rs.json"

    def render(self, record: Record) -> str:
        """Return the report as indented JSON, with only the fields of adk-rs' types."""
        return json.dumps(build_eval_report(record), indent=2, ensure_ascii=False) + "\n"


def build_eval_report(record: Record) -> JsonObject:
    """Return the JSON of adk-rs' `EvalReport`, with one result for each run of a case."""
    return {"results": [_build_result(case, run) for case in record.cases for run in case.runs]}


def _build_result(case: CaseResult, run: RunResult) -> JsonObject:
    scores = {metric.name.removeprefix(_PREFIX): _build_score(run, metric) for metric in run.metrics}
    # As in adk-rs, an error of a metric fails the case, and so does a run without an answer.
    passed = run.outcome == "answered" and all(each.status == "passed" for each in run.metrics if each.gates)
    return {
        "eval_set_id": case.eval_set_id,
        "eval_case_id": case.eval_id,
        "scores": scores,
        "overall_status": "PASSED" if passed else "FAILED",
    }


def _build_score(run: RunResult, metric: RunMetric) -> JsonObject:
    turns = [each for turn in run.turns for each in turn.metrics if each.name == metric.name]
    scores = [turn.score for turn in turns if turn.score is not None]
    mean = compute_mean(scores) if scores else 0.0  # adk-rs needs a number, even after an error
    return {
        "score": mean if metric.score is None else metric.score,
        "status": _STATUSES.get(metric.status, "ERROR"),
        "details": {"per_invocation": scores},
    }

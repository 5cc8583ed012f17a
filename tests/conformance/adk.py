"""Test vectors of Google ADK: expected and actual conversations, with the scores that ADK computed."""

import json
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evalgate.core.protocols import Metric, MetricContext, MetricType
from evalgate.core.types import CaseRun, Criterion, EvalCase
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.adk.evalset import AdkFormat
from evalgate.integrations.adk.metrics.response_match import ResponseMatch
from evalgate.integrations.adk.metrics.tool_trajectory import ToolTrajectory
from tests.conformance import shared_folder

RELEASES = {"2.3": (2, 3), "2.13": (2, 13)}
METRICS: dict[str, MetricType] = {
    "tool_trajectory_avg_score": ToolTrajectory,
    "response_match_score": ResponseMatch,
}


@dataclass(frozen=True)
class Vector:
    id: str
    release: str
    metric: str
    criterion: Any
    expected: list[Any]
    actual: list[Any]
    scores: list[float] | None
    """One score for each turn. None: this release of ADK does not evaluate the vector at all."""
    score: float | None
    is_aborted: bool = False
    """True: this release of ADK aborts the whole run, whereas evalgate leaves out the turn."""

    @property
    def threshold(self) -> float:
        return float(self.criterion["threshold"] if isinstance(self.criterion, dict) else self.criterion)

    def build(self) -> Metric:
        """Build the metric of the criterion. Unknown keys are ignored, as in Google ADK."""
        options = dict(self.criterion) if isinstance(self.criterion, dict) else {}
        options.pop("threshold", None)
        metric_type, release = METRICS[self.metric], RELEASES[self.release]
        try:
            return metric_type.build(Criterion(self.metric, self.threshold, options), MetricContext(release))
        except ValidationError as error:
            unknown = {found["loc"][-1] for found in error.errors() if found["type"] == "extra_forbidden"}
            if not unknown:
                raise
            known = {key: value for key, value in options.items() if key not in unknown}
            return metric_type.build(Criterion(self.metric, self.threshold, known), MetricContext(release))

    def case(self) -> EvalCase:
        return a_case(self.expected)

    def run(self) -> CaseRun:
        replies = tuple(turn.expected for turn in a_case(self.actual).turns)
        return CaseRun(1, "answered", replies)


def a_case(conversation: list[Any]) -> EvalCase:
    """Return a case with these invocations, parsed as from an eval-set file."""
    invocations = [{"user_content": {"parts": [{"text": "?"}]}, **invocation} for invocation in conversation]
    eval_set = {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": invocations}]}
    return AdkFormat().read_eval_set(parse_json(json.dumps(eval_set).encode(), "vector.json")).cases[0]


def vectors() -> list[Vector]:
    return [*_committed(), *_shared("2.3", "metrics.json"), *_shared("2.13", "metrics_2.13.json")]


def _committed() -> list[Vector]:
    rows = json.loads(Path(__file__).with_name("adk_cases.json").read_text("utf-8"))
    return [_of_ours(row, release) for row in rows for release in row["releases"]]


def _of_ours(row: dict[str, Any], release: str) -> Vector:
    scores = row["scores"]
    # sum() rounds differently from Python 3.12 on
    total = None if scores is None else reduce(add, scores) / len(scores)
    name = f"ours:{release}:{row['id']}"
    return Vector(
        name, release, row["metric"], row["criterion"], row["expected"], row["actual"], scores, total
    )


def _shared(release: str, file: str) -> list[Vector]:
    folder = shared_folder()
    path = folder / "conformance/adk" / file if folder else Path("/nonexistent")
    return [_of_theirs(row, release) for row in json.loads(path.read_text("utf-8"))] if path.is_file() else []


def _of_theirs(row: dict[str, Any], release: str) -> Vector:
    result = row["result"]
    score = result.get("score")
    scores = None if score is None else [turn["score"] for turn in result["per_invocation"]]
    return Vector(
        f"theirs:{release}:{row['id']}",
        release,
        row["metric"],
        row["criterion"],
        row["expected"],
        row["actual"],
        scores,
        score,
        is_aborted="error" in result,
    )

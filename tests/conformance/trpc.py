"""Test vectors of tRPC-Agent-Go: criteria, expected and actual conversations, and the scores of its engine."""

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evalgate.core.protocols import Metric
from evalgate.core.types import CaseRun, CaseTurn, EvalCase, Event, Reply, ToolCall, ToolResult, UserMessage
from evalgate.integrations.trpc.metrics.final_response import TrpcFinalResponse
from evalgate.integrations.trpc.metrics.tool_trajectory import TrpcToolTrajectory
from evalgate.llm.client import TokenChoice
from tests.conformance import shared_folder

HAS_RE2 = find_spec("re2") is not None

_METRICS: dict[str, type[TrpcToolTrajectory] | type[TrpcFinalResponse]] = {
    "tool_trajectory_avg_score": TrpcToolTrajectory,
    "final_response_avg_score": TrpcFinalResponse,
}


@dataclass(frozen=True)
class Vector:
    id: str
    metric: str
    threshold: float
    criterion: dict[str, Any]
    expected: list[Any]
    actual: list[Any]
    score: float | None
    status: str | None
    scores: list[float] | None
    """One score for each turn, if the vector has them."""
    reason_contains: str
    error: str | None

    def build(self) -> Metric:
        """Build the metric. Names of Go functions in the criterion are ignored, as in evalgate's evaluators."""
        return _METRICS[self.metric].model_validate(self.criterion)

    def case(self) -> EvalCase:
        turns = (reply_of(invocation) or Reply() for invocation in self.expected)
        return EvalCase("c", tuple(CaseTurn(UserMessage("?"), reply) for reply in turns))

    def run(self) -> CaseRun:
        return CaseRun(1, "answered", tuple(map(reply_of, self.actual)))


def reply_of(invocation: dict[str, Any] | None) -> Reply | None:
    """Convert an invocation of a vector to a reply."""
    if invocation is None:
        return None
    response = invocation.get("finalResponse")
    events: list[Event] = []
    tools = invocation.get("tools") or []
    ids = [tool.get("id") for tool in tools]
    for at, tool in enumerate(tools):
        args, result = tool.get("arguments"), tool.get("result")
        is_object = isinstance(args, dict)
        call = ToolCall(
            tool.get("name", ""),
            args if is_object else None,
            ids[at] if len({*ids, None, ""}) == len(ids) + 2 else str(at),
            other_args=None if is_object else args,
        )
        events.append(call)
        if result is not None:
            events.append(ToolResult(call.name, result, call.id))
    return Reply(None if response is None else response.get("content", ""), tuple(events))


def choices(response: dict[str, Any]) -> list[TokenChoice]:
    """Return the tokens of a model's response with their log probabilities."""
    tokens = (response["choices"][0].get("logprobs") or {}).get("content") or []
    return [
        TokenChoice(
            token["token"],
            token.get("logprob", 0.0),
            tuple((each["token"], each.get("logprob", 0.0)) for each in token.get("top_logprobs") or ()),
        )
        for token in tokens
    ]


def rows(name: str) -> list[dict[str, Any]]:
    """Return the vectors of a file in the shared folder; [] if the file does not exist."""
    folder = shared_folder()
    path = folder / "conformance/trpc" / name if folder else Path("/nonexistent")
    return list(json.loads(path.read_text("utf-8"))) if path.is_file() else []


def vectors() -> list[Vector]:
    committed = json.loads(Path(__file__).with_name("trpc_cases.json").read_text("utf-8"))
    found = [_vector(row, "ours") for row in committed]
    found += [_vector(row, "theirs") for row in rows("criteria.json") if row["metricName"] in _METRICS]
    return [each for each in found if HAS_RE2 or '"regex"' not in json.dumps(each.criterion)]


def _vector(row: dict[str, Any], whose: str) -> Vector:
    # Where two releases differ, the newer one's answer counts.
    if newer := row.get("head_result"):
        row = {**row, **newer, "score": newer["overallScore"], "status": newer["overallStatus"]}
    expected, actual = row["expected"], row["actual"]
    turns = row.get("perInvocation")
    return Vector(
        id=f"{whose}:{row['id']}",
        metric=row["metricName"],
        threshold=row.get("threshold") or 0.0,
        criterion=row["criterion"],
        expected=expected if isinstance(expected, list) else [expected],
        actual=actual if isinstance(actual, list) else [actual],
        score=row.get("score"),
        status=row.get("status"),
        scores=None if turns is None else [turn.get("score", 0.0) for turn in turns],
        reason_contains=row.get("reason_contains") or "",
        error=row.get("error"),
    )

"""Statuses of whole evaluations: an eval set, metrics and a scripted agent, as tRPC-Agent-Go's service ran them.

Rows about its callbacks are left out, evalgate has none; docs/conformance.md lists where the two differ.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.boundmetrics import bind_metrics
from evalgate.config import NEWEST_ADK, load_thresholds
from evalgate.errors import InvalidInput
from evalgate.formats.trpc import TrpcEvalSet
from evalgate.model import CaseResult, CaseRun, EvalCase, Event, Failure, Reply, ToolCall, ToolResult
from evalgate.protocols import MetricContext, MetricPlace
from evalgate.reading.jsontext import parse_json
from evalgate.score import score_case, score_run
from tests.conformance.trpc import rows

TEXT = {
    "metricName": "final_response_avg_score",
    "threshold": 1,
    "criterion": {"finalResponse": {"text": {}}},
}
TOOLS = {"metricName": "tool_trajectory_avg_score", "threshold": 1, "criterion": {"toolTrajectory": {}}}


def a_row(
    name: str, status: str, *finals: str | None, metrics: list[Any] | None = None, **case: Any
) -> dict[str, Any]:
    asked = {"role": "user", "content": "q"}
    turn = {"userContent": asked, "finalResponse": {"role": "assistant", "content": "a"}}
    whole = {"evalId": "c1", "sessionInput": {"userId": "u"}, "conversation": [turn], **case}
    return {
        "id": name,
        "evalset": {"evalSetId": "set", "evalCases": [whole]},
        "metrics": metrics or [TEXT],
        "script": {"c1|q": [{"Final": final, "Tools": []} for final in finals]},
        "numRuns": max(1, len(finals)),
        "head": {"cases": [{"evalId": "c1", "overallStatus": status}]},
    }


OURS = [
    a_row("pass", "passed", "a"),
    a_row("fail", "failed", "b"),
    a_row("mean-below", "failed", "a", "b", "a"),
    a_row("mean-above", "passed", "a", "b", "a", metrics=[{**TEXT, "threshold": 0.6}]),
    a_row("silent", "failed", None),
    a_row("no-session", "failed", "a", sessionInput=None),
    a_row("trace", "failed", evalMode="trace", metrics=[TEXT]),
]
ROWS = [*OURS, *(row for row in rows("pipeline.json") if not row.get("callbacks"))]


REFUSED = {
    "session-input-missing": "`evalCases[0].sessionInput` is missing",
    "no-session": "`evalCases[0].sessionInput` is missing",
    "conversation-empty": "`evalCases[0]` holds neither a conversation nor a scenario",
    "user-content-missing": "`evalCases[0]` has a turn without `userContent`",
    "null-case-skipped": "must be an object, not null",
    "unknown-metric-skipped": "is no evaluator of tRPC-Agent-Go's own",
    "only-unknown-metric": "is no evaluator of tRPC-Agent-Go's own",
}
"""Refused before anything runs, where the service fails the case, panics, or leaves out the metric."""


def scripted(case: EvalCase, script: dict[str, Any], run: int) -> CaseRun:
    """What the agent that the row scripts does in one run."""
    if case.recorded is not None:
        return CaseRun(run, "answered", case.recorded)
    replies = []
    for turn in case.turns:
        answers = script.get(f"{case.eval_id}|{turn.user.text}") or [{}]
        answer = answers[min(run, len(answers)) - 1]
        if answer.get("Error") or answer.get("RunErr") or answer.get("Orphan"):
            return CaseRun(run, "crashed", failure=Failure("exception", "as scripted"))
        replies.append(Reply(answer.get("Final"), tuple(_events(answer.get("Tools") or []))))
    return CaseRun(run, "answered", tuple(replies))


def _events(tools: list[dict[str, Any]]) -> list[Event]:
    events: list[Event] = []
    for tool in tools:
        args = _parsed(tool.get("Args") or "{}")
        is_object = isinstance(args, dict)
        call = ToolCall(
            tool["Name"], args if is_object else None, tool["ID"], other_args=None if is_object else args
        )
        events.append(call)
        if tool.get("Result") is not None:
            events.append(ToolResult(call.name, _parsed(tool["Result"]), call.id))
    return events


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


async def evaluated(row: dict[str, Any], folder: Path) -> list[CaseResult]:
    eval_set = TrpcEvalSet().read(parse_json(json.dumps(row["evalset"]).encode(), "s.evalset.json"))
    (folder / "s.metrics.json").write_text(json.dumps(row["metrics"]))
    rules = load_thresholds(folder / "s.metrics.json", "s.metrics.json")
    metrics = bind_metrics(rules, MetricContext(NEWEST_ADK), MetricPlace(folder, {}))
    results = []
    for case in eval_set.cases:
        played = [scripted(case, row["script"], run) for run in range(1, (row.get("numRuns") or 1) + 1)]
        runs = [await score_run(case, run, metrics) for run in played]
        results.append(score_case(eval_set.eval_set_id, case, runs, metrics))
    return results


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
async def test_statuses(row: dict[str, Any], tmp_path: Path) -> None:
    if row["id"] in REFUSED:
        with pytest.raises(InvalidInput) as caught:
            await evaluated(row, tmp_path)
        assert REFUSED[row["id"]] in str(caught.value)
        return
    results = await evaluated(row, tmp_path)
    crashed = {case.eval_id for case in results if case.status == "errored"}
    for result, theirs in zip(results, row["head"]["cases"], strict=True):
        # A crash is no failed score: both keep the gate closed.
        expected = "errored" if result.eval_id in crashed else theirs["overallStatus"]
        assert result.status == expected
        assert theirs["overallStatus"] == "failed" or result.eval_id not in crashed
        scores = {metric.name: metric.score for metric in result.metrics}
        for metric in theirs.get("metrics") or []:
            assert scores[metric["metricName"]] == metric["score"]

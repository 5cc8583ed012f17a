"""Statuses of whole evaluations: an eval set, metrics and a scripted agent, as tRPC-Agent-Go's service ran them.

Rows about its callbacks are left out, evalgate has none; docs/conformance.md lists where the two differ.
"""

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from evalgate.config.loader import load_thresholds
from evalgate.config.schema.thresholds import NEWEST_ADK
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import MetricContext, MetricEnvironment
from evalgate.core.types import CaseResult, CaseRun, EvalCase, Event, Failure, Reply, ToolCall, ToolResult
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.trpc.evalset import TrpcFormat
from evalgate.metrics.scoring import score_case, score_run
from evalgate.runner.metric_binding import bind_metrics
from evalgate.runner.suites import Suite, find_unjudged_rubrics
from tests.conformance.trpc import rows
from tests.llm.fakes import ScriptedModel
from tests.llm.resolvers import build_scripted_resolver

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
        "script": {"c1|q": [{"Final": final, "Tools": [], "Error": final == "!"} for final in finals]},
        "numRuns": max(1, len(finals)),
        "head": {"cases": [{"evalId": "c1", "overallStatus": status}]},
    }


def a_rubric(metric: str, text: str = "It is polite.") -> dict[str, Any]:
    return {"metricName": metric, "content": {"text": text}}


OURS = [
    a_row("pass", "passed", "a"),
    a_row("fail", "failed", "b"),
    a_row("mean-below", "failed", "a", "b", "a"),
    a_row("mean-above", "passed", "a", "b", "a", metrics=[{**TEXT, "threshold": 0.6}]),
    a_row("silent", "failed", None),
    a_row("no-session", "failed", "a", sessionInput=None),
    a_row("trace", "failed", evalMode="trace", metrics=[TEXT]),
    a_row("one-run-crashes", "passed", "a", "!"),
    a_row("rubric-for-no-metric", "failed", "a", rubrics=[a_rubric("nope")]),
    a_row("rubric-for-no-judge", "failed", "a", rubrics=[a_rubric("final_response_avg_score")]),
    a_row("rubric-for-nothing", "failed", "a", rubrics=[a_rubric(" ")]),
    a_row("rubric-that-is-blank", "failed", "a", rubrics=[a_rubric("final_response_avg_score", " ")]),
    a_row(
        "trace-without-a-user",
        "passed",
        evalMode="trace",
        conversation=[{"finalResponse": {"content": "a"}}],
        actualConversation=[{"userContent": {"content": "q"}, "finalResponse": {"content": "a"}}],
    ),
    a_row(
        "trace-without-its-user",
        "failed",
        evalMode="trace",
        conversation=[{"userContent": {"content": "q"}}],
        actualConversation=[{"finalResponse": {"content": "a"}}],
    ),
]
ROWS = [*OURS, *(row for row in rows("pipeline.json") if not row.get("callbacks"))]


REFUSED = re.compile(
    r"holds neither a conversation nor a scenario|holds a conversation and a scenario|without `userContent`"
    r"|is a trace |expects \d+ turns|has an `actualConversation`|must be |is missing$|must not be empty"
    r"|is no evaluator of tRPC-Agent-Go's own|is given twice|holds no metric|is the id of another case"
    r"|Extra inputs|is no key|has rubrics for the metric|must name the metric|must say what a judge"
)
"""What is refused before anything runs, see docs/conformance.md: there the case fails, the call panics, or a metric is
left out. Two cases of one id, and two metrics of one name, pass there."""


def scripted(case: EvalCase, script: dict[str, Any], run: int) -> CaseRun:
    """What the agent that the row scripts does in one run."""
    if case.recorded is not None:
        return CaseRun(run, "answered", case.recorded)
    if case.scenario is not None:
        return CaseRun(run, "crashed", failure=Failure("exception", "there is no simulated user"))
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
        args = _parsed((tool.get("Args") or "").strip() or "{}")
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
    eval_set = TrpcFormat().read_eval_set(parse_json(json.dumps(row["evalset"]).encode(), "s.evalset.json"))
    (folder / "s.metrics.json").write_text(json.dumps(row["metrics"]))
    rules = load_thresholds(folder / "s.metrics.json", "s.metrics.json")
    model = ScriptedModel(*row.get("judge_script", ()))
    context = MetricContext(NEWEST_ADK, build_scripted_resolver(model) if "judge_script" in row else None)
    metrics = bind_metrics(rules, context, MetricEnvironment(folder, {}))
    if problems := list(find_unjudged_rubrics(Suite(eval_set, metrics, rules))):
        raise InvalidInputError(problems)
    results = []
    for case in eval_set.cases:
        played = [scripted(case, row["script"], run) for run in range(1, (row.get("numRuns") or 1) + 1)]
        runs = [await score_run(case, run, metrics) for run in played]
        results.append(score_case(eval_set.eval_set_id, case, runs, metrics))
    return results


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
async def test_statuses(row: dict[str, Any], tmp_path: Path) -> None:
    results, refused = await tried(row, tmp_path)
    assert [problem for problem in refused if not REFUSED.search(problem.message)] == []
    if refused:
        return
    for result, theirs in zip(results, row["head"]["cases"] or [], strict=True):
        if any(run.outcome != "answered" for run in result.runs):
            # A crash is no failed score, and passes nowhere: both keep the gate closed.
            assert result.status == "errored"
            continue
        assert result.status == theirs["overallStatus"]
        scores = {metric.name: metric.score for metric in result.metrics}
        for metric in theirs.get("metrics") or []:
            assert scores[metric["metricName"]] == metric["score"]


async def tried(row: dict[str, Any], folder: Path) -> tuple[list[CaseResult], tuple[Problem, ...]]:
    try:
        return await evaluated(row, folder), ()
    except InvalidInputError as error:
        return [], error.problems


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        ("no-session", True),
        ("pass", False),
        ("trace-without-a-user", False),
        ("trace-without-its-user", True),
    ],
)
async def test_what_is_refused(name: str, is_refused: bool, tmp_path: Path) -> None:
    (row,) = (row for row in OURS if row["id"] == name)
    with pytest.raises(InvalidInputError) if is_refused else nullcontext():
        await evaluated(row, tmp_path)

"""tRPC-Agent-Go's judged evaluators with a scripted judge; the rows are its Go packages' own."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalgate import plugins
from evalgate.config import NEWEST_ADK
from evalgate.judge.asking import ModelRequest
from evalgate.judge.bench import NoJudge
from evalgate.judge.failures import JudgeFailed
from evalgate.model import (
    CaseRun,
    Criterion,
    EvalCase,
    MetricFailed,
    MetricResult,
    NotApplicable,
    Scored,
    Turn,
    UserMessage,
)
from evalgate.protocols import MetricContext
from tests.conformance.trpc import reply_of, rows
from tests.judge.benches import bench_of
from tests.judge.fakes import ScriptedModel

OTHERWISE = {
    "rubric-json/text-answer-rejected": "the answer that the first release asks for is read as well",
}
"""Rows in which we decide otherwise on purpose; see docs/conformance.md."""

ROWS = [
    *json.loads(Path(__file__).with_name("trpc_evaluator_cases.json").read_text("utf-8")),
    *(row for row in rows("llm_evaluators.json") if row["id"] not in OTHERWISE),
]


def conversation(row: dict[str, Any]) -> tuple[EvalCase, CaseRun]:
    expected, actual = row["expected"], row["actual"]
    turns = [
        Turn(UserMessage(turn["userContent"]["content"]), wanted)
        for turn, each in zip(actual, expected, strict=True)
        if (wanted := reply_of(each)) is not None
    ]
    return EvalCase("c", tuple(turns)), CaseRun(1, "answered", tuple(map(reply_of, actual)))


def scripted(row: dict[str, Any]) -> ScriptedModel:
    """Each sample gets the answer that it got there, however often it asks.

    An answer of `<sentence>`s belongs to the call that comes before all samples.
    """
    answers = list(row["judge_script"])
    first = [answers.pop(0)] if answers and "<sentence>" in answers[0] else []

    def answer(request: ModelRequest) -> str:
        if first:
            return str(first.pop())
        return str(answers[request.sample - 1])

    return ScriptedModel(script=answer)


async def evaluated(row: dict[str, Any], model: ScriptedModel) -> MetricResult:
    metric = row["metric"]
    # The rows hold a key; files must name its variable.
    options = json.loads(json.dumps(metric.get("criterion") or {}).replace('"k"', '"${JUDGE_KEY}"'))
    bench = bench_of(model) if options else None
    metric_type = plugins.own_metric_type(f"trpc/{metric['metricName']}")
    criterion = Criterion(metric["metricName"], metric["threshold"], options)
    case, run = conversation(row)
    return await metric_type.build(criterion, MetricContext(NEWEST_ADK, bench)).score(case, run)


async def is_an_error(row: dict[str, Any]) -> bool:
    try:
        return isinstance(await evaluated(row, scripted(row)), MetricFailed)
    except (JudgeFailed, NoJudge, ValidationError):
        return True


@pytest.mark.parametrize("row", [row for row in ROWS if "error" in row["result"]], ids=lambda row: row["id"])
async def test_what_is_an_error_there_is_no_score_here(row: dict[str, Any]) -> None:
    assert await is_an_error(row)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if "error" not in row["result"]], ids=lambda row: row["id"]
)
async def test_scores_are_equal(row: dict[str, Any]) -> None:
    model, wanted = scripted(row), row["result"]
    result = await evaluated(row, model)

    assert len(model.requests) == wanted["judgeCalls"]
    if wanted["overallStatus"] == "not_evaluated":
        assert isinstance(result, NotApplicable)
        return
    assert isinstance(result, Scored)
    assert result.score == wanted["overallScore"]
    assert [(turn.score, turn.reason) for turn in result.turns] == [
        (turn.get("score", 0.0), turn.get("reason", "")) for turn in wanted["perInvocation"]
    ]
    for turn, there in zip(result.turns, wanted["perInvocation"], strict=True):
        rubrics = (turn.details or {}).get("rubric_scores", [])
        assert rubrics == [{"score": 0, **rubric} for rubric in there.get("rubricScores", [])]


@pytest.mark.parametrize(
    "row", [row for row in ROWS if "prompt_must_contain" in row], ids=lambda row: row["id"]
)
async def test_the_judge_sees_what_it_sees_there(row: dict[str, Any]) -> None:
    model = scripted(row)
    await evaluated(row, model)

    text = model.requests[-1].messages[-1].text
    assert [part for part in row["prompt_must_contain"] if part not in text] == []


async def test_what_is_decided_otherwise_is_decided_so() -> None:
    for row in rows("llm_evaluators.json"):
        if row["id"] in OTHERWISE:
            assert not await is_an_error(row)

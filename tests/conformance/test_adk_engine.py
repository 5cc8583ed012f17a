"""Inputs made at random, and what the engines of Google ADK 2.3.0 and 2.13.0 made of them, to the last bit."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalgate.core.types import CaseRun, EvalCase, MetricResult, MetricScore
from tests.conformance.adk import Vector
from tests.conformance.test_adk_judge import Row, case_of, scored, scripted

ROWS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("adk_engine_rows.json").read_text("utf-8"))
CASES = [(number, release) for number, row in enumerate(ROWS) for release in row["results"]]


@pytest.mark.parametrize(("number", "release"), CASES)
async def test_a_score_is_that_of_the_engine(number: int, release: str) -> None:
    row = ROWS[number]
    wanted = row["results"][release]

    result, asked = await (_judged if "judge_outputs" in row else _computed)(row, release)

    if wanted is None:  # NOT_EVALUATED, or the engine gave up
        assert not isinstance(result, MetricScore)
        return
    assert isinstance(result, MetricScore)
    assert result.score == wanted["score"]
    assert asked == wanted.get("asked")
    if not _pools_rubrics(row):
        assert [turn.score for turn in result.turns] == wanted["turns"]


async def _computed(row: dict[str, Any], release: str) -> tuple[MetricResult | None, int | None]:
    vector = Vector("", release, row["metric"], row["criterion"], row["expected"], row["actual"], None, None)
    try:
        return await vector.build().score(vector.case(), vector.run()), None
    except ValidationError:
        return None, None


class _Played(Row):
    """A conversation with a simulated user."""

    def case(self) -> EvalCase:
        return case_of({"eval_id": "c", "conversation_scenario": self.raw["scenario"]})

    def run(self) -> CaseRun:
        turns = case_of({"eval_id": "c", "conversation": self.raw["actual"]}).turns
        replies = tuple(turn.expected for turn in turns)
        return CaseRun(1, "answered", replies, said=tuple(turn.user for turn in turns))


async def _judged(row: dict[str, Any], release: str) -> tuple[MetricResult, int]:
    model = scripted(row["judge_outputs"])
    kind = _Played if "scenario" in row else Row
    result = await scored(kind(release, {"case_rubrics": None, **row}), model)
    return result, sum(request.attempt == 1 for request in model.requests)


def _pools_rubrics(row: dict[str, Any]) -> bool:
    """Google ADK gives no account of a turn's own score there: a turn of several rubrics shows the first's."""
    return row["metric"].startswith("rubric_") and len(row["actual"]) > 1

"""The scores and the files of adk-rs 0.6."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evalgate import plugins
from evalgate.errors import InvalidInput
from evalgate.formats.adk_rs import AdkRsEvalSet
from evalgate.jsontext import parse_json
from evalgate.load import load_eval_sets
from evalgate.metrics.adk_rs_response_match import AdkRsResponseMatch
from evalgate.metrics.adk_rs_tool_trajectory import AdkRsToolTrajectory
from evalgate.model import CaseRun, Criterion, EvalCase, Reply, Scored, Turn, TurnScore, UserMessage
from evalgate.protocols import MetricContext, MetricType
from evalgate.turnwise import mean_if_every_turn_passes
from tests.conformance import shared_folder

METRICS: dict[str, MetricType] = {
    "tool_trajectory_avg_score": AdkRsToolTrajectory,
    "final_response_match_v1": AdkRsResponseMatch,
}
READ_ALL_THE_SAME = {"A18"}
"""Rows that adk-rs refuses and evalgate reads: null counts as absent. See docs/conformance.md."""


@dataclass(frozen=True)
class Vector:
    id: str
    metric: str
    threshold: float
    expected: Any
    actual: Any
    score: float
    passed: bool
    details: Any = None


def an_invocation(calls: Any = (), text: str | None = None) -> Any:
    response = None if text is None else {"role": "model", "parts": [{"text": text}]}
    uses = [{"name": name, "args": args} for name, args in calls]
    return {
        "user_content": {"role": "user", "parts": [{"text": "?"}]},
        "final_response": response,
        "intermediate_data": {"tool_uses": uses},
    }


def rows(name: str) -> list[Any]:
    folder = shared_folder()
    path = folder / "conformance/adk-rs" / name if folder else Path("/nonexistent")
    found: list[Any] = json.loads(path.read_text("utf-8")) if path.is_file() else []
    return found


def vectors() -> list[Vector]:
    ours = json.loads(Path(__file__).with_name("adk_rs_cases.json").read_text("utf-8"))
    sides = ("expected", "actual")
    committed = [Vector(**{**row, **{side: an_invocation(**row[side]) for side in sides}}) for row in ours]
    names = ("id", "metric", "threshold", "expected", "actual", "score", "details")
    theirs = [
        Vector(**{name: row[name] for name in names}, passed=row["status"] == "PASSED")
        for row in rows("metrics.json")
    ]
    return [*committed, *theirs]


def a_case(*conversation: Any) -> EvalCase:
    content = {"id": "s", "eval_cases": [{"id": "c", "conversation": list(conversation)}]}
    return AdkRsEvalSet().read(parse_json(json.dumps(content).encode(), "vector.json")).cases[0]


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.id)
async def test_scores_and_statuses_are_equal(vector: Vector) -> None:
    metric = METRICS[vector.metric].build(Criterion(vector.metric, vector.threshold), MetricContext((2, 13)))
    actual = a_case(vector.actual).turns[0].expected

    result = await metric.score(a_case(vector.expected), CaseRun(1, "answered", (actual,)))

    assert isinstance(result, Scored)
    (turn,) = result.turns
    assert (result.score, result.passed, turn.passed) == (vector.score, vector.passed, vector.passed)
    assert vector.details in (None, turn.details)


AGGREGATES = [
    ("all pass", [(1.0, True), (0.6, True)], 0.8, True),
    (
        "one fails although the mean is high",
        [(1.0, True), (1.0, True), (0.4, False)],
        0.7999999999999999,
        False,
    ),
    *[
        (
            f"{row['id']} {name}",
            [(turn["score"], turn["status"] == "PASSED") for turn in turns],
            row["expected"]["scores"][name]["score"],
            row["expected"]["scores"][name]["status"] == "PASSED",
        )
        for row in rows("aggregate.json")
        for name, turns in row["per_invocation"].items()
    ],
]


@pytest.mark.parametrize(("name", "turns", "score", "passed"), AGGREGATES, ids=lambda value: str(value)[:40])
def test_a_case_passes_when_every_turn_does(
    name: str, turns: list[tuple[float, bool]], score: float, passed: bool
) -> None:
    given = iter(turns)

    def judge(turn: Turn, reply: Reply) -> TurnScore:
        value, is_passed = next(given)
        return TurnScore(value, passed=is_passed)

    case = EvalCase("c", tuple(Turn(UserMessage("?")) for _ in turns))
    run = CaseRun(1, "answered", tuple(Reply() for _ in turns))

    result = mean_if_every_turn_passes(case, run, judge)

    assert isinstance(result, Scored), name
    assert (result.score, result.passed) == (score, passed)


@pytest.mark.parametrize("row", rows("load.json"), ids=lambda row: row["id"])
def test_the_same_files_are_read(row: Any) -> None:
    document = parse_json(json.dumps(row["json"]).encode(), "vector.json")

    if row["expected"]["ok"] or row["id"] in READ_ALL_THE_SAME:
        assert AdkRsEvalSet().read(document).eval_set_id
    else:
        with pytest.raises(InvalidInput):
            AdkRsEvalSet().read(document)


def test_every_real_file_loads() -> None:
    folder = shared_folder()
    for path in sorted((folder / "corpus/adkrs").iterdir()) if folder else []:
        (eval_set,) = load_eval_sets([path.name], plugins.formats(), base=path.parent)

        assert all(case.turns for case in eval_set.cases), path.name

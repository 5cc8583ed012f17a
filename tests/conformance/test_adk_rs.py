"""The scores and the files of adk-rs 0.6."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import MetricContext, MetricType
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    Criterion,
    EvalCase,
    EvalSet,
    MetricScore,
    Reply,
    TurnScore,
    UserMessage,
)
from evalgate.datasets.loading import load_eval_sets
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.adk_rs.evalset import AdkRsFormat
from evalgate.integrations.adk_rs.metrics import AdkRsResponseMatch, AdkRsToolTrajectory
from evalgate.metrics.turnwise import compute_turn_mean_all_pass
from tests.conformance import shared_folder

METRICS: dict[str, MetricType] = {
    "tool_trajectory_avg_score": AdkRsToolTrajectory,
    "final_response_match_v1": AdkRsResponseMatch,
}


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
    return AdkRsFormat().read_eval_set(parse_json(json.dumps(content).encode(), "vector.json")).cases[0]


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.id)
async def test_scores_and_statuses_are_equal(vector: Vector) -> None:
    metric = METRICS[vector.metric].build(Criterion(vector.metric, vector.threshold), MetricContext((2, 13)))
    actual = a_case(vector.actual).turns[0].expected

    result = await metric.score(a_case(vector.expected), CaseRun(1, "answered", (actual,)))

    assert isinstance(result, MetricScore)
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
async def test_a_case_passes_when_every_turn_does(
    name: str, turns: list[tuple[float, bool]], score: float, passed: bool
) -> None:
    given = iter(turns)

    def judge(turn: CaseTurn, reply: Reply) -> TurnScore:
        value, is_passed = next(given)
        return TurnScore(value, passed=is_passed)

    case = EvalCase("c", tuple(CaseTurn(UserMessage("?")) for _ in turns))
    run = CaseRun(1, "answered", tuple(Reply() for _ in turns))

    result = await compute_turn_mean_all_pass(case, run, judge)

    assert isinstance(result, MetricScore), name
    assert (result.score, result.passed) == (score, passed)


def a_load(name: str, ok: bool, /, **content: Any) -> Any:
    return {"id": name, "json": content, "expected": {"ok": ok}}


def a_case_saying(part: Any) -> Any:
    return {"id": "c", "conversation": [{"user_content": {"role": "user", "parts": [part]}}]}


LOADS = [
    a_load("old ids", True, id="s", eval_cases=[{"id": "c", "conversation": [an_invocation([["f", [1]]])]}]),
    a_load("new ids", True, eval_set_id="s", eval_cases=[{"eval_id": "c", "conversation": []}]),
    a_load("no id", False, eval_cases=[]),
    a_load("both ids", False, id="s", eval_set_id="s", eval_cases=[]),
    a_load("no conversation", False, id="s", eval_cases=[{"id": "c"}]),
    a_load("a conversation of null", False, id="s", eval_cases=[{"id": "c", "conversation": None}]),
    a_load("a name of null", False, id="s", name=None, eval_cases=[]),
    a_load("a time as text", False, id="s", creation_timestamp="0", eval_cases=[]),
    a_load("a part of no kind", False, id="s", eval_cases=[a_case_saying({"foo": 1})]),
    a_load("a part of a kind and more", True, id="s", eval_cases=[a_case_saying({"text": "a", "foo": 1})]),
    a_load(
        "a thought that is no boolean",
        False,
        id="s",
        eval_cases=[a_case_saying({"text": "a", "thought": "x"})],
    ),
    a_load("a thought", True, id="s", eval_cases=[a_case_saying({"text": "a", "thought": True})]),
    a_load(
        "a call without a name", False, id="s", eval_cases=[a_case_saying({"functionCall": {"args": {}}})]
    ),
    a_load("both ids of a case", False, id="s", eval_cases=[{"id": "c", "eval_id": "c", "conversation": []}]),
    *rows("load.json"),
]


@pytest.mark.parametrize("row", LOADS, ids=lambda row: row["id"])
def test_the_same_files_are_read(row: Any) -> None:
    content, plain = row["json"], without_nulls(row["json"])

    if row["expected"]["ok"]:
        assert eval_set_in(content) is not None
    elif content != plain:  # adk-rs stops at most nulls; here null counts as absent: see docs/conformance.md
        assert eval_set_in(content) == eval_set_in(plain)
    else:
        assert eval_set_in(content) is None


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def eval_set_in(content: Any) -> EvalSet | None:
    try:
        return AdkRsFormat().read_eval_set(parse_json(json.dumps(content).encode(), "vector.json"))
    except InvalidInputError:
        return None


def test_every_real_file_loads() -> None:
    folder = shared_folder()
    for path in sorted((folder / "corpus/adkrs").iterdir()) if folder else []:
        (eval_set,) = load_eval_sets([path.name], plugin_registry.get_formats(), folder=path.parent)

        assert all(case.turns for case in eval_set.cases), path.name

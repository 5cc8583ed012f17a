"""`tool_trajectory_avg_score`."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evalgate.core.protocols import MetricContext
from evalgate.core.types import CaseRun, Criterion, MetricFailure, MetricResult, MetricScore, Reply, ToolCall
from evalgate.integrations.adk.metrics.tool_trajectory import ToolTrajectory
from tests.builders import a_call, a_case, a_turn
from tests.calls import CALLS, nest_arguments

FIND, BUY, SHIP = a_call("find", q="shoes"), a_call("buy", sku=7), a_call("ship")


async def judged(expected: Sequence[ToolCall], actual: Sequence[ToolCall], **options: Any) -> MetricResult:
    case = a_case("c", a_turn(expected=Reply(events=tuple(expected))))
    return await ToolTrajectory(**options).score(case, CaseRun(1, "answered", (Reply(events=tuple(actual)),)))


@pytest.mark.parametrize(
    ("match_type", "expected", "actual", "reason"),
    [
        ("EXACT", [FIND, BUY], [FIND, BUY], ""),
        ("EXACT", [FIND, BUY], [FIND, SHIP], "call 2: expected `buy(sku=7)`, got `ship()`"),
        ("EXACT", [FIND], [FIND, SHIP], "call 2: expected no further call, got `ship()`"),
        ("EXACT", [FIND, BUY], [FIND], "call 2: expected `buy(sku=7)`, got no further call"),
        ("IN_ORDER", [FIND, BUY], [SHIP, FIND, SHIP, BUY], ""),
        ("IN_ORDER", [], [SHIP], ""),
        ("IN_ORDER", [BUY], [SHIP], "call 1: expected `buy(sku=7)`, which the agent did not call"),
        (
            "IN_ORDER",
            [FIND, BUY],
            [BUY, FIND],
            'call 2: expected `buy(sku=7)` after `find(q="shoes")`, which the agent did not call',
        ),
        ("ANY_ORDER", [FIND, BUY], [BUY, SHIP, FIND], ""),
        ("ANY_ORDER", [FIND, BUY], [FIND], "call 2: expected `buy(sku=7)` in any order, got none"),
        (
            "ANY_ORDER",
            [BUY, FIND, BUY],
            [FIND, BUY, FIND],
            "call 3: expected `buy(sku=7)` 2 times in any order, got 1",
        ),
    ],
)
async def test_the_first_divergence_is_named(
    match_type: str, expected: list[ToolCall], actual: list[ToolCall], reason: str
) -> None:
    result = await judged(expected, actual, match_type=match_type)

    assert isinstance(result, MetricScore)
    assert (result.score, result.reason) == (0.0 if reason else 1.0, reason)


async def test_a_long_call_is_cut() -> None:
    result = await judged([a_call("find", {"q": "x" * 1000} | {f"k{i}": i for i in range(100)})], [])

    assert isinstance(result, MetricScore)
    assert len(result.reason) < 250


@pytest.mark.parametrize("match_type", ["EXACT", "IN_ORDER", "ANY_ORDER"])
async def test_arguments_can_be_ignored(match_type: str) -> None:
    one, other = [a_call("f", a=1), a_call("g")], [a_call("f", a=2), a_call("g", b=3)]

    assert _score(await judged(one, other, match_type=match_type)) == 0.0
    assert _score(await judged(one, other, match_type=match_type, ignore_args=True)) == 1.0


@pytest.mark.parametrize(
    "options", [{"match_type": "SUBSET"}, {"match_type": "0"}, {"match_type": 3}, {"matchtype": 1}]
)
def test_a_wrong_option_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ToolTrajectory.build(Criterion("m", 1.0, options), MetricContext((2, 13)))


@given(calls=CALLS, more=CALLS, seed=st.randoms(use_true_random=False))
async def test_any_order_ignores_the_order(
    calls: list[ToolCall], more: list[ToolCall], seed: random.Random
) -> None:
    shuffled = [*calls, *more]
    seed.shuffle(shuffled)

    assert _score(await judged(calls, shuffled, match_type="ANY_ORDER")) == 1.0


@given(expected=CALLS, actual=CALLS)
async def test_each_match_type_accepts_more_than_the_one_before(
    expected: list[ToolCall], actual: list[ToolCall]
) -> None:
    exact, in_order, any_order = [
        _score(await judged(expected, actual, match_type=match_type))
        for match_type in ("EXACT", "IN_ORDER", "ANY_ORDER")
    ]

    assert exact <= in_order <= any_order


async def test_arguments_nested_too_deep_fail_only_the_metric() -> None:
    result = await judged([nest_arguments()], [nest_arguments()])

    assert result == MetricFailure("the arguments of a tool call are nested too deep to be compared")


def _score(result: MetricResult) -> float:
    assert isinstance(result, MetricScore)
    return result.score


@pytest.mark.parametrize(
    "key", ["include_intermediate_responses_in_final", "includeIntermediateResponsesInFinal"]
)
def test_options_that_google_adk_accepts_everywhere_change_nothing(key: str) -> None:
    plain, with_it = (
        ToolTrajectory.build(Criterion("m", 1.0, options), MetricContext((2, 13)))
        for options in ({}, {key: True})
    )

    assert with_it.model_dump() == plain.model_dump()

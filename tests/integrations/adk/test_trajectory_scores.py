"""The six trajectory metrics of Google ADK's guide."""

from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from evalgate.core.protocols import MetricContext, MetricType
from evalgate.core.types import CaseRun, Criterion, MetricFailure, MetricScore, Reply, ToolCall
from evalgate.integrations.adk.metrics.trajectory_scores import (
    TrajectoryAnyOrderMatch,
    TrajectoryExactMatch,
    TrajectoryInOrderMatch,
    TrajectoryPrecision,
    TrajectoryRecall,
    TrajectorySingleToolUse,
)
from tests.builders import a_call, a_case, a_turn
from tests.calls import CALLS, nest_arguments

FIND, BUY, SHIP = a_call("find", q="shoes"), a_call("buy", sku=7), a_call("ship")
FAMILY: tuple[MetricType, ...] = (
    TrajectoryExactMatch,
    TrajectoryInOrderMatch,
    TrajectoryAnyOrderMatch,
    TrajectoryPrecision,
    TrajectoryRecall,
)


async def judged(
    kind: MetricType, expected: list[ToolCall], actual: list[ToolCall], **options: Any
) -> MetricScore:
    case = a_case("c", a_turn(expected=Reply(events=tuple(expected))))
    run = CaseRun(1, "answered", (Reply(events=tuple(actual)),))
    result = await kind.build(Criterion("m", 1.0, options), MetricContext((2, 13))).score(case, run)
    assert isinstance(result, MetricScore)
    return result


# exact, in order, any order, precision, recall
@pytest.mark.parametrize(
    ("expected", "actual", "scores"),
    [
        ([FIND, BUY], [FIND, BUY], (1, 1, 1, 1, 1)),
        ([FIND, BUY], [FIND, SHIP, BUY], (0, 1, 1, 2 / 3, 1)),
        ([FIND, BUY], [BUY, FIND], (0, 0, 1, 1, 1)),
        ([FIND, BUY], [FIND], (0, 0, 0, 1, 1 / 2)),
        ([FIND], [FIND, FIND], (0, 1, 1, 1 / 2, 1)),
        ([FIND, FIND], [FIND], (0, 0, 0, 1, 1 / 2)),
        ([FIND, BUY], [SHIP], (0, 0, 0, 0, 0)),
        ([FIND], [], (0, 0, 0, 0, 0)),
        ([], [SHIP], (0, 1, 1, 0, 1)),
        ([], [], (1, 1, 1, 1, 1)),
        ([a_call("find", q="a")], [a_call("find", q="b")], (0, 0, 0, 0, 0)),
    ],
)
async def test_each_trajectory_metric(
    expected: list[ToolCall], actual: list[ToolCall], scores: tuple[float, ...]
) -> None:
    assert tuple([(await judged(kind, expected, actual)).score for kind in FAMILY]) == scores


@pytest.mark.parametrize(
    ("kind", "actual", "reason"),
    [
        (TrajectoryExactMatch, [FIND], "call 2: expected `buy(sku=7)`, got no further call"),
        (
            TrajectoryPrecision,
            [SHIP, FIND, SHIP],
            "2 of 3 calls were not expected, first `ship()`",
        ),
        (TrajectoryPrecision, [], "the agent called no tool"),
        (TrajectoryRecall, [FIND], "1 of 2 expected calls are missing, first `buy(sku=7)`"),
    ],
)
async def test_a_lower_score_has_a_reason(kind: MetricType, actual: list[ToolCall], reason: str) -> None:
    assert (await judged(kind, [FIND, BUY], actual)).reason == reason


@pytest.mark.parametrize("kind", FAMILY)
async def test_arguments_can_be_ignored(kind: MetricType) -> None:
    one, other = [a_call("f", a=1)], [a_call("f", a=2)]

    assert (await judged(kind, one, other, ignore_args=True)).score == 1.0
    assert (await judged(kind, one, other)).score == 0.0


@given(expected=CALLS, actual=CALLS)
async def test_the_trajectory_metrics_agree_with_each_other(
    expected: list[ToolCall], actual: list[ToolCall]
) -> None:
    exact, in_order, any_order, precision, recall = [
        (await judged(kind, expected, actual)).score for kind in FAMILY
    ]

    assert 0 <= exact <= in_order <= any_order <= recall <= 1
    assert (any_order == 1) == (recall == 1)
    assert 0 <= precision <= 1
    assert exact == 0 or precision == recall == 1


@given(expected=CALLS, actual=CALLS)
async def test_a_further_expected_call_that_is_made_never_lowers_recall(
    expected: list[ToolCall], actual: list[ToolCall]
) -> None:
    before = await judged(TrajectoryRecall, expected, actual)
    after = await judged(TrajectoryRecall, [*expected, BUY], [*actual, BUY])

    assert after.score >= before.score


@pytest.mark.parametrize(
    ("replies", "score"),
    [
        ([Reply(events=(FIND,)), Reply(events=(SHIP, BUY))], 1.0),
        ([Reply(events=(FIND,)), None], 0.0),
        ([], 0.0),
    ],
)
async def test_a_tool_is_used_somewhere_in_the_conversation(
    replies: list[Reply | None], score: float
) -> None:
    run = CaseRun(1, "answered", tuple(replies))
    result = await TrajectorySingleToolUse(tool_name="buy").score(a_case(), run)

    assert result == MetricScore(score, reason="" if score else "the agent never called `buy`")


@pytest.mark.parametrize("options", [{}, {"tool_name": ""}, {"tool_name": "buy", "ignore_args": True}])
def test_the_single_tool_must_be_named(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TrajectorySingleToolUse.build(Criterion("m", 1.0, options), MetricContext((2, 13)))


@pytest.mark.parametrize(("kind", "score"), [(TrajectoryRecall, 0.8), (TrajectoryPrecision, 1.0)])
async def test_turns_with_the_same_score_have_it_as_their_mean(kind: MetricType, score: float) -> None:
    """Six times 0.8, added one after the other, are 4.8 less a rounding error."""
    tools = [a_call(name) for name in "abcde"]
    case = a_case("c", *[a_turn(expected=Reply(events=tuple(tools)))] * 6)
    run = CaseRun(1, "answered", (Reply(events=tuple(tools[:4])),) * 6)

    result = await kind.build(Criterion("m", 0.8), MetricContext((2, 13))).score(case, run)

    assert isinstance(result, MetricScore)
    assert result.score == score


async def test_arguments_nested_too_deep_fail_only_the_metric() -> None:
    case = a_case("c", a_turn(expected=Reply(events=(nest_arguments(),))))
    run = CaseRun(1, "answered", (Reply(events=(nest_arguments(),)),))

    result = await TrajectoryRecall().score(case, run)

    assert result == MetricFailure("the arguments of a tool call are nested too deep to be compared")

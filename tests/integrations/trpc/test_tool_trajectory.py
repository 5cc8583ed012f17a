"""`trpc/tool_trajectory_avg_score`."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from evalgate.core.protocols import MetricContext
from evalgate.core.types import CaseRun, Criterion, Message, MetricScore, Reply, ToolCall, ToolResult
from evalgate.integrations.trpc.metrics.tool_trajectory import (
    CallIndex,
    TrajectoryCriterion,
    TrpcToolTrajectory,
    find_unmatched_indices,
)
from evalgate.metrics.tool_call_matching import ToolRecord, collect_tool_records
from tests.builders import a_case, a_turn

NUMBERS = st.sampled_from([0, 1, 1.0000005, 1.0000015, 2, -3, 10**400])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "a", "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)
CALLS = st.lists(st.builds(ToolRecord, st.sampled_from("ab"), VALUES, VALUES), max_size=4)


def built(options: dict[str, Any]) -> TrpcToolTrajectory:
    return TrpcToolTrajectory.build(Criterion("m", 1.0, options), MetricContext((2, 13)))


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({}, ("toolTrajectory",)),
        ({"toolTrajectory": None}, ("toolTrajectory",)),
        ({"toolTrajectory": {"toolStrategy": {"a": None}}}, ("toolTrajectory", "toolStrategy", "a")),
        ({"toolTrajectory": {"compareName": "mine"}}, ("toolTrajectory", "compareName")),
        ({"toolTrajectory": {"orderSensitive": "yes"}}, ("toolTrajectory", "orderSensitive")),
        ({"toolTrajectory": {"orderSensitiv": True}}, ("toolTrajectory", "orderSensitiv")),
        (
            {"toolTrajectory": {"defaultStrategy": {"arguments": {"numberTolerance": "1"}}}},
            ("toolTrajectory", "defaultStrategy", "arguments", "numberTolerance"),
        ),
    ],
)
def test_an_invalid_option_is_refused_with_its_position(
    options: dict[str, Any], place: tuple[str, ...]
) -> None:
    with pytest.raises(ValidationError) as caught:
        built(options)

    assert [error["loc"] for error in caught.value.errors()] == [place]


@pytest.mark.parametrize(
    "spelling", ["toolTrajectory", "tool_trajectory", "ToolTrajectory", "TOOLTRAJECTORY"]
)
def test_keys_are_read_in_any_case(spelling: str) -> None:
    metric = built({spelling: {"order_sensitive": True, "SUBSETMATCHING": True}, "llmJudge": {"x": 1}})

    assert metric.tool_trajectory == TrajectoryCriterion(orderSensitive=True, subsetMatching=True)


@pytest.mark.parametrize(
    ("criterion", "ordered"),
    [
        ({}, False),
        ({"orderInsensitive": False}, True),
        ({"orderInsensitive": True}, False),
        ({"defaultStrategy": {"response": {"ignore": True}}}, True),
    ],
)
def test_criteria_of_2025_are_order_sensitive_by_default(criterion: Any, ordered: bool) -> None:
    assert built({"toolTrajectory": criterion}).tool_trajectory.order_sensitive is ordered


def test_a_result_belongs_to_the_call_of_its_id_or_tool() -> None:
    reply = Reply(
        None,
        (
            ToolCall("a", {}, "1"),
            ToolCall("a", {}, "2"),
            ToolCall("b"),
            ToolResult("a", 2, "2"),
            Message("…"),
            ToolResult("b", 3),
            ToolResult("c", 4),
        ),
    )

    assert [(record.id, record.result) for record in collect_tool_records(reply)] == [
        ("1", None),
        ("2", 2),
        ("", 3),
    ]


async def test_the_reason_names_the_turn_the_tool_and_the_difference() -> None:
    wanted = Reply(None, (ToolCall("pay", {"amount": 1}, "c1"),))
    given_ = Reply(None, (ToolCall("pay", {"amount": 2}, "x9"),))
    case = a_case("c", a_turn(expected=wanted), a_turn(expected=wanted))
    result = await built({"toolTrajectory": {}}).score(case, CaseRun(1, "answered", (wanted, given_)))

    assert isinstance(result, MetricScore)
    assert result.score == 0.5
    assert result.reason == (
        "turn 2: tool trajectory mismatch: match tools: cannot match all left vertices; "
        "tool id c1 with name pay mismatch: actual tool x9 named pay mismatch with expected tool c1 named pay: "
        'arguments mismatch: actual {"amount": 2} and expected {"amount": 1} do not match: '
        "compare amount: actual 2 and expected 1 do not match"
    )


@given(CALLS, CALLS, st.booleans(), st.sampled_from([0.0, 1e-6, 1.0, -1.0]))
@settings(deadline=None)
def test_the_index_does_not_change_the_result(
    actual: list[ToolRecord], expected: list[ToolRecord], subset: bool, tolerance: float
) -> None:
    """Turn the index off by a strategy for a tool that is never called."""
    strategy = {"name": {}, "arguments": {"numberTolerance": tolerance}, "result": {}}
    plain = {"defaultStrategy": strategy, "subsetMatching": subset}
    indexed = TrajectoryCriterion.model_validate(plain)
    unindexed = TrajectoryCriterion.model_validate({**plain, "toolStrategy": {"nobody": {}}})

    assert indexed.find_mismatch(actual, expected) == unindexed.find_mismatch(actual, expected)


@given(CALLS, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_any_order_matches_itself_shuffled(calls: list[ToolRecord], random: Any) -> None:
    small = [call for call in calls if str(10**400) not in str(call)]
    shuffled = random.sample(small, len(small))

    assert TrajectoryCriterion().find_mismatch(shuffled, small) == ""


@given(st.integers(0, 5), st.integers(0, 5), st.data())
@settings(deadline=None)
def test_the_matching_is_maximum(lefts: int, rights: int, data: st.DataObject) -> None:
    edges = data.draw(st.sets(st.tuples(st.integers(0, lefts), st.integers(0, rights))))
    lacking = find_unmatched_indices([range(rights)] * lefts, lambda left, right: (left, right) in edges)

    padded = [*range(rights), *([None] * lefts)]
    best = max(
        sum((left, right) in edges for left, right in enumerate(order))
        for order in set(permutations(padded, lefts))
    )
    assert lefts - len(lacking) == best


def test_ten_thousand_distinct_calls_need_few_comparisons() -> None:
    calls = [ToolRecord("f", {"n": number}) for number in range(10_000)]
    index = CallIndex(calls[::-1], 1e-6)

    assert all(len(index.find_candidates(call)) == 1 for call in calls)
    assert TrajectoryCriterion().find_mismatch(calls[::-1], calls) == ""

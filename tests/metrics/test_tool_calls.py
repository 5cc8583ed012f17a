"""Comparing lists of tool calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.types import ToolCall
from evalgate.metrics import tool_call_matching
from evalgate.metrics.tool_call_matching import ToolCallComparator
from tests.builders import a_call
from tests.calls import CALLS


@given(expected=CALLS, actual=CALLS, ignore_args=st.booleans())
def test_counting_agrees_with_comparing_each_with_each(
    expected: list[ToolCall], actual: list[ToolCall], ignore_args: bool
) -> None:
    comparison = ToolCallComparator(ignore_args)

    by_count = comparison._match_by_count(expected, actual)

    assert by_count == comparison._match_by_pairs(expected, actual)


@given(expected=CALLS, actual=CALLS)
def test_the_calls_without_a_partner_are_listed_for_both_sides(
    expected: list[ToolCall], actual: list[ToolCall]
) -> None:
    comparison = ToolCallComparator()
    missed, extra = (
        comparison.find_unmatched_calls(expected, actual),
        comparison.find_unmatched_calls(actual, expected),
    )

    assert len(expected) - len(missed) == len(actual) - len(extra)


def test_ten_thousand_calls_are_counted_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [a_call("f", i=i, at=[{"x": i}]) for i in range(10_000)]

    def never(self: ToolCallComparator, one: ToolCall, other: ToolCall) -> bool:
        raise AssertionError("compared one by one")

    monkeypatch.setattr(ToolCallComparator, "is_same_call", never)

    assert ToolCallComparator().compare_any_order(calls, list(reversed(calls))) == ""


def test_a_value_that_json_does_not_know_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_call_matching, "_PAIRS_COMPARED_ONE_BY_ONE", 0)
    calls = [a_call("f", a={1, 2})]

    assert ToolCallComparator().find_unmatched_calls(calls, calls) == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (ToolCall("f", other_args=[1]), ToolCall("f", other_args=[1]), True),
        (ToolCall("f", other_args=[1]), ToolCall("f", other_args=[2]), False),
        (ToolCall("f", other_args="x"), ToolCall("f"), False),
        (ToolCall("f", other_args="x"), ToolCall("f", {"x": 1}), False),
    ],
)
def test_arguments_that_are_no_object_are_compared(one: ToolCall, other: ToolCall, same: bool) -> None:
    comparison = ToolCallComparator()
    assert comparison.is_same_call(one, other) is same
    assert (comparison.compare_exact([one], [other]) == "") is same
    assert (comparison._match_by_count([one], [other]) == []) is same
    assert ToolCallComparator(ignore_args=True).is_same_call(one, other)

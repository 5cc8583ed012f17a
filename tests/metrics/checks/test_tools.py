"""Conditions of checks on the tools that are called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.types import Reply, ToolCall, ToolResult
from evalgate.metrics.checks.tools import is_error_result
from tests.metrics.checks.build import calls, fault


@pytest.mark.parametrize(
    ("rule", "made", "reason"),
    [
        ({"require": "b"}, "ab", ""),
        ({"require": ["a", "c"]}, "ab", "expected a call of `c`, found `a` and `b`"),
        ({"require": "c"}, "", "expected a call of `c`, found no call"),
        ({"require": "[ac]"}, "a", ""),
        ({"forbid": "c*"}, "ab", ""),
        ({"forbid": ["x", "b*"]}, "ab", "turn 1, call 2 `b()`: `b*` is forbidden"),
        ({"forbid": "*"}, "a", "turn 1, call 1 `a()`: `*` is forbidden"),
        ({"forbid": "*"}, "", ""),
        ({"only": ["a", "b"]}, "aba", ""),
        ({"only": "a"}, "ab", "turn 1, call 2 `b()`: only `a` may be called"),
        ({"order": ["a", "b"]}, "axb", ""),
        ({"order": ["a", "b"]}, "bab", ""),
        ({"order": ["a", "b"]}, "ba", "expected a call of `b` after turn 1, call 2 `a()`, found `b` and `a`"),
        ({"order": ["a", "a"]}, "a", "expected a call of `a` after turn 1, call 1 `a()`, found `a`"),
        ({"max": {"a": 1}}, "ab", ""),
        ({"max": {"a": 1}}, "aba", "turn 1, call 3 `a()`: expected at most 1 call of `a`, found 2"),
        ({"max": {"*": 1}}, "ab", "turn 1, call 2 `b()`: expected at most 1 call in all, found 2"),
        ({"max": {"a": 0}}, "a", "turn 1, call 1 `a()`: expected at most 0 calls of `a`, found 1"),
        ({"min": {"a": 2}}, "aa", ""),
        ({"min": {"a": 2}}, "ab", "expected at least 2 calls of `a`, found 1"),
        ({"no_repeats": True}, "ab", ""),
        ({"no_repeats": True}, "aba", "turn 1, call 3 `a()` repeats turn 1, call 1"),
        ({"forbid": "a", "require": "c"}, "a", "turn 1, call 1 `a()`: `a` is forbidden (and 1 more)"),
    ],
)
def test_tools(rule: dict[str, object], made: str, reason: str) -> None:
    assert fault({"tools": rule}, calls(*made)) == reason


@pytest.mark.parametrize(("again", "repeats"), [(1.0, True), (1.5, False), ("1", False), (True, False)])
def test_arguments_that_are_equal_as_json_are_a_repeat(again: object, repeats: bool) -> None:
    made = tuple(ToolCall("a", {"items": [{"n": value}]}) for value in (1, again))
    assert bool(fault({"tools": {"no_repeats": True}}, Reply("", made))) is repeats


def test_a_turn_is_looked_at_alone() -> None:
    replies = calls("a"), calls("b", "c")
    assert fault({"tools": {"require": "a"}}, *replies) == ""
    assert (
        fault({"tools": {"require": "a"}, "turn": 2}, *replies) == "expected a call of `a`, found `b` and `c`"
    )
    assert (
        fault({"tools": {"forbid": "c"}, "turn": "last"}, *replies)
        == "turn 2, call 2 `c()`: `c` is forbidden"
    )
    assert fault({"tools": {"order": ["a", "c"]}}, *replies) == ""


def test_a_turn_without_a_reply_fails() -> None:
    assert fault({"tools": {"forbid": "a"}}, calls("b"), None) == "turn 2: the agent gave no reply"


@pytest.mark.parametrize(
    ("result", "is_error"),
    [
        ({"error": "no such order"}, True),
        ({"error": None, "id": 1}, False),
        ({"isError": True}, True),
        ({"status": "FAILED"}, True),
        ({"status": "failing order"}, False),
        ({"result": {"error": {"code": 1}}}, True),
        ({"result": "Error: timeout"}, True),
        ("error", True),
        ("Errors are rare", False),
        ("Traceback (most recent call last):\n", True),
        (None, False),
        ([], False),
    ],
)
def test_failed_calls(result: object, is_error: bool) -> None:
    reply = Reply("Done.", (ToolCall("a", {"id": 1}), ToolCall("b", {}), ToolResult("b", result)))
    found = fault({"tools": {"no_failed_calls": True}}, reply)
    assert is_error_result(result) is is_error
    assert found.startswith("turn 1, call 2 `b()` failed: it returned ") is is_error


names = st.lists(st.sampled_from("abc"), max_size=6)


@given(names, st.sampled_from("abc"))
def test_require_and_forbid_are_complements(made: list[str], tool: str) -> None:
    reply = calls(*made)
    assert bool(fault({"tools": {"require": tool}}, reply)) is not bool(
        fault({"tools": {"forbid": tool}}, reply)
    )


@given(names, st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
def test_order_is_a_subsequence(made: list[str], order: list[str]) -> None:
    rest = iter(made)
    assert (fault({"tools": {"order": order}}, calls(*made)) == "") is all(name in rest for name in order)


@given(names, st.sets(st.sampled_from("abc"), min_size=1))
def test_only_is_no_other(made: list[str], allowed: set[str]) -> None:
    assert (fault({"tools": {"only": sorted(allowed)}}, calls(*made)) == "") is (set(made) <= allowed)


@given(names, st.integers(0, 4))
def test_max_and_min_count(made: list[str], limit: int) -> None:
    too_many = fault({"tools": {"max": {"a": limit}}}, calls(*made))
    enough = fault({"tools": {"min": {"a": limit + 1}}}, calls(*made))
    assert bool(too_many) is not bool(enough)

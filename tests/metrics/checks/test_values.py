"""Conditions of checks on arguments and on the state."""

from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.types import Reply, ToolCall
from evalgate.metrics.checks.values import MISSING, find_values, is_near
from tests.metrics.checks.build import call_with, calls, fault


@pytest.mark.parametrize(
    ("rule", "value", "reason"),
    [
        (5, 5.0, ""),
        (1, True, "should be 1, found true"),
        ("1", 1, 'should be "1", found 1'),
        (None, None, ""),
        ({"equals": {"a": [1]}}, {"a": [1]}, ""),
        ({"equals": {"a": 1}}, {"a": True}, 'should be {"a": 1}, found {"a": true}'),
        ({"equals": "ROME", "ignore_case": True}, "Rome", ""),
        ({"any": True}, None, ""),
        ({"any": False}, None, "should be absent, found null"),
        ({"matches": "^A-[0-9]+$"}, "A-7", ""),
        ({"matches": "^A-[0-9]+$"}, "B-7", 'should match `^A-[0-9]+$`, found "B-7"'),
        ({"matches": "7"}, 7, "should be a text and match `7`, found 7"),
        ({"contains": "om"}, "Rome", ""),
        ({"contains": 2}, [1, 2], ""),
        ({"contains": {"b": {"c": 1}}}, {"a": 0, "b": {"c": 1, "d": 2}}, ""),
        ({"contains": "Om"}, "Rome", 'should contain "Om", found "Rome"'),
        ({"approx": 39.9}, 39.9, ""),
        ({"approx": 39.9, "within": 0.1}, 40, ""),
        ({"approx": 39.9, "within": 0.01}, 40, "should be 39.9 ± 0.01, found 40"),
        ({"approx": 10**15, "within": 1}, 10**15 + 1, ""),
        ({"approx": 10**15, "within": 1}, 10**15 + 2, "should be 1e+15 ± 1.0, found 1000000000000002"),
        ({"approx": 100, "within": "5%"}, 105, ""),
        ({"approx": 100, "within": "5%"}, 106, "should be 100 ± 5%, found 106"),
        ({"approx": 1}, True, "should be 1, found true"),
        ({"approx": 39.9}, "39.9", 'should be 39.9, found "39.9"'),
        ({"approx": 1}, 10**400, f"should be 1, found {'1' + '0' * 78}…"),
        ({"one_of": ["a", "b"]}, "b", ""),
        ({"one_of": ["a", 1]}, True, 'should be one of "a", 1, found true'),
        ({"json_schema": {"type": "number"}}, 1, ""),
        (
            {"json_schema": {"properties": {"n": {"type": "number"}}}},
            {"n": "1"},
            "should fit its JSON Schema: at `n`: '1' is not of type 'number', found {\"n\": \"1\"}",
        ),
        ({"matches": "a", "contains": "b"}, "a", 'should contain "b", found "a"'),
    ],
)
def test_values(rule: object, value: object, reason: str) -> None:
    found = fault({"args": {"pay": {"it": rule}}}, call_with(it=value))
    assert found == (f"{found.partition(': `it`')[0]}: `it` {reason}" if reason else "")
    assert fault({"state": {"it": rule}}, Reply("Done."), state={"it": value}) == (
        f"state `it` {reason}" if reason else ""
    )


ORDER = {"id": 7, "items": [{"sku": "a"}, {"sku": "b"}], "a.b": 1, "a": {"b": 2}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("id", [("id", 7)]),
        ("items[0].sku", [("items[0].sku", "a")]),
        ("items[-1].sku", [("items[-1].sku", "b")]),
        ("items[*].sku", [("items[0].sku", "a"), ("items[1].sku", "b")]),
        ("a.b", [("a.b", 1)]),
    ],
)
def test_paths(path: str, found: list[tuple[str, object]]) -> None:
    assert list(find_values(ORDER, path)) == found


@pytest.mark.parametrize("path", ["nothing", "items[2].sku", "id.x", "items.sku", "id[*]", "items[0].sku[0]"])
def test_a_path_that_leads_nowhere(path: str) -> None:
    found = fault({"args": {"pay": {path: 5}}}, Reply("", (ToolCall("pay", ORDER),)))
    assert found.endswith(f"`{path}` should be 5, found nothing")
    assert fault({"args": {"pay": {path: {"any": False}}}}, Reply("", (ToolCall("pay", ORDER),))) == ""


@pytest.mark.parametrize(
    "path", ["id[", "id.", ".id", "id..", "items[0", "items[]", "items]0[", "[]", "", "items[x]"]
)
def test_what_is_no_path_is_the_name_of_a_key(path: str) -> None:
    assert list(find_values(ORDER, path)) == [(path, MISSING)]
    assert list(find_values({**ORDER, path: 7}, path)) == [(path, 7)]


def test_which_calls_must_fit() -> None:
    two = Reply("", (ToolCall("pay", {"n": 1}), ToolCall("pay", {"n": 2})))
    args = {"args": {"pay": {"n": 2}}}
    assert fault(args, two) == "turn 1, call 1 `pay(n=1)`: `n` should be 2, found 1"
    assert fault({**args, "calls": "some"}, two) == ""
    assert fault({"args": {"pay": {"n": 3}}, "calls": "some"}, two).endswith("`n` should be 3, found 1")
    assert fault({**args, "calls": "if_any"}, calls("other")) == ""
    assert fault(args, calls("other")) == "expected a call of `pay`, found `other`"
    assert fault({"args": {"p*": {"n": {"any": True}}}}, two) == ""


def test_arguments_that_are_no_object() -> None:
    reply = Reply("", (ToolCall("pay", None, other_args="all of it"),))
    assert fault({"args": {"pay": {"n": 1}}}, reply).endswith("`n` should be 1, found nothing")


def test_a_state_that_is_not_reported() -> None:
    assert fault({"state": {"a": 1}}, Reply("")) == "the agent reported no session state"


@pytest.mark.parametrize(
    ("value", "wanted", "holds"),
    [
        (1234567891, 1234567890, False),
        (39.0, 39, True),
        (0.1 + 0.2, 0.3, True),
        (1234567890.51, 1234567890.5, False),
        (10**400, 1.0, False),
    ],
)
def test_approx_alone_allows_rounding_only(value: float, wanted: float, holds: bool) -> None:
    assert is_near(value, wanted, None) is holds


finite = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30)


@given(finite, finite, st.none() | st.floats(1e-9, 1e9) | st.sampled_from(["1%", "5%", "250%"]))
def test_approx_is_symmetric_and_reflexive(one: float, other: float, within: float | str | None) -> None:
    assert is_near(one, other, within) is is_near(other, one, within)
    assert is_near(one, one, within)


@given(finite, finite, st.floats(1e-6, 1e6))
def test_a_wider_tolerance_takes_no_less(one: float, other: float, within: float) -> None:
    assert is_near(one, other, within * 2) or not is_near(one, other, within)


@given(
    st.sampled_from(["a+b", "^x", "[0-9]{2}$", "(?i)rome", "é|ß", "^$"]), st.text("abxROMEé0123", max_size=6)
)
def test_matches_agrees_with_re2(pattern: str, text: str) -> None:
    found = fault({"args": {"pay": {"it": {"matches": pattern}}}}, call_with(it=text))
    assert (found == "") is (import_module("re2").search(pattern, text) is not None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(json_values)
def test_every_value_equals_itself_and_is_one_of_itself(value: object) -> None:
    for rule in ({"equals": value}, {"one_of": [value]}):
        assert fault({"args": {"pay": {"it": rule}}}, call_with(it=value)) == ""

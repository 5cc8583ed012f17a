"""Answers of tool calls from a recording."""

from typing import Any

import pytest

from evalgate.agents.host.errors import NoMatchingMockError
from evalgate.agents.host.mocked_tools import Mocks
from evalgate.agents.host.recorded_tools import CallRecording, RecordedToolError, format_canonical


def call(name: str, args: Any, *answers: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "answers": [{"result": each} for each in answers]}


def recorded(*calls: dict[str, Any], **more: Any) -> CallRecording:
    return CallRecording({"source": "tools.json", "calls": list(calls), **more})


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": None}, {}, False),
        ({}, None, False),
        ({"a": 0.1}, {"a": 0.10}, True),
        ({"a": 2**53 + 1}, {"a": float(2**53)}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
    ],
)
def test_arguments_are_compared_as_json(one: object, other: object, is_equal: bool) -> None:
    assert (format_canonical(one) == format_canonical(other)) is is_equal


def test_equal_calls_are_answered_in_order_and_once_each() -> None:
    found = recorded(call("poll", {"id": 1}, "waiting", {"done": [1]}), call("poll", {"id": 2}, "other"))

    assert found.take_result("poll", {"id": 1.0}) == "waiting"
    assert found.take_result("poll", {"id": 2}) == "other"
    assert found.take_result("poll", {"id": 1}) == {"done": [1]}
    with pytest.raises(
        NoMatchingMockError, match=r'`poll` was recorded 2 times with the arguments {"id": 1}'
    ):
        found.take_result("poll", {"id": 1})


def test_an_agent_that_changes_a_result_changes_no_recording() -> None:
    result = {"items": [1]}
    found = recorded(call("get", {}, result, result))
    found.take_result("get", {})["items"].append(2)

    assert found.take_result("get", {}) == {"items": [1]}


def test_a_miss_names_the_nearest_call_and_its_first_difference() -> None:
    found = recorded(
        call("book", {"to": "Oslo", "seats": [{"row": 1}], "note": None}, 1), call("book", {"to": "Rome"}, 2)
    )

    with pytest.raises(NoMatchingMockError) as error:
        found.take_result("book", {"to": "Oslo", "seats": [{"row": 2}]})

    assert str(error.value) == (
        "no call of `book` in tools.json has these arguments. The nearest one differs in `seats[0].row` "
        "(and 1 more): recorded 1, now 2. Record again with `--live-tools`, or give this call a fixed result "
        "in `tool_mocks`."
    )


def test_a_miss_of_another_tool_lists_those_that_were_called() -> None:
    with pytest.raises(NoMatchingMockError, match="no call of `pay` in this case; it has calls of `a`, `b`"):
        recorded(call("a", {}, 1), call("b", {}, 1)).take_result("pay", {})


def test_recorded_errors_are_raised_and_lost_results_are_misses() -> None:
    error = {
        "name": "get",
        "args": {},
        "answers": [{"error": "no such order", "type": "NotFound"}, {"lost": "why"}],
    }
    found = recorded(error)

    with pytest.raises(RecordedToolError, match="no such order") as raised:
        found.take_result("get", {})
    assert raised.value.type_name == "NotFound"
    with pytest.raises(NoMatchingMockError, match="these arguments, and why"):
        found.take_result("get", {})


def test_fixed_mocks_come_first_and_live_tools_are_not_mocked() -> None:
    fixed: list[dict[str, Any]] = [
        {"name": "get", "args": {"id": 1}, "result": "fixed"},
        {"name": "calc", "result": 4},
    ]
    mocks = Mocks(fixed, recorded(call("get", {"id": 2}, "recorded"), live=["calc*", "search"]))
    mocks.begin_turn()

    assert [mocks.require_result("get", {"id": each}) for each in (1, 2)] == ["fixed", "recorded"]
    assert mocks.require_result("calc", {}) == 4
    assert [mocks.is_mocked(name) for name in ("get", "calc", "calc_tax", "search", "unheard")] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert mocks.list_tools() == ["get", "calc"]
    with pytest.raises(NoMatchingMockError):
        mocks.require_result("get", {"id": 3})
    assert mocks.missing is not None
    assert bool(Mocks([], recorded()))

"""Google ADK's lists from before it had eval sets."""

from typing import Any

import pytest

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    UserMessage,
)
from evalgate.integrations.adk.legacy_evalset import AdkLegacyFormat
from tests.integrations.reading import problems, read, recognised

LEGACY = AdkLegacyFormat()

TURN = {
    "query": "Turn off the lamp.",
    "expected_tool_use": [{"tool_name": "switch", "tool_input": {"on": False}, "mock_tool_output": "ok"}],
    "expected_intermediate_agent_responses": [{"author": "helper", "text": "Just a moment."}, "Nearly done."],
    "reference": "It is off.",
}
EXPECTED_TURN = CaseTurn(
    UserMessage("Turn off the lamp."),
    Reply(
        "It is off.",
        (ToolCall("switch", {"on": False}), Message("Just a moment.", "helper"), Message("Nearly done.")),
    ),
)


def test_a_list_of_turns_is_one_case_named_after_its_file() -> None:
    unread = "2 keys of f.json are read by nothing: `mock_tool_output` (2 times, first in line 1)."
    assert read(LEGACY, [TURN, TURN]) == EvalSet(
        "f.json",
        (EvalCase("f.json", (EXPECTED_TURN, EXPECTED_TURN), line=1),),
        "f.json",
        notices=(unread,),
    )


def test_a_list_of_cases_keeps_their_names_and_sessions() -> None:
    session = {"app_name": "home", "user_id": "u", "state": {"n": 1}}
    cases = [
        {"name": "a", "data": [TURN], "initial_session": session},
        {"name": "b", "data": [], "initial_session": {}},
    ]

    assert read(LEGACY, cases).cases == (
        EvalCase("a", (EXPECTED_TURN,), session=SessionInput("home", "u", {"n": 1}), line=1),
        EvalCase("b", line=1),
    )


@pytest.mark.parametrize("reference", [{}, {"reference": None}, {"reference": ""}])
def test_a_missing_reference_expects_no_response(reference: dict[str, Any]) -> None:
    (case,) = read(LEGACY, [{"query": "Hi", **reference, "expected_tool_use": None}]).cases

    assert case.turns == (CaseTurn(UserMessage("Hi"), Reply(None)),)


def test_an_empty_list_holds_no_case() -> None:
    assert read(LEGACY, []).cases == ()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([TURN], True),
        ([{"name": "a", "data": []}], True),
        ([], True),
        ([1, 2], False),
        ({"query": "Hi"}, False),
    ],
)
def test_content_decides_what_a_list_of_turns_is(content: Any, expected: bool) -> None:
    assert recognised(LEGACY, content) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[{"query": "Hi"},\n {"query": 3, "expected_tool_use": [{"tool_name": "f"}]}, "x"]',
            [
                "f.json:2:12: `[1].query` must be text, not 3",
                "f.json:2:37: `[1].expected_tool_use[0].tool_input` is missing",
                "f.json:2:59: `[2]` must be an object, not 'x'",
            ],
        ),
        (
            '[{"name": "a", "data": []},\n {"name": "a", "data": []}]',
            ["f.json:2:11: 'a' is the id of another case already, in line 1"],
        ),
        (
            '[{"name": "a", "data": []},\n {"name": "a", "data": 1},\n {"name": "\\n", "data": []}]',
            [
                "f.json:2:11: 'a' is the id of another case already, in line 1",
                "f.json:2:24: `[1].data` must be a list, not 1",
                "f.json:3:11: `[2].name` must not be empty",
            ],
        ),
    ],
)
def test_every_problem_of_a_list_is_listed(text: str, expected: list[str]) -> None:
    assert problems(LEGACY, text) == expected

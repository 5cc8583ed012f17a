"""Google ADK's eval sets."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Message,
    Reply,
    Rubric,
    Scenario,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.integrations.adk.evalset import AdkFormat
from tests.integrations.reading import problems, read, recognised

ADK = AdkFormat()

FULL: dict[str, Any] = {
    "eval_set_id": "home",
    "name": "Home",
    "description": "Lights and doors.",
    "creation_timestamp": 1.5,
    "eval_cases": [
        {
            "eval_id": "lights",
            "conversation": [
                {
                    "invocation_id": "i-1",
                    "user_content": {
                        "role": "user",
                        "parts": [
                            {"text": "What is this?"},
                            {"inline_data": {"mime_type": "image/png", "data": "aGk="}, "text": None},
                            {"text": "And this?"},
                        ],
                    },
                    "final_response": {
                        "parts": [{"text": "hm", "thought": True}, {"text": ""}, {"text": "A lamp."}]
                    },
                    "intermediate_data": {
                        "tool_uses": [{"id": "c1", "name": "look", "args": {"at": "lamp"}}, {"name": "nod"}],
                        "tool_responses": [{"id": "c1", "name": "look", "response": {"seen": "lamp"}}],
                        "intermediate_responses": [["eye", [{"text": "I see."}]]],
                    },
                    "app_details": {"agent_details": {"eye": {"name": "eye", "instructions": None}}},
                    "rubrics": [{"rubric_id": "r-1", "rubric_content": {"text_property": "It is kind."}}],
                }
            ],
            "session_input": {"app_name": "home", "user_id": "u", "state": {"n": 1}},
            "final_session_state": {"n": 2},
        },
        {
            "eval_id": "evals/scenario.test.json",
            "conversation_scenario": {
                "starting_prompt": "Hi",
                "conversation_plan": "Chat.",
                "user_persona": "NOVICE",
            },
            "session_input": None,
        },
    ],
}

KEPT = {
    "user_content": {
        "role": "user",
        "parts": [
            {"text": "What is this?"},
            {"inline_data": {"mime_type": "image/png", "data": "aGk="}},
            {"text": "And this?"},
        ],
    },
    "final_response": {"parts": [{"text": "hm", "thought": True}, {"text": ""}, {"text": "A lamp."}]},
}

EXPECTED = EvalSet(
    "home",
    (
        EvalCase(
            "lights",
            (
                CaseTurn(
                    UserMessage(
                        "What is this?\nAnd this?",
                        ({"inline_data": {"mime_type": "image/png", "data": "aGk="}, "text": None},),
                    ),
                    Reply(
                        "hm\nA lamp.",
                        (
                            ToolCall("look", {"at": "lamp"}, "c1"),
                            ToolCall("nod"),
                            ToolResult("look", {"seen": "lamp"}, "c1"),
                            Message("I see.", "eye"),
                        ),
                    ),
                    rubrics=(Rubric("r-1", "It is kind."),),
                    app_details={"agent_details": {"eye": {"name": "eye"}}},
                    invocation_id="i-1",
                    native={"adk": KEPT},
                ),
            ),
            session=SessionInput("home", "u", {"n": 1}),
            final_state={"n": 2},
            line=1,
        ),
        EvalCase(
            "evals/scenario.test.json",
            scenario=Scenario("Hi", "Chat.", "NOVICE"),
            line=1,
        ),
    ),
    "f.json",
    "Home",
    "Lights and doors.",
    1.5,
)

RAW = {"args", "state", "final_session_state", "response", "inline_data", "agent_details"}


def camel(value: Any, choose: Any = lambda: True) -> Any:
    """The same content with keys in camelCase wherever `choose` says so; what the user owns stays."""
    if isinstance(value, list):
        return [camel(item, choose) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        to_camel(key) if key != "inline_data" and choose() else key: item
        if key in RAW
        else camel(item, choose)
        for key, item in value.items()
    }


def test_every_evaluated_field_is_read() -> None:
    assert read(ADK, FULL) == EXPECTED


def test_camel_case_is_read_at_every_level() -> None:
    assert read(ADK, camel(FULL)) == EXPECTED


@settings(deadline=None)
@given(st.data())
def test_spellings_may_be_mixed(data: st.DataObject) -> None:
    assert read(ADK, camel(FULL, lambda: data.draw(st.booleans()))) == EXPECTED


TOLERANT = [{"eval_cases"}, {"eval_id"}, {"app_name"}, {"text"}, {"author"}, {"name", "args", "id"}]
"""Keys of objects in which Google ADK, or a newer google-genai, ignores a key that is unknown here."""


def unknown_everywhere(value: Any) -> Any:
    if isinstance(value, list):
        return [unknown_everywhere(item) for item in value]
    if not isinstance(value, dict):
        return value
    known = {key: item if key in RAW else unknown_everywhere(item) for key, item in value.items()}
    is_tolerant = "inline_data" not in value and any(keys <= value.keys() for keys in TOLERANT)
    return known | {"brand_new": {"x": [None]}} if is_tolerant else known


def test_unknown_fields_are_tolerated() -> None:
    found = read(ADK, unknown_everywhere(FULL))

    assert known_alone(replace(found, notices=())) == known_alone(EXPECTED)
    assert found.notices == (
        "11 keys of f.json are read by nothing: `brand_new` (11 times, first in line 1).",
    )


def known_alone(eval_set: EvalSet) -> EvalSet:
    """Without what is kept as the file has it."""
    cases = (
        replace(case, turns=tuple(replace(turn, native={}, app_details=None) for turn in case.turns))
        for case in eval_set.cases
    )
    return replace(eval_set, cases=tuple(cases))


def an_invocation(**fields: Any) -> dict[str, Any]:
    return {"user_content": {"parts": [{"text": "Hi"}]}, **fields}


def the_turn(**fields: Any) -> CaseTurn:
    cases = [{"eval_id": "c", "conversation": [an_invocation(**fields)]}]
    return read(ADK, {"eval_set_id": "s", "eval_cases": cases}).cases[0].turns[0]


@pytest.mark.parametrize(
    ("final_response", "text"),
    [
        (None, None),
        ({}, ""),
        ({"parts": None}, ""),
        ({"parts": []}, ""),
        ({"parts": [{"text": None}]}, ""),
        ({"parts": [{"text": "a", "brand_new": 1}, {"function_call": {"name": "f"}}], "role": None}, "a"),
    ],
)
def test_null_counts_as_absent_in_a_response(final_response: Any, text: str | None) -> None:
    assert the_turn(final_response=final_response).expected.response == text


@pytest.mark.parametrize(
    "intermediate_data",
    [
        None,
        {},
        {"tool_uses": None, "tool_responses": None, "intermediate_responses": None},
        {"invocation_events": None},
        {"invocationEvents": [], "toolUses": []},
        {
            "invocation_events": [
                {"author": "a", "content": None},
                {"author": "a", "content": {"parts": None}},
            ]
        },
    ],
)
def test_empty_intermediate_data_is_no_event(intermediate_data: Any) -> None:
    assert the_turn(intermediate_data=intermediate_data).expected.events == ()


def test_invocation_events_keep_their_order() -> None:
    events = [
        {
            "author": "root",
            "content": {"parts": [{"text": "One moment."}, {"functionCall": {"name": "f", "args": None}}]},
        },
        {"author": "root", "content": {"parts": [{"function_response": {"name": "f", "response": 3}}]}},
        {"author": "helper", "content": {"parts": [{"function_call": {"name": "g", "args": {}, "id": "2"}}]}},
    ]

    assert the_turn(intermediate_data={"invocation_events": events}).expected.events == (
        Message("One moment.", "root"),
        ToolCall("f", None, author="root"),
        ToolResult("f", 3, author="root"),
        ToolCall("g", {}, "2", "helper"),
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (FULL, True),
        (camel(FULL), True),
        ({"eval_cases": []}, True),
        ({"eval_set_id": "s"}, True),
        ({"criteria": {"response_match_score": 1.0}}, False),
        ({"app_name": "a", "user_id": "u", "state": {}}, False),
        ({"eval_set_result_id": "r", "eval_set_id": "s", "eval_case_results": []}, False),
        ([{"query": "Hi"}], False),
        ("eval_cases", False),
    ],
)
def test_content_decides_what_an_eval_set_is(content: Any, expected: bool) -> None:
    assert recognised(ADK, content) is expected


def test_a_set_without_cases_loads() -> None:
    assert read(ADK, {"evalSetId": "s", "evalCases": []}).cases == ()


def test_each_case_knows_its_line() -> None:
    text = json.dumps(FULL, indent=1)
    lines = [number for number, line in enumerate(text.split("\n"), start=1) if '"eval_id"' in line]

    assert [case.line + 1 for case in read(ADK, text).cases] == lines


def test_every_problem_of_a_file_is_listed_in_its_order() -> None:
    text = """{"evalSetId": "s\\u0001", "eval_cases": [
  {"evalId": "a", "conversation": [{"userContent": {"parts": [{"text": 5}, "x"]}},
     {"final_response": "hi", "intermediateData": {"toolUses": [{"name": 1, "args": []}]}}]},
  {"eval_id": "a", "conversationScenario": {"starting_prompt": "x", "userPersona": 3}},
  {"eval_id": " "},
  {"eval_id": "n"},
  {"eval_id": "both", "conversation": [], "conversation_scenario": {"starting_prompt": "", "conversation_plan": ""}},
  {"eval_id": "m", "conversation": [{"user_content": {}, "intermediate_data":
     {"tool_uses": [{}], "invocation_events": [{"author": "a"}]}}]},
  7
]}"""

    assert problems(ADK, text) == [
        "f.json:1:15: `eval_set_id` must not hold control characters: 's\\x01'",
        "f.json:2:63: `eval_cases[0].conversation[0].user_content.parts[0]` must hold its `text` as text, not as 5",
        "f.json:2:76: `eval_cases[0].conversation[0].user_content.parts[1]` must be an object, not 'x'",
        "f.json:3:6: `eval_cases[0].conversation[1].user_content` is missing",
        "f.json:3:25: `eval_cases[0].conversation[1].final_response` must be an object, not 'hi'",
        "f.json:3:74: `eval_cases[0].conversation[1].intermediate_data.tool_uses[0].name` must be text, not 1",
        "f.json:3:85: `eval_cases[0].conversation[1].intermediate_data.tool_uses[0].args` must be an object, not a list",
        "f.json:4:15: 'a' is the id of another case already, in line 2",
        "f.json:4:44: `eval_cases[1].conversation_scenario.conversation_plan` is missing",
        "f.json:4:84: `eval_cases[1].conversation_scenario.user_persona` must be the name of a persona or an object",
        "f.json:5:15: `eval_cases[2].eval_id` must not be empty",
        "f.json:6:3: `eval_cases[3]` must hold a conversation or a conversation_scenario, but holds neither",
        "f.json:7:3: `eval_cases[4]` must hold a conversation or a conversation_scenario, not both",
        "f.json:9:6: `eval_cases[5].conversation[0].intermediate_data` must hold invocation_events or tool_uses with responses, not both",
        "f.json:10:3: `eval_cases[6]` must be an object, not 7",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"eval_set_id": "s"}', ["f.json:1:1: `eval_cases` is missing"]),
        ('{"evalCases": []}', ["f.json:1:1: `eval_set_id` is missing"]),
        (
            '{"eval_set_id": "s", "eval_cases": [], "evalCases": []}',
            ["f.json:1:1: the file holds both `eval_cases` and `evalCases`: keep one"],
        ),
        (
            '{"eval_set_id": "s", "eval_cases": {}}',
            ["f.json:1:36: `eval_cases` must be a list, not an object"],
        ),
        (
            '{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": []}, {"eval_id": "a", "conversation": []}]}',
            ["f.json:1:87: 'a' is the id of another case already, in line 1"],
        ),
    ],
)
def test_what_is_missing_is_reported_where_it_should_be(text: str, expected: list[str]) -> None:
    assert problems(ADK, text) == expected


@pytest.mark.parametrize("time", ["1e999", "inf", "-Infinity", "nan"])
def test_a_time_stamp_is_a_finite_number(time: str) -> None:
    turn = {"creation_timestamp": time, "user_content": {"parts": [{"text": "Hi"}]}}
    case = {"eval_id": "a", "creation_timestamp": time, "conversation": [turn]}
    text = json.dumps({"eval_set_id": "s", "creation_timestamp": time, "eval_cases": [case]})
    assert [problem.rpartition("creation_timestamp` ")[2] for problem in problems(ADK, text)] == [
        f"must be a finite number, not {time!r}"
    ] * 3


@pytest.mark.parametrize("eval_id", ["a/b:c,d", "../up", "東京 👩‍👩‍👧", "a\u00a0b"])
def test_ids_are_data(eval_id: str) -> None:
    cases = [{"eval_id": eval_id, "conversation": []}]

    assert read(ADK, {"eval_set_id": eval_id, "eval_cases": cases}).cases[0].eval_id == eval_id

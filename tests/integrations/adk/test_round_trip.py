"""All that Google ADK 2.3 to 2.13 defines comes back from a conversion to its own format."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from evalgate.documents.strict_json import parse_json
from evalgate.integrations.adk.evalset import AdkFormat
from evalgate.integrations.adk.writer import AdkWriter
from tests.integrations.reading import read

RUBRIC = {
    "rubric_id": "r-1",
    "rubric_content": {"text_property": "It is kind."},
    "description": "Kindness.",
    "type": "FINAL_RESPONSE_QUALITY",
}
OLDER: dict[str, Any] = {
    "invocation_id": "i-1",
    "user_content": {
        "parts": [
            {"text": "What is this?"},
            {"inline_data": {"mime_type": "image/png", "data": "aGk="}},
            {"text": "And this?"},
        ],
        "role": "user",
    },
    "final_response": {
        "parts": [{"text": "Hm.", "thought": True, "thought_signature": "c2ln"}, {"text": "A lamp."}],
        "role": "model",
    },
    "intermediate_data": {
        "tool_uses": [
            {"id": "c1", "args": {"at": None}, "name": "look", "will_continue": True},
            {"name": "nod"},
        ],
        "tool_responses": [{"id": "c1", "response": {"seen": None}, "name": "look"}],
        "intermediate_responses": [["eye", [{"text": "I see."}, {"text": "A lamp?"}]]],
    },
    "creation_timestamp": 1761134484.98,
    "rubrics": [RUBRIC],
    "app_details": {
        "agent_details": {
            "eye": {
                "name": "eye",
                "instructions": "Look.",
                "tool_declarations": [{"functionDeclarations": [None]}],
            }
        }
    },
}
NEWER: dict[str, Any] = {
    "user_content": {"parts": [{"text": "And now?"}], "role": "user"},
    "intermediate_data": {
        "invocation_events": [
            {
                "author": "eye",
                "content": {
                    "parts": [
                        {"function_call": {"args": {"n": 1}, "name": "look"}},
                        {"function_call": {"args": {"n": 2}, "name": "look"}},
                    ],
                    "role": "model",
                },
                "usage_metadata": {"total_token_count": 7},
                "model_version": "m-1",
            },
            {"author": "eye", "grounding_metadata": {"web": None}},
        ]
    },
    "duration": 1.5,
    "model_duration": 1.0,
    "tool_duration": 0.5,
}
PLAIN_EVENTS: dict[str, Any] = {
    "user_content": {"parts": [{"text": "Again"}], "role": "user"},
    "intermediate_data": {
        "invocation_events": [
            {"author": "eye", "content": {"parts": [{"function_call": {"name": "f"}}], "role": "model"}},
            {
                "author": "eye",
                "content": {
                    "parts": [{"function_response": {"response": {"a": 1}, "name": "f"}}],
                    "role": "user",
                },
            },
        ]
    },
}
PERSONA = {
    "id": "p",
    "description": "Terse.",
    "behaviors": [
        {"name": "b", "description": "d", "behavior_instructions": ["i"], "violation_rubrics": ["v"]}
    ],
}
FULL: dict[str, Any] = {
    "eval_set_id": "home",
    "name": "Home",
    "description": "Lights and doors.",
    "eval_cases": [
        {
            "eval_id": "lights",
            "conversation": [OLDER, NEWER, PLAIN_EVENTS],
            "session_input": {"app_name": "home", "user_id": "u", "state": {"n": None}, "session_id": "s"},
            "creation_timestamp": 1.5,
            "rubrics": [RUBRIC],
            "final_session_state": {"n": 2},
        },
        {
            "eval_id": "played",
            "conversation_scenario": {
                "starting_prompt": "Hi",
                "conversation_plan": "Chat.",
                "user_persona": PERSONA,
            },
        },
    ],
    "creation_timestamp": 2.5,
}


def converted(content: Any) -> Any:
    return json.loads(AdkWriter().write_eval_set(read(AdkFormat(), content)).text)


def test_nothing_that_google_adk_defines_is_lost() -> None:
    assert converted(FULL) == FULL
    assert AdkWriter().write_eval_set(read(AdkFormat(), FULL)).lost == ()
    assert list(AdkFormat().find_ignored_keys(parse_json(json.dumps(FULL).encode(), "f.json"))) == []


OPAQUE = {
    "args",
    "response",
    "state",
    "final_session_state",
    "tool_declarations",
    "user_persona",
    "usage_metadata",
}
KEPT_AS_IT_IS = OPAQUE | {"grounding_metadata", "inline_data", "agent_details"}


def spelled(value: Any, draw: st.DrawFn) -> Any:
    """The same with keys in camelCase and nulls for what is absent, here and there."""
    if isinstance(value, list):
        return [spelled(item, draw) for item in value]
    if not isinstance(value, dict):
        return value
    found = {
        to_camel(key) if key != "inline_data" and draw(st.booleans()) else key: item
        if key in KEPT_AS_IT_IS
        else spelled(item, draw)
        for key, item in value.items()
    }
    is_a_text = value.keys() == {"text"}
    return {**found, "thought": None, "videoMetadata": None} if is_a_text and draw(st.booleans()) else found


@st.composite
def any_spelling(draw: st.DrawFn) -> Any:
    return spelled(FULL, draw)


@settings(deadline=None)
@given(any_spelling())
def test_a_written_set_is_as_google_adk_writes_it(content: Any) -> None:
    assert converted(content) == FULL


@pytest.mark.parametrize("key", sorted(OLDER))
def test_each_part_of_a_turn_survives_a_round_trip(key: str) -> None:
    turn = {"user_content": {"parts": [{"text": "Hi"}], "role": "user"}, key: OLDER[key]}
    content = {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [turn]}]}

    assert converted(content) == content


def test_keys_that_google_adk_refuses_in_app_details_are_not_written() -> None:
    details = {"agentDetails": {"eye": {"name": "eye"}}, "app_name": "home", "userId": "u"}
    case = {**FULL["eval_cases"][0], "conversation": [{**OLDER, "app_details": details}]}
    [written] = converted({**FULL, "eval_cases": [case]})["eval_cases"]
    assert written["conversation"][0]["app_details"] == {"agent_details": {"eye": {"name": "eye"}}}


def test_a_rubric_in_the_form_of_the_guide_gets_an_id() -> None:
    case = {"eval_id": "c", "conversation": [], "rubrics": [{"criterion": "Is kind."}]}

    (found,) = converted({"eval_set_id": "s", "eval_cases": [case]})["eval_cases"]

    assert found["rubrics"] == [{"rubric_id": "rubric_1", "rubric_content": {"text_property": "Is kind."}}]

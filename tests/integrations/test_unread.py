"""Every format reports the keys that it ignores, and no key that it reads."""

import json
from typing import Any

import pytest

from evalgate.core import plugin_registry
from evalgate.core.protocols import ReportsIgnoredKeys
from evalgate.documents.strict_json import parse_json

MESSAGE = {"role": "user", "content": "Hi", "mood": 1}
CALL = {"type": "tool_call", "name": "g", "tool_name": "t", "args": {"x": 1}, "mood": 1}
CONTENT = {"role": "user", "parts": [{"text": "Hi", "thought": True}]}

SETS: dict[str, Any] = {
    "trpc": {
        "evalSetId": "s",
        "EVALCASES": [
            {
                "evalId": "c",
                "mood": 1,
                "toolMock": {},
                "conversation": [
                    {"userContent": MESSAGE, "toolMock": {"mood": 1}, "tools": [{"name": "f", "mood": 1}]}
                ],
                "sessionInput": {"appName": "a", "state": {"mood": 1}, "mood": 1},
                "rubrics": [{"id": "r", "metricName": "m", "content": {"text": "t", "mood": 1}}],
            }
        ],
    },
    "adk-rs": {
        "id": "s",
        "mood": 1,
        "eval_cases": [
            {
                "id": "c",
                "name": "n",
                "conversation": [{"user_content": CONTENT, "mood": 1}],
                "session_input": {"mood": 1},
            }
        ],
    },
    "adk": {
        "eval_set_id": "s",
        "evalCases": [
            {
                "evalId": "c",
                "conversation": [
                    {
                        "user_content": CONTENT,
                        "appDetails": {"app_name": "a", "agent_details": {"a": {"name": "a"}}},
                    }
                ],
                "session_input": {"state": {"mood": 1}, "mood": 1},
            }
        ],
    },
    "orchestrate": [
        {
            "story": "s",
            "goals": {"g": []},
            "goal_details": [CALL],
            "tags": ["t"],
            "mood": 1,
            "starting_sentence": "Hi",
        }
    ],
    "adk-legacy": [
        {"query": "Hi", "expected_tool_use": [{"tool_name": "t", "tool_input": {"mood": 1}, "mood": 1}]}
    ],
}
CASE = ("eval_cases", 0)
UNREAD: dict[str, list[tuple[str | int, ...]]] = {
    "trpc": [
        ("EVALCASES", 0, "mood"),
        ("EVALCASES", 0, "conversation", 0, "userContent", "mood"),
        ("EVALCASES", 0, "conversation", 0, "tools", 0, "mood"),
        ("EVALCASES", 0, "sessionInput", "mood"),
        ("EVALCASES", 0, "rubrics", 0, "content", "mood"),
    ],
    "adk-rs": [("mood",), (*CASE, "conversation", 0, "mood"), (*CASE, "session_input", "mood")],
    "adk": [
        ("evalCases", 0, "conversation", 0, "appDetails", "app_name"),
        ("evalCases", 0, "session_input", "mood"),
    ],
    "orchestrate": [(0, "mood"), (0, "goal_details", 0, "mood")],
    "adk-legacy": [(0, "expected_tool_use", 0, "mood")],
}


@pytest.mark.parametrize("name", SETS)
def test_ignored_keys_are_reported(name: str) -> None:
    eval_format = plugin_registry.get_formats()[name]
    document = parse_json(json.dumps(SETS[name]).encode(), "f.json")

    assert eval_format.matches_document(document)
    assert eval_format.read_eval_set(document)
    assert isinstance(eval_format, ReportsIgnoredKeys)
    assert list(eval_format.find_ignored_keys(document)) == UNREAD[name]

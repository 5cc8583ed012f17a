"""Eval sets of adk-rs."""

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
    ToolResult,
    UserMessage,
)
from evalgate.integrations.adk_rs.evalset import AdkRsFormat
from tests.integrations.reading import problems, read, recognised

FORMAT = AdkRsFormat()


def user(text: str = "hi") -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": text}]}


def a_set(*invocations: Any, **more: Any) -> dict[str, Any]:
    return {"id": "s", "eval_cases": [{"id": "c", "conversation": list(invocations), **more}]}


def test_every_field_is_read() -> None:
    said = [["helper", [{"text": "wait"}, {"functionCall": {"name": "f"}}]]]
    used = [{"name": "f", "args": {"x": 1}, "id": "i"}, {"name": "g"}]
    content = a_set(
        {
            "user_content": {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"data": "AA=="}}]},
            "final_response": {"role": "model", "parts": [{"text": "a", "thought": None}, {"text": "b"}]},
            "intermediate_data": {"tool_uses": used, "intermediate_responses": said},
        },
        session_input={"app_name": "app", "user_id": "u", "state": {"k": 1}},
    )

    said_in_snake_case = [["helper", [{"text": "wait"}, {"function_call": {"name": "f"}}]]]
    kept = {
        "final_response": {"role": "model", "parts": [{"text": "a"}, {"text": "b"}]},
        "intermediate_data": {"tool_uses": used, "intermediate_responses": said_in_snake_case},
    }

    assert read(FORMAT, {**content, "name": "n", "description": "d"}) == EvalSet(
        "s",
        (
            EvalCase(
                "c",
                (
                    CaseTurn(
                        UserMessage("hi", ({"inlineData": {"data": "AA=="}},)),
                        Reply(
                            "a\nb", (ToolCall("f", {"x": 1}, "i"), ToolCall("g"), Message("wait", "helper"))
                        ),
                        native={"adk": kept},
                    ),
                ),
                session=SessionInput("app", "u", {"k": 1}),
                line=1,
            ),
        ),
        "f.json",
        "n",
        "d",
    )


def test_events_in_their_order_are_read() -> None:
    call, response = {"function_call": {"name": "f"}}, {"function_response": {"name": "f", "response": 1}}
    parts = [call, response, {"text": "so"}]
    events = [{"author": "a", "content": {"role": "model", "parts": parts}}, {"author": "b"}]
    content = a_set({"user_content": user(), "intermediate_data": {"invocation_events": events}})

    (turn,) = read(FORMAT, content).cases[0].turns

    assert turn.expected.events == (
        ToolCall("f", author="a"),
        ToolResult("f", 1, author="a"),
        Message("so", "a"),
    )


def test_arguments_may_be_any_value() -> None:
    uses = [{"name": "f", "args": [1, "a"]}, {"name": "f", "args": None}]
    content = a_set({"user_content": user(), "intermediate_data": {"tool_uses": uses}})

    (turn,) = read(FORMAT, content).cases[0].turns

    assert turn.expected.events == (ToolCall("f", other_args=[1, "a"]), ToolCall("f"))


def test_null_counts_as_absent() -> None:
    invocation = {"user_content": user(), "final_response": None, "intermediate_data": None}
    content = a_set({**invocation, "invocation_id": None, "creation_timestamp": None}, session_input=None)

    assert read(FORMAT, {**content, "name": None}).cases[0].turns == (CaseTurn(UserMessage("hi")),)


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ({"id": "s", "eval_cases": []}, True),
        ({"eval_set_id": "s", "eval_cases": [{"id": "c"}]}, True),
        ({"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "id": "x"}]}, False),
        ({"eval_set_id": "s", "eval_cases": []}, False),
        ({"id": "s"}, False),
        ([{"id": "s"}], False),
    ],
)
def test_the_format_is_recognised_by_its_ids(content: Any, answer: bool) -> None:
    assert recognised(FORMAT, content) is answer


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ('{"eval_cases": []}', ["f.json:1:1: `eval_set_id` is missing"]),
        (
            '{"id": "s", "eval_set_id": "s",\n "eval_cases": []}',
            ["f.json:1:1: the file must hold `eval_set_id` or `id`, not both"],
        ),
        (
            '{"id": "s", "eval_cases": [\n{"id": "c"}]}',
            ["f.json:2:1: `eval_cases[0].conversation` is missing"],
        ),
        (
            '{"id": "s", "eval_cases": [\n{"id": "c", "conversation": []},\n{"id": "c", "conversation": []}]}',
            ["f.json:3:8: 'c' is the id of another case already, in line 2"],
        ),
        (
            (
                '{"id": "s", "eval_cases": [{"id": "c", "conversation": [\n'
                '{"user_content": {"role": "assistant",\n "parts": [{"thought": true}]}}]}]}'
            ),
            [
                (
                    "f.json:2:27: `eval_cases[0].conversation[0].user_content.role` should be 'user', 'model', "
                    "'system' or 'tool', not 'assistant'"
                ),
                (
                    "f.json:3:12: `eval_cases[0].conversation[0].user_content.parts[0]` must hold one of text, "
                    "redactedThought, inlineData, fileData, functionCall, functionResponse, executableCode, "
                    "codeExecutionResult"
                ),
            ],
        ),
    ],
)
def test_every_problem_is_reported_with_its_position(text: str, messages: list[str]) -> None:
    assert problems(FORMAT, text) == messages

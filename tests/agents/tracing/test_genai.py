"""Spans of several conventions, read as one turn."""

import json
from typing import Any

import pytest

from evalgate.agents.tracing.attribute_names import convert_span
from evalgate.agents.tracing.genai import SpanTranscript, read_transcript
from evalgate.agents.tracing.span_steps import convert_spans
from evalgate.agents.tracing.trace_formats import Span, SpanEvent
from evalgate.core.types import Event, Message, Reply, ToolCall, ToolResult, Usage


def build_span(
    start: int,
    end: int,
    attributes: dict[str, Any],
    *,
    id_: str = "",
    parent: str = "",
    events: tuple[SpanEvent, ...] = (),
) -> Span:
    return Span("t", id_ or f"s{start}", parent, "a span", start, end, attributes, {}, events)


def build_output(*parts: dict[str, Any]) -> str:
    return json.dumps([{"role": "assistant", "parts": [*parts], "finish_reason": "stop"}])


ASKED = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Rain?"}]}])
LOOK = {"type": "tool_call", "id": "1", "name": "look", "arguments": {"at": "Paris"}}
SEEN = {"type": "tool_call_response", "id": "1", "response": {"seen": True}}
CALL, RESULT = ToolCall("look", {"at": "Paris"}, "1"), ToolResult("look", {"seen": True}, "1")

NEW = [
    build_span(0, 90, {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 99}, id_="a"),
    build_span(
        1,
        10,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": ASKED,
            "gen_ai.output.messages": build_output({"type": "text", "content": "Let me see."}, LOOK),
            "gen_ai.usage.input_tokens": 5,
            "gen_ai.usage.output_tokens": 2,
        },
    ),
    build_span(
        11,
        20,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "look",
            "gen_ai.tool.call.id": "1",
            "gen_ai.tool.call.arguments": '{"at":"Paris"}',
            "gen_ai.tool.call.result": '{"seen":true}',
        },
    ),
    build_span(
        21,
        30,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": [
                {"role": "assistant", "parts": [{"type": "text", "content": "Sunny."}]}
            ],
            "gen_ai.usage.input_tokens": 8,
        },
    ),
]


def test_current_conventions() -> None:
    reply = Reply("Sunny.", (Message("Let me see."), CALL, RESULT))
    assert read_transcript(reversed(NEW)) == SpanTranscript(reply, Usage(13, 2, None), "Rain?")


def test_requested_calls_count_without_recorded_executions() -> None:
    given = json.dumps([{"role": "tool", "parts": [SEEN]}])
    last = build_span(21, 30, {**NEW[3].attributes, "gen_ai.input.messages": given})
    reply = Reply("Sunny.", (Message("Let me see."), CALL, RESULT))
    assert read_transcript([NEW[1], last]).reply == reply


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.tool.call.arguments": {"at": "Paris"}, "gen_ai.tool.call.result": {"seen": True}},
        {
            "gcp.vertex.agent.tool_call_args": '{"at":"Paris"}',
            "gcp.vertex.agent.tool_response": '{"seen":true}',
        },
        {"tool_arguments": '{"at":"Paris"}', "tool_response": '{"seen":true}'},
    ],
)
def test_arguments_and_results_under_other_names(attributes: dict[str, Any]) -> None:
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "1"}
    assert read_transcript([build_span(1, 2, {**named, **attributes})]).reply.events == (CALL, RESULT)


def test_openinference() -> None:
    tool = {
        "openinference.span.kind": "TOOL",
        "tool.name": "look",
        "input.value": "Paris",
        "output.value": "sun",
    }
    model = {
        "openinference.span.kind": "LLM",
        "output.value": "Sunny.",
        "llm.token_count.prompt": 3,
        "llm.token_count.completion": 4,
    }
    transcript = read_transcript([build_span(1, 2, tool), build_span(3, 4, model)])
    events = (ToolCall("look", None, "s1", other_args="Paris"), ToolResult("look", "sun", "s1"))
    assert transcript == SpanTranscript(Reply("Sunny.", events), Usage(3, 4, None), "")


def test_conventions_before_1_37() -> None:
    asked = SpanEvent("gen_ai.user.message", {"content": "Rain?"})
    choice = SpanEvent("gen_ai.choice", {"message": '{"content": "Sunny."}'})
    usage = {"gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.completion_tokens": 4}
    span = build_span(1, 2, {"gen_ai.operation.name": "chat", **usage}, events=(asked, choice))
    assert read_transcript([span]) == SpanTranscript(Reply("Sunny."), Usage(3, 4, None), "Rain?")


def test_author_is_the_enclosing_agent() -> None:
    outer = build_span(0, 9, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss"}, id_="a")
    inner = build_span(
        1, 8, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}, id_="b", parent="a"
    )
    tools = [
        build_span(
            2, 3, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}, id_="c", parent="b"
        ),
        build_span(
            4, 5, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "g"}, id_="d", parent="a"
        ),
        build_span(
            6, 7, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "h"}, id_="e", parent="e"
        ),
    ]
    expected: tuple[Event, ...] = (
        ToolCall("f", None, "c", "helper"),
        ToolCall("g", None, "d", "boss"),
        ToolCall("h", None, "e", None),
    )
    assert read_transcript([*tools, inner, outer]).reply.events == expected


def test_agent_usage_counts_without_model_usage() -> None:
    assert read_transcript(NEW[:1]).usage == Usage(99, 0, None)
    assert read_transcript([]) == SpanTranscript(Reply(), None, "")


@pytest.mark.parametrize("text", ["{", "[[" * 5_000, "null", '{"a": 1}'])
def test_attributes_of_other_types_are_ignored(text: str) -> None:
    span = build_span(
        1,
        2,
        {"gen_ai.operation.name": "chat", "gen_ai.output.messages": text, "gen_ai.usage.input_tokens": -1},
    )
    assert read_transcript([span]) == SpanTranscript(Reply(), None, "")


@pytest.mark.parametrize(
    "name",
    [f"{'9' * 5_000}.message.role", f"0.{'a.' * 5_000}x", f"{'0.' * 5_000}0", "٣.message.role", ".", ""],
    ids=["digits", "keys", "numbers", "other_digits", "dot", "nothing"],
)
@pytest.mark.parametrize("prefix", ["llm.input_messages", "llm.output_messages", "gen_ai.prompt"])
def test_any_name_of_a_listed_attribute_is_read(prefix: str, name: str) -> None:
    first = {f"{prefix}.0.message.role": "user", f"{prefix}.0.message.content": "Rain?"}
    attributes = {"openinference.span.kind": "LLM", **first, f"{prefix}.{name}": "user"}
    span = build_span(1, 2, attributes)
    assert isinstance(read_transcript([convert_span(span)]), SpanTranscript)
    assert convert_spans([span], 0)[0].kind == "model"


def test_a_text_is_the_response_or_a_message_and_never_both() -> None:
    def build_model(start: int, *parts: dict[str, Any]) -> Span:
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": build_output(*parts)}
        return build_span(start, start + 5, attributes)

    text, late = {"type": "text", "content": "Let me see."}, {"type": "text", "content": "It rains."}
    for models, response, messages in (
        ([build_model(1, text), build_model(11, LOOK)], "Let me see.", []),
        ([build_model(1, text), build_model(11, late), build_model(21, LOOK)], "It rains.", ["Let me see."]),
        ([build_model(1, LOOK)], None, []),
    ):
        reply = read_transcript(models).reply
        assert reply.response == response
        assert [event.text for event in reply.events if isinstance(event, Message)] == messages

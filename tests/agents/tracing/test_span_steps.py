"""Spans of several conventions as the steps of a trace."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.agents.tracing.span_steps import convert_spans
from evalgate.agents.tracing.trace_formats import Span, SpanEvent, read_otlp_json
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import TraceSpan, Usage
from evalgate.integrations.recordings import read_trace_steps

ASKED = [{"role": "user", "parts": [{"type": "text", "content": "Rain?"}]}]
OLD = [{"role": "user", "content": "Rain?"}]
SAID = {"role": "assistant", "content": "No."}


def convert(name: str, attributes: dict[str, Any], events: tuple[SpanEvent, ...] = ()) -> TraceSpan:
    (step,) = convert_spans(
        [Span("t", "s", "p", name, 3_000_000_000, 4_500_000_000, attributes, {}, events)], 10**9
    )
    assert (step.id, step.parent_id, step.start_s, step.duration_s) == ("s", "p", 2.0, 1.5)
    return step


MODELS = {
    "attributes": (
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": json.dumps(ASKED),
            "gen_ai.output.messages": json.dumps([SAID]),
            "gen_ai.system_instructions": '[{"content":"Be kind"}]',
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.usage.output_tokens": 1,
        },
        (),
        {"gen_ai.system_instructions": [{"content": "Be kind"}], "messages": ASKED},
        [SAID],
    ),
    "events": (
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.usage.prompt_tokens": 3,
            "gen_ai.usage.completion_tokens": 1,
        },
        (
            SpanEvent("gen_ai.user.message", {"content": "Rain?"}),
            SpanEvent("gen_ai.choice", {"index": 0, "message": json.dumps(SAID)}),
        ),
        [{"event": "user.message", "content": "Rain?"}],
        [{"index": 0, "message": SAID}],
    ),
    "openinference": (
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "Rain?",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "No.",
            "llm.token_count.prompt": 3,
            "llm.token_count.completion": 1,
            "llm.tools.0.tool.json_schema": '{"name":"look"}',
            "input.value": "ignored",
        },
        (),
        {"llm.tools": [{"json_schema": {"name": "look"}}], "messages": OLD},
        [SAID],
    ),
    "openllmetry": (
        {
            "gen_ai.request.model": "m",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "Rain?",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "No.",
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.usage.output_tokens": 1,
        },
        (),
        OLD,
        [SAID],
    ),
    "vercel": (
        {
            "gen_ai.request.model": "m",
            "ai.prompt.messages": json.dumps(OLD),
            "ai.response.text": "No.",
            "ai.usage.promptTokens": 3,
            "ai.usage.completionTokens": 1,
        },
        (),
        OLD,
        {"ai.response.text": "No."},
    ),
    "adk": (
        {
            "gen_ai.request.model": "m",
            "gcp.vertex.agent.llm_request": json.dumps({"model": "m", "contents": ASKED}),
            "gcp.vertex.agent.llm_response": json.dumps({"content": SAID}),
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.usage.output_tokens": 1,
        },
        (),
        {"model": "m", "contents": ASKED},
        {"content": SAID},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_call_of_each_convention_has_its_request_and_response(name: str) -> None:
    attributes, events, request, response = MODELS[name]
    step = convert("call", {**attributes, "mine": 1}, events)
    assert (step.kind, step.name) == ("model", "m")
    assert step.request == request
    assert step.response == response
    assert step.usage == Usage(3, 1, None, models=("m",))
    assert step.attributes["mine"] == 1
    assert "Rain?" not in json.dumps(step.attributes)


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
        | {"gen_ai.tool.call.arguments": '{"at":"Rome"}', "gen_ai.tool.call.result": '{"sun":true}'},
        {"openinference.span.kind": "TOOL", "tool.name": "look"}
        | {"input.value": '{"at":"Rome"}', "output.value": '{"sun":true}'},
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "look"}
        | {"traceloop.entity.input": '{"at":"Rome"}', "traceloop.entity.output": '{"sun":true}'},
        {
            "ai.toolCall.name": "look",
            "ai.toolCall.args": '{"at":"Rome"}',
            "ai.toolCall.result": '{"sun":true}',
        },
        {"gen_ai.tool.name": "look", "gcp.vertex.agent.tool_call_args": '{"at":"Rome"}'}
        | {"gcp.vertex.agent.tool_response": '{"sun":true}'},
    ],
)
def test_a_tool_call_of_each_convention_has_arguments_and_result(attributes: dict[str, Any]) -> None:
    step = convert("x", attributes)
    assert (step.kind, step.name, step.request, step.response) == (
        "tool",
        "look",
        {"at": "Rome"},
        {"sun": True},
    )


@pytest.mark.parametrize(
    ("written", "cost"),
    [
        ({"doubleValue": 0.25}, 0.25),
        ({"doubleValue": 0}, 0.0),
        ({"intValue": "2"}, 2.0),
        ({"intValue": 0}, 0.0),
        ({"doubleValue": -1}, None),
        ({"doubleValue": "NaN"}, None),
        ({"boolValue": True}, None),
        ({"stringValue": "0.25"}, None),
        ({"intValue": "9" * 400}, None),
    ],
)
def test_a_cost_is_known_in_each_way_to_write_a_number(written: object, cost: float | None) -> None:
    tokens = [
        {"key": "gen_ai.usage.input_tokens", "value": {"doubleValue": 3.0}},
        {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "1"}},
    ]
    model = {"key": "gen_ai.request.model", "value": {"stringValue": "m"}}
    attributes = [model, *tokens, {"key": "gen_ai.usage.cost", "value": written}]
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "chat m", "attributes": attributes}
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    (step,) = convert_spans(read_otlp_json(request), 0)
    assert step.usage == Usage(3, 1, cost, models=("m",))


def test_agents_errors_and_other_spans_are_told_apart() -> None:
    raised = SpanEvent("exception", {"exception.type": "KeyError", "exception.message": "'x'"})
    agent = convert("invoke_agent desk", {"gen_ai.operation.name": "invoke_agent"}, (raised,))
    assert (agent.kind, agent.name, agent.error) == ("agent", "desk", "KeyError: 'x'")
    (failed,) = convert_spans([Span("t", "s", "", "x", 0, 1, {}, error="out of memory")], 0)
    assert failed.error == "out of memory"
    other = convert("GET /", {"http.status": 500})
    assert (other.kind, other.name, other.request, other.attributes) == (
        "other",
        "GET /",
        None,
        {"http.status": 500},
    )


def test_a_batch_that_was_exported_twice_has_each_step_once() -> None:
    spans = [Span("t", id_, "", "x", 0, 1, {}) for id_ in ("a", "b", "a", "b", "", "")]
    assert [step.id for step in convert_spans(spans, 0)] == ["a", "b", "", ""]


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())
KEYS = st.sampled_from(
    (
        *(
            "llm.input_messages.0",
            "llm.input_messages.0.message.role",
            "llm.input_messages.x..",
            "input.value",
        ),
        *("gen_ai.prompt.0.role", "gen_ai.prompt.0", "gen_ai.usage.input_tokens", "gen_ai.request.model"),
        *("gen_ai.operation.name", "llm.cost.total", "gen_ai.tool.name", "openinference.span.kind"),
    )
)


@given(st.dictionaries(KEYS | st.text(), VALUES), st.integers(0), st.integers(0))
def test_attributes_of_any_kind_make_a_step(attributes: dict[str, Any], start: int, end: int) -> None:
    (step,) = convert_spans([Span("t", "s", "", "x", start, end, attributes)], 0)
    assert step.duration_s >= 0


def test_a_trace_file_is_read_as_conversations(tmp_path: Path) -> None:
    def a_span(trace: str, start: int, **more: object) -> dict[str, object]:
        times = {"startTimeUnixNano": str(start * 10**9), "endTimeUnixNano": str((start + 2) * 10**9)}
        named = {"key": "session.id", "value": {"stringValue": "talk"}}
        return {
            "traceId": trace * 32,
            "spanId": trace * 16,
            "name": "step",
            "attributes": [named],
            **times,
            **more,
        }

    file = tmp_path / "trace.json"
    spans = [a_span("b", 20), a_span("a", 10), a_span("c", 30, attributes=[])]
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))

    found = read_trace_steps(file, "trace.json")
    assert list(found) == ["talk", "c" * 32]
    assert [(step.turn, step.name, step.start_s, step.duration_s) for step in found["talk"]] == [
        (0, "turn 1", 0.0, 2.0),
        (0, "step", 0.0, 2.0),
        (1, "turn 2", 10.0, 2.0),
        (1, "step", 10.0, 2.0),
    ]
    file.write_text('{"resourceSpans": []}')
    with pytest.raises(InvalidInputError, match="there is no span"):
        read_trace_steps(file, "trace.json")

"""Convert GenAI spans to the reply of one turn.

The attributes are those of the OpenTelemetry semantic conventions, both before 1.37 and later (messages as
attributes). The equivalent names of Google ADK, Pydantic AI, OpenInference and OpenLLMetry are read, too.
Tool calls are read from the spans of the tools. If a turn has no span of a tool, the calls are read from the
models' answers.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from evalgate.agents.tracing.trace_formats import Span, iter_unique
from evalgate.core.frozen import frozen
from evalgate.core.types import (
    Event,
    Message,
    Reply,
    ToolCall,
    ToolResult,
    Usage,
)

_ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "gcp.vertex.agent.tool_call_args", "tool_arguments"),
    *("tool.parameters", "traceloop.entity.input", "input.value"),
)
_RESULT = (
    *("gen_ai.tool.call.result", "gcp.vertex.agent.tool_response", "tool_response"),
    *("traceloop.entity.output", "output.value"),
)
_NAME = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
_MODEL_CALLS = frozenset({"chat", "generate_content", "text_completion"})
_MAX_TOKENS = 2**53  # beyond it, JSON numbers are not exact


@frozen
class SpanTranscript:
    """Reply, usage and user's message of one turn, as read from its spans."""

    reply: Reply
    usage: Usage | None
    question: str
    """Message of the user; "" if no span has it."""


def read_transcript(spans: Iterable[Span]) -> SpanTranscript:
    """Return the transcript of one turn from all of its spans, which may be in any order."""
    ordered = sorted(iter_unique(spans), key=lambda span: (span.start, span.end))
    # A tool call may be in the span of the model and in that of the tool: it must be counted only once.
    tools = [span for span in ordered if _is_tool(span)]
    models = [span for span in ordered if _is_model(span)]
    agents = [span for span in ordered if _get_operation(span) == "invoke_agent"]
    answer = next((span for span in (*agents[:1], *reversed(models)) if _join_output(span)), None)
    # An agent's own span repeats the text of its last model.
    last = models[-1:] if answer is None or answer in agents[:1] else [answer]
    moments = [
        *_iter_texts(span for span in models if span not in last),
        *(_iter_executions(tools, ordered) if tools else _iter_requested_calls(models)),
    ]
    events = tuple(event for _, event in sorted(moments, key=lambda moment: moment[0]))
    return SpanTranscript(
        Reply(
            _join_output(answer) if answer else None,
            events,
        ),
        # The span of an agent repeats the usage of its model calls: it counts only if they have none.
        _sum_usage(models) or _sum_usage(agents[:1]),
        _find_question([*agents, *models]),
    )


def is_genai(span: Span) -> bool:
    """Return True if the span describes a tool call, a model call or another GenAI operation."""
    return _is_tool(span) or _is_model(span) or bool(_get_operation(span))


def _get_operation(span: Span) -> str:
    return span.get_text("gen_ai.operation.name")


def _is_tool(span: Span) -> bool:
    kind = span.get_text("openinference.span.kind", "traceloop.span.kind").lower()
    return _get_operation(span) == "execute_tool" or (not _get_operation(span) and kind == "tool")


def _is_model(span: Span) -> bool:
    if _get_operation(span):
        return _get_operation(span) in _MODEL_CALLS
    return (
        span.get_text("openinference.span.kind").lower() == "llm" or "gen_ai.request.model" in span.attributes
    )


def _iter_executions(tools: Sequence[Span], spans: Sequence[Span]) -> Iterator[tuple[int, Event]]:
    parents = {span.span_id: span for span in spans}
    for span in tools:
        name = span.get_text(*_NAME) or span.name.removeprefix("execute_tool ")
        id_ = span.get_text("gen_ai.tool.call.id") or span.span_id
        author = _find_author(span, parents)
        args = _decode_attribute(span.get_attribute(*_ARGUMENTS))
        yield span.start, _build_call(name, args, id_, author)
        result = _decode_attribute(span.get_attribute(*_RESULT))
        if result is not None:
            # At least 1 ns after its call, even if a coarse clock measured the same time for both.
            yield max(span.end, span.start + 1), ToolResult(name, result, id_, author)


def _find_author(span: Span, parents: dict[str, Span]) -> str | None:
    """Return the agent's name in the span or in its nearest ancestor with a name; None without a name."""
    seen: set[str] = set()  # spans come from the agent, and a cycle of parents must not hang the gate
    ancestor: Span | None = span
    while ancestor is not None and ancestor.span_id not in seen:
        seen.add(ancestor.span_id)
        if name := ancestor.get_text("gen_ai.agent.name"):
            return name
        ancestor = parents.get(ancestor.parent_id)
    return None


def _iter_requested_calls(models: Sequence[Span]) -> Iterator[tuple[int, Event]]:
    """Yield (nanoseconds since the epoch, event) for tool calls that models requested, and for their results.

    Results are found in the messages of later requests, by the id of the call. If several requests repeat a
    result, only the first one counts.
    """
    names: dict[str, str] = {}
    answered: set[str] = set()
    for span in models:
        for part in _iter_parts(span, "gen_ai.input.messages", "tool_call_response"):
            id_ = str(part.get("id") or "")
            if id_ in names and id_ not in answered:
                answered.add(id_)
                result = part["response"] if "response" in part else part.get("result")
                yield span.start, ToolResult(names[id_], _decode_attribute(result), id_)
        for part in _iter_parts(span, "gen_ai.output.messages", "tool_call"):
            id_ = str(part.get("id") or "")
            names[id_] = str(part.get("name") or "")
            yield (
                span.end,
                _build_call(names[id_], _decode_attribute(part.get("arguments")), id_ or None, None),
            )


def _iter_texts(models: Iterable[Span]) -> Iterator[tuple[int, Event]]:
    """Yield (nanoseconds since the epoch, message) for each model span with a text in its answer."""
    for span in models:
        if text := _join_output(span):
            yield span.end, Message(text, span.get_text("gen_ai.agent.name") or None)


def _join_output(span: Span) -> str:
    texts = [_get_text(part) for part in _iter_parts(span, "gen_ai.output.messages", "text")]
    if not texts:
        choices = (
            _decode_attribute(event.attributes.get("message"))
            for event in span.events
            if event.name == "gen_ai.choice"
        )
        texts = [
            str(choice["content"]) for choice in choices if isinstance(choice, dict) and choice.get("content")
        ]
    if not texts and (text := span.get_text("gen_ai.completion.0.content", "output.value")):
        texts = [text]
    return "\n".join(filter(None, texts))


def _find_question(spans: Sequence[Span]) -> str:
    """Return the user's message of this turn; "" if no span has a message of the user.

    The message is read from the first span that has messages of the user. Such a span holds the whole
    conversation so far, and only the last message of the user belongs to this turn.
    """
    for span in spans:
        texts = [_get_text(part) for part in _iter_parts(span, "gen_ai.input.messages", "text", role="user")]
        if not texts:
            messages = (event for event in span.events if event.name == "gen_ai.user.message")
            texts = [str(event.attributes.get("content") or "") for event in messages]
        if texts:
            return texts[-1]
    return ""


def _iter_parts(span: Span, attribute: str, kind: str, role: str = "") -> Iterator[dict[str, Any]]:
    """Yield the message parts of type `kind` in an attribute of messages, which may be JSON text.

    With `role`, skip the messages of all other roles.
    """
    messages = _decode_attribute(span.get_attribute(attribute))
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and (not role or message.get("role") == role):
            parts = message.get("parts")
            for part in parts if isinstance(parts, list) else ():
                if isinstance(part, dict) and part.get("type") == kind:
                    yield part


def _get_text(part: dict[str, Any]) -> str:
    content = part.get("content")
    return content if isinstance(content, str) else ""


def _sum_usage(spans: Sequence[Span]) -> Usage | None:
    counts = [
        (_read_count(span.get_attribute(*_INPUT_TOKENS)), _read_count(span.get_attribute(*_OUTPUT_TOKENS)))
        for span in spans
    ]
    known = [count for count in counts if count != (None, None)]
    if not known:
        return None
    return Usage.from_tokens(
        sum(given or 0 for given, _ in known), sum(made or 0 for _, made in known), models=_list_models(spans)
    )


def _list_models(spans: Sequence[Span]) -> tuple[str, ...]:
    names = {
        span.get_text("gen_ai.response.model", "gen_ai.request.model", "llm.model_name") for span in spans
    }
    return tuple(sorted(filter(None, names)))


def _read_count(found: object) -> int | None:
    return found if isinstance(found, int) and 0 <= found <= _MAX_TOKENS else None


def _build_call(name: str, args: object, id_: str | None, author: str | None) -> ToolCall:
    if args is None or isinstance(args, dict):
        return ToolCall(name, args, id_, author)
    return ToolCall(name, None, id_, author, other_args=args)


def _decode_attribute(found: object) -> Any:
    """Return the value of an attribute; JSON text is parsed, because spans hold most objects as text."""
    if not isinstance(found, str):
        return found
    try:
        return json.loads(found)
    except (ValueError, RecursionError):
        return found

"""Events and usage that a Python worker captured from an agent that does not report its tool calls itself.

Requests to models and spans may both show the same calls, so only the source with more calls is used. If both
sources have equally many calls, the spans are used: they show tools that ran even if no model received the
result.
"""

from evalgate.agents.tracing.genai import read_transcript
from evalgate.agents.tracing.trace_formats import Span, SpanEvent
from evalgate.agents.workers import protocol
from evalgate.agents.workers.protocol import InvalidMessageError
from evalgate.core.frozen import frozen
from evalgate.core.types import Event, JsonObject, ToolCall, Usage


@frozen
class CapturedTurn:
    """Events, usage and spans of one turn, from a worker's message `captured`."""

    events: tuple[Event, ...]
    usage: Usage | None
    spans: tuple[Span, ...] = ()
    dropped_spans: int = 0
    """Number of spans that the worker left out because the spans of the turn exceeded 16 MiB."""


def parse_captured(message: JsonObject) -> CapturedTurn:
    """Return the content of a `captured` message.

    Two fields of the message limit the result. With `usage_only`, the agent reported its calls itself, and
    the events are left out. With `only_trace`, capture is off: the result has only the spans, for the run's
    trace, and the number of dropped spans.

    Raises:
        InvalidMessageError: an event or the usage is invalid, or `events` or `spans` is no list of objects.
    """
    events = tuple(map(_read_event, _read_objects(message, "events")))
    usage = message.get("usage")
    if usage is not None and not isinstance(usage, dict):
        raise InvalidMessageError(f"the agent sent a {message['type']} whose `usage` is not an object")
    used = None if usage is None else protocol.parse_usage({"type": "captured", **usage})
    spans = [_read_span(each) for each in _read_objects(message, "spans")]
    dropped = message.get("dropped_spans")
    dropped = dropped if isinstance(dropped, int) else 0
    if message.get("only_trace") is True:
        return CapturedTurn((), None, tuple(spans), dropped)
    if spans:
        transcript = read_transcript(spans)
        used = used or transcript.usage
        if _count_calls(transcript.reply.events) >= max(1, _count_calls(events)):
            events = transcript.reply.events
    # With `usage_only`, the agent listed its calls itself.
    return CapturedTurn(
        () if message.get("usage_only") is True else events,
        used,
        tuple(spans),
        dropped,
    )


def _read_event(event: JsonObject) -> Event:
    match event.get("type"):
        case "tool_call":
            return protocol.parse_tool_call(event)
        case "tool_result":
            return protocol.parse_tool_result(event)
        case "message":
            return protocol.parse_message(event)
        case other:
            raise InvalidMessageError(f"the agent sent a captured event of type {other!r}")


def _read_span(span: JsonObject) -> Span:
    return Span(
        trace_id=_read_text(span, "trace_id"),
        span_id=_read_text(span, "span_id"),
        parent_id=_read_text(span, "parent_id"),
        name=_read_text(span, "name"),
        start=_read_nanoseconds(span, "start"),
        end=_read_nanoseconds(span, "end"),
        attributes=_read_attributes(span),
        events=tuple(
            SpanEvent(_read_text(each, "name"), _read_attributes(each))
            for each in _read_objects(span, "events")
        ),
    )


def _read_objects(message: JsonObject, field: str) -> list[JsonObject]:
    found = message.get(field, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidMessageError(f"the agent sent a captured turn whose `{field}` is not a list of objects")
    return found


def _read_text(span: JsonObject, field: str) -> str:
    found = span.get(field)
    return found if isinstance(found, str) else ""


def _read_nanoseconds(span: JsonObject, field: str) -> int:
    found = span.get(field)
    return found if isinstance(found, int) else 0


def _read_attributes(span: JsonObject) -> JsonObject:
    found = span.get("attributes")
    return found if isinstance(found, dict) else {}


def _count_calls(events: tuple[Event, ...]) -> int:
    return sum(isinstance(event, ToolCall) for event in events)

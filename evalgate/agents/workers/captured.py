"""What a Python worker captured in a turn of an agent that does not report its tool calls itself.

Two sources may tell of the same calls: the requests to models, and spans. The one that tells of more calls
is taken, the spans where both tell of as many: these are of tools that ran, also where no model heard the
result.
"""

from evalgate.agents.tracing.genai import told_by
from evalgate.agents.tracing.trace_formats import Span, SpanEvent
from evalgate.agents.workers import wire
from evalgate.agents.workers.wire import BadMessage
from evalgate.core.frozen import frozen
from evalgate.core.types import Event, JsonObject, ToolCall, Usage


@frozen
class Captured:
    """What a `captured` message holds."""

    events: tuple[Event, ...]
    usage: Usage | None
    dropped_spans: int = 0
    """Spans that the worker left out, as they were more than a turn may send."""


def read_captured(message: JsonObject) -> Captured:
    """Return what the message tells.

    Raises:
        BadMessage: a field is of a wrong type.
    """
    events = tuple(map(_read_event, _objects(message, "events")))
    usage = message.get("usage")
    used = None if usage is None else _read_usage(message, usage)
    spans = [_read_span(each) for each in _objects(message, "spans")]
    if spans:
        told = told_by(spans)
        used = used or told.usage
        if _count_calls(told.reply.events) >= max(1, _count_calls(events)):
            events = told.reply.events
    dropped = message.get("dropped_spans")
    return Captured(
        () if message.get("usage_only") is True else events, used, dropped if isinstance(dropped, int) else 0
    )


def _read_event(event: JsonObject) -> Event:
    match event.get("type"):
        case "tool_call":
            return wire.tool_call(event)
        case "tool_result":
            return wire.tool_result(event)
        case "message":
            return wire.parse_message(event)
        case other:
            raise BadMessage(f"the agent sent a captured event of type {other!r}")


def _read_usage(message: JsonObject, usage: object) -> Usage:
    if not isinstance(usage, dict):
        raise BadMessage(f"the agent sent a {message['type']} whose `usage` is not an object")
    return wire.usage({"type": "captured", **usage})


def _read_span(span: JsonObject) -> Span:
    return Span(
        trace_id=_text(span, "trace_id"),
        span_id=_text(span, "span_id"),
        parent_id=_text(span, "parent_id"),
        name=_text(span, "name"),
        start=_nanoseconds(span, "start"),
        end=_nanoseconds(span, "end"),
        attributes=_attributes(span),
        events=tuple(SpanEvent(_text(each, "name"), _attributes(each)) for each in _objects(span, "events")),
    )


def _objects(message: JsonObject, field: str) -> list[JsonObject]:
    found = message.get(field, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BadMessage(f"the agent sent a captured turn whose `{field}` is not a list of objects")
    return found


def _text(span: JsonObject, field: str) -> str:
    found = span.get(field)
    return found if isinstance(found, str) else ""


def _nanoseconds(span: JsonObject, field: str) -> int:
    found = span.get(field)
    return found if isinstance(found, int) else 0


def _attributes(span: JsonObject) -> JsonObject:
    found = span.get("attributes")
    return found if isinstance(found, dict) else {}


def _count_calls(events: tuple[Event, ...]) -> int:
    return sum(isinstance(event, ToolCall) for event in events)

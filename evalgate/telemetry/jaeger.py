"""Jaeger's JSON, as its user interface and its HTTP API give traces."""

from collections.abc import Iterator
from typing import Any

from evalgate.telemetry.spans import Span, SpanEvent


def is_jaeger(found: object) -> bool:
    """Whether it is a list of traces as Jaeger writes it."""
    data = found.get("data") if isinstance(found, dict) else None
    return isinstance(data, list) and all(isinstance(each, dict) and "spans" in each for each in data)


def spans_of_jaeger(found: dict[str, Any]) -> list[Span]:
    """The spans of every trace."""
    return [span for trace in found["data"] for span in _spans(trace)]


def _spans(trace: dict[str, Any]) -> Iterator[Span]:
    processes = trace.get("processes")
    for span in _objects(trace.get("spans")):
        process = processes.get(str(span.get("processID"))) if isinstance(processes, dict) else None
        tags = process.get("tags") if isinstance(process, dict) else None
        start, took = _whole(span.get("startTime")), _whole(span.get("duration"))
        yield Span(
            trace_id=str(span.get("traceID") or ""),
            span_id=str(span.get("spanID") or ""),
            parent_id=_parent(span),
            name=str(span.get("operationName") or ""),
            start=start * 1_000,  # Jaeger counts microseconds
            end=(start + took) * 1_000,
            attributes=_attributes(span.get("tags")),
            resource=_attributes(tags),
            events=tuple(_events(span)),
        )


def _events(span: dict[str, Any]) -> Iterator[SpanEvent]:
    for log in _objects(span.get("logs")):
        fields = _attributes(log.get("fields"))
        name = fields.pop("event", "")
        yield SpanEvent(str(name), fields)


def _parent(span: dict[str, Any]) -> str:
    references = _objects(span.get("references"))
    return next((str(each.get("spanID")) for each in references if each.get("refType") == "CHILD_OF"), "")


def _attributes(tags: object) -> dict[str, object]:
    return {str(tag.get("key")): tag.get("value") for tag in _objects(tags)}


def _objects(found: object) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _whole(found: object) -> int:
    return found if isinstance(found, int) and not isinstance(found, bool) else 0

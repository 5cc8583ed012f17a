"""OTLP: the JSON and the Protobuf encoding of `ExportTraceServiceRequest` (OpenTelemetry protocol 1.x)."""

import base64
from collections.abc import Iterator
from typing import Any

from evalgate.errors import InvalidInput
from evalgate.extras import describe_install
from evalgate.telemetry.spans import Span, SpanEvent


class NotOtlp(ValueError):
    """It is not an export request; the text says what is wrong."""


def spans_of_json(request: object) -> list[Span]:
    """The spans in an export request, or in a file of such. Raises NotOtlp."""
    if not isinstance(request, dict) or not isinstance(request.get("resourceSpans", []), list):
        raise NotOtlp("it has no `resourceSpans`")
    return list(_spans(request))


def spans_of_protobuf(body: bytes) -> list[Span]:
    """The spans in an export request.

    Raises:
        NotOtlp: it is not one.
        InvalidInput: the package that reads it is missing.
    """
    try:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise InvalidInput(
            f"OTLP in Protobuf needs the package `opentelemetry-proto`: {describe_install('otel')}"
        ) from None
    try:
        message = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise NotOtlp(str(error)) from None
    return list(_spans(MessageToDict(message)))


def _spans(request: dict[str, Any]) -> Iterator[Span]:
    for group in _objects(request.get("resourceSpans")):
        resource = group.get("resource")
        program = attributes_of(resource.get("attributes")) if isinstance(resource, dict) else {}
        # Collectors of before OTLP 0.15 call a scope an instrumentation library.
        for scope in _objects(group.get("scopeSpans") or group.get("instrumentationLibrarySpans")):
            for span in _objects(scope.get("spans")):
                yield _span(span, program)


def _span(found: dict[str, Any], program: dict[str, object]) -> Span:
    return Span(
        trace_id=_hexadecimal(found.get("traceId"), 16),
        span_id=_hexadecimal(found.get("spanId"), 8),
        parent_id=_hexadecimal(found.get("parentSpanId"), 8),
        name=str(found.get("name") or ""),
        start=_nanoseconds(found.get("startTimeUnixNano")),
        end=_nanoseconds(found.get("endTimeUnixNano")),
        attributes=attributes_of(found.get("attributes")),
        resource=program,
        events=tuple(
            SpanEvent(str(event.get("name") or ""), attributes_of(event.get("attributes")))
            for event in _objects(found.get("events"))
        ),
    )


def attributes_of(found: object) -> dict[str, object]:
    """A list of keys and `AnyValue`s as a mapping."""
    return {str(each.get("key")): _value(each.get("value")) for each in _objects(found)}


def _value(found: object) -> object:
    if not isinstance(found, dict):
        return None
    for kind, value in found.items():
        match kind:
            case "intValue":
                return int(value) if str(value).lstrip("-").isdecimal() else None
            case "arrayValue":
                return [_value(each) for each in _objects(_of(value, "values"))]
            case "kvlistValue":
                return attributes_of(_of(value, "values"))
            case _:
                return value
    return None


def _of(found: object, key: str) -> object:
    return found.get(key) if isinstance(found, dict) else None


def _objects(found: object) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _hexadecimal(found: object, size: int) -> str:
    """An id of `size` bytes: OTLP writes it in hexadecimal, Protobuf's own JSON in base64."""
    text = found if isinstance(found, str) else ""
    if len(text) == 2 * size:
        return text.lower()
    try:
        return base64.b64decode(text, validate=True).hex()
    except ValueError:  # binascii.Error is one, and so is a text beyond ASCII
        return text.lower()


def _nanoseconds(found: object) -> int:
    text = str(found if found is not None else 0)
    return int(text) if text.isdecimal() and len(text) < 24 else 0

"""Define spans, and read them from requests and trace files in the OTLP and Jaeger formats."""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.installation import describe_install
from evalgate.core.types import JsonObject
from evalgate.documents.strict_json import filter_objects

_SNIFFED = 64 * 1024  # bytes of a file; a recording may be large, and most recordings are no traces
_TOO_LATE = 10**20  # microseconds; much larger integers could not be converted to a float of seconds
_MARKS = (b'"resourceSpans"', b'"traceID"')


@frozen
class SpanEvent:
    """Event within a span, such as a message of a conversation. Its time is not kept."""

    name: str
    attributes: JsonObject


@frozen
class Span:
    """One span. OTLP ids are lower-case hexadecimal; Jaeger's are kept as they are in the file."""

    trace_id: str
    span_id: str
    parent_id: str
    """Empty if the span has no parent."""
    name: str
    start: int
    """Nanoseconds since the epoch."""
    end: int
    attributes: JsonObject
    resource: JsonObject = field(default_factory=dict)
    """Attributes of the program that made the span."""
    events: tuple[SpanEvent, ...] = ()
    error: str = ""
    """Reason why the operation failed; "" if it did not."""

    def get_attribute(self, *names: str) -> object:
        """Return the first of the named attributes that the span has.

        If the span has none of them, return the first that its `resource` has, or None.
        """
        for attributes in (self.attributes, self.resource):
            for name in names:
                if name in attributes:
                    return attributes[name]
        return None

    def get_text(self, *names: str) -> str:
        """Return the attribute that `get_attribute` finds; "" if the attribute is not a string."""
        value = self.get_attribute(*names)
        return value if isinstance(value, str) else ""


def iter_unique(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the first span of each id, because OTLP exporters may repeat a batch; keep spans without id."""
    seen: set[str] = set()
    for span in spans:
        if span.span_id not in seen:
            yield span
        if span.span_id:
            seen.add(span.span_id)


class InvalidOtlpError(ValueError):
    """Error for data that is not an OTLP export request. The message states the reason."""


def read_otlp_json(request: object) -> list[Span]:
    """Return the spans of an export request in JSON; [] for an object without `resourceSpans`.

    Raises:
        InvalidOtlpError: the data is not an object, or its `resourceSpans` is not a list.
    """
    if not isinstance(request, dict) or not isinstance(request.get("resourceSpans", []), list):
        raise InvalidOtlpError("it is no object with a list `resourceSpans`")
    return list(_iter_otlp_spans(request))


def read_otlp_protobuf(body: bytes) -> list[Span]:
    """Return the spans of an export request in Protobuf.

    Raises:
        InvalidOtlpError: the data is not an export request.
        InvalidInputError: the package `opentelemetry-proto` is missing.
    """
    try:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise InvalidInputError(
            f"OTLP in Protobuf needs the package `opentelemetry-proto`: {describe_install('otel')}"
        ) from None
    try:
        message = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise InvalidOtlpError(str(error)) from None
    return list(_iter_otlp_spans(MessageToDict(message)))


def _iter_otlp_spans(request: dict[str, Any]) -> Iterator[Span]:
    for group in filter_objects(request.get("resourceSpans")):
        resource = group.get("resource")
        program = read_attributes(resource.get("attributes")) if isinstance(resource, dict) else {}
        # Before OTLP 0.15 a scope was called an instrumentation library.
        for scope in filter_objects(group.get("scopeSpans") or group.get("instrumentationLibrarySpans")):
            for span in filter_objects(scope.get("spans")):
                yield _build_span(span, program)


def _build_span(found: dict[str, Any], program: dict[str, object]) -> Span:
    return Span(
        trace_id=_normalize_id(found.get("traceId"), 16),
        span_id=_normalize_id(found.get("spanId"), 8),
        parent_id=_normalize_id(found.get("parentSpanId"), 8),
        name=str(found.get("name") or ""),
        start=_read_nanoseconds(found.get("startTimeUnixNano")),
        end=_read_nanoseconds(found.get("endTimeUnixNano")),
        attributes=read_attributes(found.get("attributes")),
        resource=program,
        events=tuple(
            SpanEvent(str(event.get("name") or ""), read_attributes(event.get("attributes")))
            for event in filter_objects(found.get("events"))
        ),
        error=_read_error(found.get("status")),
    )


def _read_error(status: object) -> str:
    """Return the message of an OTLP status with the code `ERROR`, or "error" if the message is missing.

    Return "" for any other status.
    """
    if _get_field(status, "code") not in (2, "STATUS_CODE_ERROR"):
        return ""
    return str(_get_field(status, "message") or "error")


def read_attributes(found: object) -> dict[str, object]:
    """Return the attributes by name; `found` is an OTLP list of objects with `key` and `value`.

    Return {} if `found` is not a list.
    """
    return {str(each.get("key")): _read_value(each.get("value")) for each in filter_objects(found)}


def _read_value(found: object) -> object:
    if not isinstance(found, dict):
        return None
    for kind, value in found.items():
        match kind:
            case "intValue":
                return int(value) if str(value).lstrip("-").isdecimal() else None
            case "arrayValue":
                return [_read_value(each) for each in filter_objects(_get_field(value, "values"))]
            case "kvlistValue":
                return read_attributes(_get_field(value, "values"))
            case _:
                return value
    return None


def _get_field(found: object, key: str) -> object:
    return found.get(key) if isinstance(found, dict) else None


def _normalize_id(found: object, size: int) -> str:
    """Return an id of `size` bytes in lower-case hexadecimal; "" if `found` is not a string.

    Protobuf's JSON mapping writes ids in base64, which is converted. Any other text is only lower-cased.
    """
    text = found if isinstance(found, str) else ""
    if len(text) == 2 * size:
        return text.lower()
    try:
        return base64.b64decode(text, validate=True).hex()
    except ValueError:  # binascii.Error is one, and so is a text beyond ASCII
        return text.lower()


def _read_nanoseconds(found: object) -> int:
    text = str(found if found is not None else 0)
    # Python refuses to convert thousands of digits. 23 digits are enough for any time in nanoseconds.
    return int(text) if text.isdecimal() and len(text) < 24 else 0


def is_jaeger(found: object) -> bool:
    """Return True if a JSON value is an object with a list of traces, as Jaeger exports them."""
    data = found.get("data") if isinstance(found, dict) else None
    return isinstance(data, list) and all(isinstance(each, dict) and "spans" in each for each in data)


def read_jaeger_spans(found: dict[str, Any]) -> list[Span]:
    """Return the spans of every trace in Jaeger's JSON; `is_jaeger(found)` must be True."""
    return [span for trace in found["data"] for span in _iter_jaeger_spans(trace)]


def _iter_jaeger_spans(trace: dict[str, Any]) -> Iterator[Span]:
    processes = trace.get("processes")
    for span in filter_objects(trace.get("spans")):
        process = processes.get(str(span.get("processID"))) if isinstance(processes, dict) else None
        tags = process.get("tags") if isinstance(process, dict) else None
        start, took = convert_microseconds(span.get("startTime")), convert_microseconds(span.get("duration"))
        references, tags_of_span = (
            filter_objects(span.get("references")),
            _read_jaeger_tags(span.get("tags")),
        )
        is_error = (
            tags_of_span.get("error") in (True, "true") or tags_of_span.get("otel.status_code") == "ERROR"
        )
        yield Span(
            trace_id=str(span.get("traceID") or ""),
            span_id=str(span.get("spanID") or ""),
            parent_id=next(
                (str(each.get("spanID")) for each in references if each.get("refType") == "CHILD_OF"), ""
            ),
            name=str(span.get("operationName") or ""),
            start=start,
            end=start + took,
            attributes=tags_of_span,
            resource=_read_jaeger_tags(tags),
            events=tuple(_iter_jaeger_events(span)),
            error=str(tags_of_span.get("otel.status_description") or "error") if is_error else "",
        )


def _iter_jaeger_events(span: dict[str, Any]) -> Iterator[SpanEvent]:
    for log in filter_objects(span.get("logs")):
        fields = _read_jaeger_tags(log.get("fields"))
        name = fields.pop("event", "")
        yield SpanEvent(str(name), fields)


def _read_jaeger_tags(tags: object) -> dict[str, object]:
    return {str(tag.get("key")): tag.get("value") for tag in filter_objects(tags)}


def convert_microseconds(found: object) -> int:
    """Convert microseconds to nanoseconds. Return 0 if `found` is not an integer, or is 10^20 or more."""
    if not isinstance(found, int) or isinstance(found, bool) or abs(found) >= _TOO_LATE:
        return 0
    return found * 1_000


def is_trace_file(path: Path) -> bool:
    """Return True if the first 64 KiB of a file hold a key of OTLP or Jaeger traces.

    Raises:
        OSError: the file cannot be read.
    """
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(_SNIFFED)
    return any(mark in start for mark in _MARKS)

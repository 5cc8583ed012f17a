"""Exports of OpenTelemetry collectors and back ends: OTLP, Jaeger, Zipkin, and the span objects of SDKs."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from evalgate.agents.tracing.trace_formats import (
    InvalidOtlpError,
    Span,
    SpanEvent,
    convert_microseconds,
    is_jaeger,
    read_jaeger_spans,
    read_otlp_json,
)
from evalgate.integrations.trace_sources.api_client import ApiClient, TraceQuery
from evalgate.integrations.trace_sources.traces import (
    TraceInfo,
    TraceItem,
    get_dict,
    get_list,
    get_text,
    parse_time,
)


class OtlpReader:
    """Reader of OTLP/JSON: an export request, or a line of the collector's file exporter."""

    def matches_row(self, row: Mapping[str, Any]) -> bool:
        """Return True if the object has `resourceSpans`."""
        return "resourceSpans" in row

    def read_row(self, row: Mapping[str, Any]) -> Iterable[TraceItem]:
        """Return the spans of an export request.

        Raises:
            ValueError: the object is not an export request. The text is a sentence without its subject.
        """
        try:
            return read_otlp_json(dict(row))
        except InvalidOtlpError as error:
            raise ValueError(f"is no export request of OTLP: {error}") from None


class JaegerReader:
    """Reader of Jaeger's JSON: an answer of its query API, or a trace downloaded from its web page."""

    def matches_row(self, row: Mapping[str, Any]) -> bool:
        """Return True if the object is an answer with traces, or one trace."""
        return is_jaeger(dict(row)) or ("traceID" in row and isinstance(row.get("spans"), list))

    def read_row(self, row: Mapping[str, Any]) -> Iterable[TraceItem]:
        """Yield the spans of all traces in the object, then the URL of a trace that `JaegerApi` fetched."""
        yield from read_jaeger_spans(dict(row) if is_jaeger(dict(row)) else {"data": [row]})
        if url := get_text(row, "evalgate_url"):
            yield TraceInfo(get_text(row, "traceID"), url=url)


class ZipkinReader:
    """Reader of spans in Zipkin's version 2."""

    def matches_row(self, row: Mapping[str, Any]) -> bool:
        """Return True if the object has the keys of a Zipkin span."""
        return {"traceId", "id"} <= row.keys() and bool({"localEndpoint", "duration", "tags"} & row.keys())

    def read_row(self, row: Mapping[str, Any]) -> Iterable[TraceItem]:
        """Yield the object as a single span."""
        tags = get_dict(row, "tags")
        begin = convert_microseconds(row.get("timestamp"))
        yield Span(
            trace_id=get_text(row, "traceId"),
            span_id=get_text(row, "id"),
            parent_id=get_text(row, "parentId"),
            name=get_text(row, "name"),
            start=begin,
            end=begin + convert_microseconds(row.get("duration")),
            attributes=tags,
            resource={"service.name": get_text(get_dict(row, "localEndpoint"), "serviceName")},
            error=str(tags.get("error") or ""),
        )


class JaegerApi:
    """Jaeger's query API (`/api/traces`), which needs the name of a service as `--project`."""

    variables = ("JAEGER_ENDPOINT",)
    unused: tuple[str, ...] = ()

    def get_default_endpoint(self, environ: Mapping[str, str]) -> str:  # noqa: ARG002
        """Return the address of a local Jaeger."""
        return "http://localhost:16686"

    def build_headers(self, environ: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG002
        """Return {}: Jaeger has no authentication."""
        return {}

    async def iter_rows(
        self,
        client: ApiClient,
        query: TraceQuery,
        environ: Mapping[str, str],  # noqa: ARG002
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield each trace in the answer to a single request, with the URL of its page as `evalgate_url`.

        `query.filter` is sent as Jaeger's parameter `tags`.

        Raises:
            InvalidInputError: the API cannot be reached, refuses the request or returns an invalid answer.
        """
        found: dict[str, str] = {"service": query.project, "limit": str(query.limit)}
        if query.since:
            found["start"] = str(int(query.since.timestamp() * 1e6))
        if query.until:
            found["end"] = str(int(query.until.timestamp() * 1e6))
        if query.filter:
            found["tags"] = query.filter
        answer = await client.get_object("/api/traces", found)
        for trace in get_list(answer, "data"):
            if isinstance(trace, dict):
                yield {**trace, "evalgate_url": f"{client.endpoint}/trace/{get_text(trace, 'traceID')}"}


class SpanObjectReader:
    """Reader of span objects: Phoenix's API and exports, and `to_json` of OpenTelemetry's spans."""

    def matches_row(self, row: Mapping[str, Any]) -> bool:
        """Return True if the object has a key `context.trace_id`, or an object `context` with `trace_id`."""
        return "context.trace_id" in row or "trace_id" in get_dict(row, "context")

    def read_row(self, row: Mapping[str, Any]) -> Iterable[TraceItem]:
        """Yield the object as a single span."""
        context = get_dict(row, "context")
        attributes = dict(flatten_attributes(get_dict(row, "attributes")))
        attributes |= {
            key.removeprefix("attributes."): value
            for key, value in row.items()
            if key.startswith("attributes.") and value is not None
        }
        if kind := get_text(row, "span_kind"):
            attributes.setdefault("openinference.span.kind", kind)
        status = get_dict(row, "status")
        code = get_text(row, "status_code") or get_text(status, "status_code")
        message = get_text(row, "status_message") or get_text(status, "description")
        yield Span(
            trace_id=_strip_id(get_text(context, "trace_id") or get_text(row, "context.trace_id")),
            span_id=_strip_id(get_text(context, "span_id") or get_text(row, "context.span_id")),
            parent_id=_strip_id(get_text(row, "parent_id")),
            name=get_text(row, "name"),
            start=parse_time(row.get("start_time")),
            end=parse_time(row.get("end_time")),
            attributes=attributes,
            resource=get_dict(get_dict(row, "resource"), "attributes"),
            events=tuple(
                SpanEvent(get_text(event, "name"), get_dict(event, "attributes"))
                for event in get_list(row, "events")
                if isinstance(event, dict)
            ),
            error=(message or "error") if code == "ERROR" else "",
        )


def _strip_id(text: str) -> str:
    return text.removeprefix("0x")


def flatten_attributes(
    found: Mapping[str, Any], prefix: str = "", depth: int = 0
) -> Iterable[tuple[str, Any]]:
    """Yield (dotted name, value) for each attribute, nested ones included.

    An object is yielded whole under its own name, and then key by key, down to six levels. `prefix` comes
    before every name, and `depth` counts the levels: both are for the recursion.
    """
    for key, value in found.items():
        name = f"{prefix}{key}"
        yield name, value
        if isinstance(value, dict) and depth < 6:
            yield from flatten_attributes(value, f"{name}.", depth + 1)

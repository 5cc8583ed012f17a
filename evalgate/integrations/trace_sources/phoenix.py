"""Phoenix (Arize): its REST API, with spans in OpenInference's attributes."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from evalgate.integrations.trace_sources.api_client import ApiClient, TraceQuery
from evalgate.integrations.trace_sources.otel import SpanObjectReader
from evalgate.integrations.trace_sources.traces import TraceInfo, TraceItem, get_dict, get_list, get_text

_PAGE = 100  # of at most 1,000
_IDS_PER_REQUEST = 50  # span ids go into the address


class PhoenixReader:
    """Reader of Phoenix's spans, and of their annotations."""

    def matches_row(self, row: Mapping[str, Any]) -> bool:
        """Return True if the object is a span, or the annotation of a span."""
        return "evalgate_annotation" in row or SpanObjectReader().matches_row(row)

    def read_row(self, row: Mapping[str, Any]) -> Iterable[TraceItem]:
        """Return the span and the URL of its trace, or the feedback in an annotation."""
        if "evalgate_annotation" in row:
            note = get_dict(row, "evalgate_annotation")
            result = get_dict(note, "result")
            score, label = result.get("score"), result.get("label")
            value = score if isinstance(score, int | float) else label
            if isinstance(value, int | float | str):
                yield TraceInfo(get_text(row, "trace_id"), feedback={get_text(note, "name"): value})
            return
        yield from SpanObjectReader().read_row(row)
        if url := get_text(row, "evalgate_url"):
            yield TraceInfo(get_text(get_dict(row, "context"), "trace_id"), url=url)


class PhoenixApi:
    """Phoenix's API for spans, and for their annotations (the feedback of people or models).

    The paths are `/v1/projects/{project}/spans` and `/v1/projects/{project}/span_annotations`.
    """

    variables = ("PHOENIX_COLLECTOR_ENDPOINT", "PHOENIX_API_KEY", "PHOENIX_PROJECT_NAME")
    unused: tuple[str, ...] = ("filter",)

    def get_default_endpoint(self, environ: Mapping[str, str]) -> str:  # noqa: ARG002
        """Return the address of a local Phoenix."""
        return "http://localhost:6006"

    def build_headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the header with the key as a bearer token, or {} without a key: local servers need none."""
        key = environ.get("PHOENIX_API_KEY")
        return {"Authorization": f"Bearer {key}"} if key else {}

    async def iter_rows(
        self, client: ApiClient, query: TraceQuery, environ: Mapping[str, str]
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the spans of the newest `query.limit` traces, and then the annotations of the spans.

        The result may also have spans of older traces, because a page of the API mixes the spans of several
        traces.

        Raises:
            InvalidInputError: the project does not exist, or the API cannot be reached, refuses a request or
                returns an invalid answer.
        """
        name = query.project or environ.get("PHOENIX_PROJECT_NAME") or "default"
        project = quote(name, safe="")
        about = get_dict(await client.get_object(f"/v1/projects/{project}", {}), "data")
        base = f"{client.endpoint}/projects/{get_text(about, 'id')}/traces/"
        params = [("limit", str(_PAGE))]
        if query.since:
            params.append(("start_time", query.since.isoformat()))
        if query.until:
            params.append(("end_time", query.until.isoformat()))
        traces: dict[str, str] = {}
        async for page in client.iter_pages(f"/v1/projects/{project}/spans", params, _get_cursor):
            for span in get_list(page, "data"):
                if not isinstance(span, dict):
                    continue
                context = get_dict(span, "context")
                traces[get_text(context, "span_id")] = get_text(context, "trace_id")
                yield {**span, "evalgate_url": base + get_text(context, "trace_id")}
            if _has_older_only(page, traces, query.limit):
                break
        async for row in _iter_annotations(client, project, traces):
            yield row


def _has_older_only(page: Mapping[str, Any], traces: Mapping[str, str], limit: int) -> bool:
    """Return True if the page has no span of the `limit` newest traces.

    If so, all spans of these traces have been read, and no further page is needed. `traces` maps the id of
    each span read so far to the id of its trace, newest span first; the spans of `page` are included.
    """
    # Reaching `limit` traces is not enough to stop, because spans of several traces may alternate.
    newest = set(list(dict.fromkeys(traces.values()))[:limit])
    spans = [each for each in get_list(page, "data") if isinstance(each, dict)]
    return not any(get_text(get_dict(span, "context"), "trace_id") in newest for span in spans)


async def _iter_annotations(
    client: ApiClient, project: str, traces: Mapping[str, str]
) -> AsyncIterator[Mapping[str, Any]]:
    ids = list(traces)
    for at in range(0, len(ids), _IDS_PER_REQUEST):
        params = [("span_ids", each) for each in ids[at : at + _IDS_PER_REQUEST]] + [("limit", "1000")]
        path = f"/v1/projects/{project}/span_annotations"
        async for page in client.iter_pages(path, params, _get_cursor, missing_ok=True):
            for note in get_list(page, "data"):
                if isinstance(note, dict) and (trace := traces.get(get_text(note, "span_id"))):
                    yield {"evalgate_annotation": note, "trace_id": trace}


def _get_cursor(page: Mapping[str, Any]) -> str:
    return get_text(page, "next_cursor")

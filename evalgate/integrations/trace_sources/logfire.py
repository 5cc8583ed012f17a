"""Logfire: rows of its table `records`, as its query API and its exports return them."""

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from evalgate.agents.tracing.chat_messages import decode_json
from evalgate.agents.tracing.trace_formats import Span, SpanEvent
from evalgate.core.errors import InvalidInputError
from evalgate.integrations.trace_sources.api_client import ApiClient, TraceQuery
from evalgate.integrations.trace_sources.otel import flatten_attributes
from evalgate.integrations.trace_sources.traces import TraceItem, get_list, get_text, parse_time

_COLUMNS = (
    "trace_id, span_id, parent_span_id, span_name, start_timestamp, end_timestamp, attributes, otel_events, "
    "otel_resource_attributes, otel_status_code, otel_status_message, is_exception, exception_message, kind"
)
_MOST_ROWS = 10_000
_EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
"""Start of the time range of a query without `since`, as in Logfire's own client: the API requires one."""
_LONGEST_TRACE = timedelta(days=1)
_REGION = re.compile(r"pylf_v\d+_(us|eu)_")
_TRACES_PER_QUERY = 50


class LogfireReader:
    """Reader of rows of the table `records`."""

    def matches_row(self, row: Mapping[str, Any]) -> bool:
        """Return True if the object has the columns of a record."""
        return {"trace_id", "span_id", "span_name"} <= row.keys()

    def read_row(self, row: Mapping[str, Any]) -> Iterable[TraceItem]:
        """Yield the row as a span; yield nothing for a pending span, because its finished span follows."""
        if get_text(row, "kind") == "pending_span":
            return
        attributes, resource = (
            decode_json(row.get("attributes")),
            decode_json(row.get("otel_resource_attributes")),
        )
        found = decode_json(row.get("otel_events"))
        error = get_text(row, "otel_status_message", "exception_message") or "error"
        yield Span(
            trace_id=get_text(row, "trace_id"),
            span_id=get_text(row, "span_id"),
            parent_id=get_text(row, "parent_span_id"),
            name=get_text(row, "span_name"),
            start=parse_time(row.get("start_timestamp")),
            end=parse_time(row.get("end_timestamp")),
            attributes=dict(flatten_attributes(attributes)) if isinstance(attributes, dict) else {},
            resource=resource if isinstance(resource, dict) else {},
            events=tuple(
                SpanEvent(
                    get_text(event, "event_name", "name"),
                    own if isinstance(own := event.get("attributes"), dict) else dict(event),
                )
                for event in (found if isinstance(found, list) else ())
                if isinstance(event, dict)
            ),
            error=error
            if get_text(row, "otel_status_code") == "ERROR" or row.get("is_exception") in (True, "true")
            else "",
        )


class LogfireApi:
    """Logfire's API, `POST /v2/query` with SQL, or `GET /v1/query` on a server without it.

    The first query finds the newest traces with spans of models, the second gets all spans of these traces.
    """

    variables = ("LOGFIRE_BASE_URL", "LOGFIRE_READ_TOKEN")
    unused: tuple[str, ...] = ("project",)

    def get_default_endpoint(self, environ: Mapping[str, str]) -> str:
        """Return the address of the region in the read token (`pylf_v1_eu_…`), or else of the US."""
        region = _REGION.match(environ.get("LOGFIRE_READ_TOKEN") or "")
        return f"https://logfire-{region[1] if region else 'us'}.pydantic.dev"

    def build_headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the header with the read token.

        Raises:
            InvalidInputError: the token is missing.
        """
        token = environ.get("LOGFIRE_READ_TOKEN")
        if not token:
            raise InvalidInputError("logfire: set LOGFIRE_READ_TOKEN to a read token of the project")
        return {"Authorization": f"Bearer {token}"}

    async def iter_rows(
        self,
        client: ApiClient,
        query: TraceQuery,
        environ: Mapping[str, str],  # noqa: ARG002
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the rows of the newest traces. `query.filter` is a condition in SQL on `records`.

        Raises:
            InvalidInputError: the API cannot be reached, refuses a request or returns an invalid answer.
        """
        where = "attributes ? 'gen_ai.operation.name' or attributes ? 'gen_ai.request.model'"
        more = f" and ({query.filter})" if query.filter else ""
        # The condition is SQL of the user, who may read all of the project; the ids are alphanumeric.
        sql = (
            f"select trace_id, max(start_timestamp) as latest from records where ({where}){more} "  # noqa: S608
            f"group by trace_id order by latest desc limit {query.limit}"
        )
        ids = [get_text(row, "trace_id") for row in await _query(client, sql, query, query.limit)]
        # A trace may begin before `since` and end after `until`, so the time range of its spans is wider.
        around = replace(
            query,
            since=query.since - _LONGEST_TRACE if query.since else None,
            until=query.until + _LONGEST_TRACE if query.until else None,
        )
        for at in range(0, len(ids), _TRACES_PER_QUERY):
            chosen = ", ".join(f"'{each}'" for each in ids[at : at + _TRACES_PER_QUERY] if each.isalnum())
            sql = (
                f"select {_COLUMNS} from records where trace_id in ({chosen}) "  # noqa: S608
                "order by start_timestamp, span_id"
            )
            rows, given = await _query(client, sql, around, _MOST_ROWS), 0
            while rows:
                for row in rows:
                    yield row
                given += len(rows)
                is_cut = len(rows) == _MOST_ROWS
                rows = await _query(client, f"{sql} offset {given}", around, _MOST_ROWS) if is_cut else []


async def _query(client: ApiClient, sql: str, query: TraceQuery, limit: int) -> list[Mapping[str, Any]]:
    """Return at most `limit` rows of the result of `sql`. Logfire allows a limit of at most 10,000.

    The rows are from the time range `since` to `until` of `query`. The other fields of `query` are not used.
    """
    params = {"sql": sql, "min_timestamp": (query.since or _EARLIEST).isoformat()}
    if query.until:
        params["max_timestamp"] = query.until.isoformat()
    answer = await client.post_object("/v2/query", {**params, "limit": limit}, missing_ok=True)
    if not answer:
        answer = await client.get_object("/v1/query", {**params, "limit": str(limit), "json_rows": "true"})
    return [row for row in get_list(answer, "data", "rows") if isinstance(row, dict)]

"""Langfuse: exports of traces and observations (JSON, CSV), and its public API."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from evalgate.agents.tracing.chat_messages import decode_json, get_message_text, parse_messages
from evalgate.agents.tracing.trace_formats import Span
from evalgate.core.errors import InvalidInputError
from evalgate.integrations.trace_sources.api_client import ApiClient, TraceQuery, encode_basic_auth
from evalgate.integrations.trace_sources.traces import (
    TraceInfo,
    TraceItem,
    filter_texts,
    get_dict,
    get_list,
    get_text,
    parse_time,
)

_TYPES = frozenset(
    [
        "GENERATION",
        "SPAN",
        "EVENT",
        "AGENT",
        "TOOL",
        "CHAIN",
        "RETRIEVER",
        "EVALUATOR",
        "EMBEDDING",
        "GUARDRAIL",
    ]
)
_TRACE_KEYS = frozenset({"sessionId", "session_id", "htmlPath", "bookmarked", "userId", "user_id", "release"})
_CLOUD = "https://cloud.langfuse.com"
_PAGE = 50
_OBSERVATIONS_PER_PAGE = 1000
_SCORES_PER_PAGE = 100
_OBSERVATIONS = "/api/public/v2/observations"
_TRACES_PER_REQUEST = 50  # their ids go into the address
_LABELS = ("NUMERIC", "BOOLEAN", "CATEGORICAL")
"""Types of scores that rate an answer. The other types, `TEXT` and `CORRECTION`, are texts of people."""


class LangfuseReader:
    """Reader of Langfuse's traces (with or without observations), observations and scores."""

    def matches_row(self, row: Mapping[str, Any]) -> bool:
        """Return True if the object is a trace, an observation, or a score that `LangfuseApi` yields."""
        if "evalgate_scores" in row:
            return True
        if ("traceId" in row or "trace_id" in row) and str(row.get("type")).upper() in _TYPES:
            return True
        return "id" in row and "timestamp" in row and bool(_TRACE_KEYS & row.keys())

    def read_row(self, row: Mapping[str, Any]) -> Iterable[TraceItem]:
        """Yield the span of each observation in the object, and the facts about the trace.

        A single observation has facts about the trace only if it is the trace's root. Scores from
        `LangfuseApi` become facts without a span.
        """
        if "evalgate_scores" in row:
            scores = {"scores": row["evalgate_scores"]}
            yield TraceInfo(get_text(row, "traceId"), feedback=dict(_iter_scores(scores)))
            return
        if "traceId" in row or "trace_id" in row:
            trace_id = get_text(row, "traceId", "trace_id")
            yield _build_span(row, trace_id)
            if row.get("isRootObservation") in (True, "true"):
                yield _build_info(row, trace_id)
            return
        trace_id = get_text(row, "id")
        for observation in get_list(row, "observations"):
            if isinstance(observation, dict):
                yield _build_span(observation, trace_id)
        yield _build_info(row, trace_id)


def _build_info(row: Mapping[str, Any], trace_id: str) -> TraceInfo:
    """Return the facts about a trace; `row` is a trace of Langfuse, or a root observation of Langfuse 4."""
    sent, answer = parse_messages(row.get("input"), "user"), parse_messages(row.get("output"), "assistant")
    host, path = get_text(row, "evalgate_endpoint"), get_text(row, "htmlPath")
    if not path and (project := get_text(row, "projectId")):
        path = f"/project/{quote(project, safe='')}/traces/{quote(trace_id, safe='')}"
    tags = decode_json(row.get("tags"))
    return TraceInfo(
        trace_id=trace_id,
        conversation_id=get_text(row, "sessionId", "session_id"),
        url=f"{host}{path}" if host and path else "",
        tags=tuple(filter_texts(tags)) if isinstance(tags, list) else (),
        feedback=dict(_iter_scores(row)),
        question=next((get_message_text(m) for m in reversed(sent) if m["role"] == "user"), ""),
        answer=next((get_message_text(m) for m in reversed(answer) if m["role"] == "assistant"), ""),
        start=parse_time(row.get("timestamp") or row.get("startTime")),
    )


def _build_span(row: Mapping[str, Any], trace_id: str) -> Span:
    kind = get_text(row, "type").lower()
    name = get_text(row, "name")
    attributes: dict[str, object] = {
        "langfuse.observation.type": kind,
        "langfuse.observation.input": decode_json(row.get("input")),
        "langfuse.observation.output": decode_json(row.get("output")),
        "metadata": decode_json(row.get("metadata")),
        "session.id": get_text(row, "sessionId", "session_id"),
    }
    if kind == "agent":
        attributes["gen_ai.agent.name"] = name
    return Span(
        trace_id=trace_id,
        span_id=get_text(row, "id"),
        parent_id=get_text(row, "parentObservationId", "parent_observation_id"),
        name=name,
        start=parse_time(row.get("startTime") or row.get("start_time")),
        end=parse_time(row.get("endTime") or row.get("end_time")),
        attributes={key: value for key, value in attributes.items() if value not in (None, "")},
        error=(get_text(row, "statusMessage", "status_message") or "error")
        if get_text(row, "level") == "ERROR"
        else "",
    )


def _iter_scores(row: Mapping[str, Any]) -> Iterable[tuple[str, float | str]]:
    scores = decode_json(row.get("scores"))
    for score in scores if isinstance(scores, list) else ():
        if isinstance(score, dict) and score.get("dataType", "NUMERIC") in _LABELS:
            value = score.get("value")
            label = value if isinstance(value, str) else score.get("stringValue")
            if isinstance(value, int | float):
                yield get_text(score, "name"), value
            elif isinstance(label, str):
                yield get_text(score, "name"), label
    for name, values in scores.items() if isinstance(scores, dict) else ():
        # The table of traces in Langfuse's page has a list of values for each name.
        value = values[-1] if isinstance(values, list) and values else values
        if isinstance(value, int | float | str):
            yield str(name), value


class LangfuseApi:
    """Langfuse's API: the observations of the newest traces, and their scores.

    Langfuse 4 has `GET /api/public/v2/observations`. Older servers are asked for `GET /api/public/traces`
    page by page, then for each trace with its observations and scores.
    """

    variables = ("LANGFUSE_HOST", "LANGFUSE_BASE_URL", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
    unused: tuple[str, ...] = ("project",)

    def get_default_endpoint(self, environ: Mapping[str, str]) -> str:  # noqa: ARG002
        """Return the address of Langfuse's cloud in the EU."""
        return _CLOUD

    def build_headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the project's keys in a header for basic authentication.

        Raises:
            InvalidInputError: a key is missing.
        """
        public, secret = environ.get("LANGFUSE_PUBLIC_KEY"), environ.get("LANGFUSE_SECRET_KEY")
        if not public or not secret:
            raise InvalidInputError(
                "langfuse: set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY (and LANGFUSE_HOST unless the "
                f"project is on {_CLOUD})"
            )
        return {"Authorization": encode_basic_auth(public, secret)}

    async def iter_rows(
        self,
        client: ApiClient,
        query: TraceQuery,
        environ: Mapping[str, str],  # noqa: ARG002
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the observations of the newest traces, then the scores.

        If the server returns no observations, read the traces from the API of Langfuse 3 instead.
        `query.filter` holds tags with commas between them. A trace must have all tags.

        Raises:
            InvalidInputError: the API cannot be reached, refuses a request or returns an invalid answer.
        """
        ids = await _list_trace_ids(client, query)
        if not ids:  # also if the server has not migrated its older traces
            async for trace in _iter_traces(client, query, missing_ok=ids is not None):
                yield trace
        for trace_id in ids or ():
            params = [("traceId", trace_id), ("fields", "basic,io,metadata,trace_context")]
            params.append(("limit", str(_OBSERVATIONS_PER_PAGE)))
            async for page in client.iter_pages(_OBSERVATIONS, params, _get_cursor):
                for row in get_list(page, "data"):
                    if isinstance(row, dict):
                        yield {**row, "evalgate_endpoint": client.endpoint}
        for at in range(0, len(ids or ()), _TRACES_PER_REQUEST):
            async for row in _iter_trace_scores(client, (ids or [])[at : at + _TRACES_PER_REQUEST]):
                yield row


async def _list_trace_ids(client: ApiClient, query: TraceQuery) -> list[str] | None:
    """Return the ids of the newest traces, at most `query.limit`; None if Langfuse is older than 4."""
    params = [("fields", "core"), ("isRootObservation", "true")]
    params.append(("limit", str(min(_OBSERVATIONS_PER_PAGE, query.limit))))
    if query.since:
        params.append(("fromStartTime", query.since.isoformat()))
    if query.until:
        params.append(("toStartTime", query.until.isoformat()))
    if tags := _split_tags(query):
        condition = {"type": "arrayOptions", "column": "tags", "operator": "all of", "value": tags}
        params.append(("filter", json.dumps([condition])))
    ids: dict[str, None] = {}
    async for page in client.iter_pages(_OBSERVATIONS, params, _get_cursor, missing_ok=True):
        if not page:
            return None
        rows = [row for row in get_list(page, "data") if isinstance(row, dict)]
        ids |= dict.fromkeys(filter(None, (get_text(row, "traceId") for row in rows)))
        if len(ids) >= query.limit:
            break
    return list(ids)[: query.limit]


def _split_tags(query: TraceQuery) -> list[str]:
    return [tag.strip() for tag in query.filter.split(",") if tag.strip()]


def _get_cursor(page: Mapping[str, Any]) -> str:
    return get_text(get_dict(page, "meta"), "cursor")


async def _iter_trace_scores(client: ApiClient, ids: list[str]) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the scores of traces and of their observations, each with the id of its trace."""
    params = [("traceId", ",".join(ids)), ("fields", "subject"), ("limit", str(_SCORES_PER_PAGE))]
    async for page in client.iter_pages("/api/public/v3/scores", params, _get_cursor, missing_ok=True):
        for score in get_list(page, "data"):
            subject = get_dict(score, "subject") if isinstance(score, dict) else {}
            key = "id" if subject.get("kind") == "trace" else "traceId"
            if trace_id := get_text(subject, key):
                yield {"evalgate_scores": [score], "traceId": trace_id}


async def _iter_traces(
    client: ApiClient, query: TraceQuery, *, missing_ok: bool
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the traces of the API from before Langfuse 4, the newest first.

    With `missing_ok`, yield nothing if the server lacks this API.
    """
    params = [("limit", str(min(_PAGE, query.limit))), ("orderBy", "timestamp.desc")]
    if query.since:
        params.append(("fromTimestamp", query.since.isoformat()))
    if query.until:
        params.append(("toTimestamp", query.until.isoformat()))
    params += [("tags", tag) for tag in _split_tags(query)]
    given, number = 0, 1
    while given < query.limit:
        numbered = [*params, ("page", str(number))]
        page = await client.get_object("/api/public/traces", numbered, missing_ok=missing_ok)
        rows = [row for row in get_list(page, "data") if isinstance(row, dict)]
        for row in rows[: query.limit - given]:
            path = f"/api/public/traces/{quote(get_text(row, 'id'), safe='')}"
            whole = await client.get_object(path, {}, missing_ok=True)
            yield {**row, **whole, "evalgate_endpoint": client.endpoint}
        given += len(rows)
        pages = get_dict(page, "meta").get("totalPages")
        if not rows or (isinstance(pages, int) and number >= pages):
            return
        number += 1

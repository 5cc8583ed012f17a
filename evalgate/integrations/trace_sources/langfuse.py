"""Langfuse: exports of traces and observations (JSON, CSV), and its public API."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from evalgate.agents.tracing.chat_messages import decode_json, get_message_text, read_messages
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
_PAGE = 50


class LangfuseReader:
    """Reader of traces, with or without their observations, and of observations."""

    def matches_row(self, row: Mapping[str, Any]) -> bool:
        """Return True if the object has the keys of a trace or of an observation."""
        if ("traceId" in row or "trace_id" in row) and str(row.get("type")).upper() in _TYPES:
            return True
        return "id" in row and "timestamp" in row and bool(_TRACE_KEYS & row.keys())

    def read_row(self, row: Mapping[str, Any]) -> Iterable[TraceItem]:
        """Return the spans of the observations, and the facts about the trace."""
        if "traceId" in row or "trace_id" in row:
            yield _build_span(row, get_text(row, "traceId", "trace_id"))
            return
        trace_id = get_text(row, "id")
        for observation in get_list(row, "observations"):
            if isinstance(observation, dict):
                yield _build_span(observation, trace_id)
        sent, answer = read_messages(row.get("input"), "user"), read_messages(row.get("output"), "assistant")
        path = get_text(row, "htmlPath")
        host = get_text(row, "evalgate_endpoint")
        tags = decode_json(row.get("tags"))
        yield TraceInfo(
            trace_id=trace_id,
            conversation_id=get_text(row, "sessionId", "session_id"),
            url=f"{host}{path}" if host and path else "",
            tags=tuple(filter_texts(tags)) if isinstance(tags, list) else (),
            feedback=dict(_iter_scores(row)),
            question=next((get_message_text(m) for m in reversed(sent) if m["role"] == "user"), ""),
            answer=next((get_message_text(m) for m in reversed(answer) if m["role"] == "assistant"), ""),
            start=parse_time(row.get("timestamp")),
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
        if isinstance(score, dict):
            value = score.get("value")
            label = score.get("stringValue")
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield get_text(score, "name"), value
            elif isinstance(label, str):
                yield get_text(score, "name"), label
    for name, values in scores.items() if isinstance(scores, dict) else ():
        # The table of traces in Langfuse's page has a list of values for each name.
        value = values[-1] if isinstance(values, list) and values else values
        if isinstance(value, int | float | str):
            yield str(name), value


class LangfuseApi:
    """`GET /api/public/traces` page by page, then each trace with its observations and scores."""

    variables = ("LANGFUSE_HOST", "LANGFUSE_BASE_URL", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
    default_endpoint = "https://cloud.langfuse.com"

    def build_headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the keys of the project as basic authentication.

        Raises:
            InvalidInputError: a key is missing.
        """
        public, secret = environ.get("LANGFUSE_PUBLIC_KEY"), environ.get("LANGFUSE_SECRET_KEY")
        if not public or not secret:
            raise InvalidInputError(
                "langfuse: set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY (and LANGFUSE_HOST unless the "
                f"project is on {self.default_endpoint})"
            )
        return {"Authorization": encode_basic_auth(public, secret)}

    async def iter_rows(
        self,
        client: ApiClient,
        query: TraceQuery,
        environ: Mapping[str, str],  # noqa: ARG002
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the traces, the newest first. `query.filter` is a tag, or several with commas."""
        params = [("limit", str(min(_PAGE, query.limit))), ("orderBy", "timestamp.desc")]
        if query.since:
            params.append(("fromTimestamp", query.since.isoformat()))
        if query.until:
            params.append(("toTimestamp", query.until.isoformat()))
        params += [("tags", tag.strip()) for tag in query.filter.split(",") if tag.strip()]
        given, number = 0, 1
        while given < query.limit:
            page = await client.get_json("/api/public/traces", [*params, ("page", str(number))])
            rows = [row for row in get_list(page, "data") if isinstance(row, dict)]
            for row in rows[: query.limit - given]:
                path = f"/api/public/traces/{quote(get_text(row, 'id'), safe='')}"
                whole = await client.get_json(path, {}, missing_ok=True)
                yield {**row, **whole, "evalgate_endpoint": client.endpoint}
            given += len(rows)
            pages = get_dict(page, "meta").get("totalPages")
            if not rows or (isinstance(pages, int) and number >= pages):
                return
            number += 1

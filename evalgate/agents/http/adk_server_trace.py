"""Reader of the spans that `adk web`, Google ADK's development server, stores for each session."""

import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from evalgate.agents.http.connection import AgentConnection
from evalgate.agents.tracing.span_steps import convert_turn_spans
from evalgate.agents.tracing.trace_formats import Span, SpanEvent
from evalgate.core.protocols import AgentError
from evalgate.core.types import TraceSpan


class AdkServerTrace:
    """Reader of a session's spans, turn by turn. If the server stores no spans, turns have no steps."""

    def __init__(self, connection: AgentConnection) -> None:
        self._connection = connection
        self._began_at = 0
        self._seen: set[str] = set()
        self._spans: list[Span] = []
        self._is_missing = False
        """True once a request for spans failed, as with `adk api_server`, which stores no spans."""

    def begin_turn(self) -> None:
        """Store the present time as the beginning of a turn, and remove the spans of the previous turn."""
        self._began_at, self._spans = time.time_ns(), []

    async def request_spans(self, app: str, session_id: str) -> None:
        """Request the spans of the session, and keep the spans that are new.

        If the request fails, the server probably stores no spans: ignore the error, and do nothing in all
        later calls.
        """
        if self._is_missing:
            return
        path = f"/dev/apps/{quote(app, safe='')}/debug/trace/session/{quote(session_id, safe='')}"
        try:
            found = await self._connection.request_json("GET", self._connection.build_url(path))
        except AgentError:
            self._is_missing = True
            return
        spans = (
            [_build_span(each) for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        )
        self._spans = [span for span in spans if span.span_id not in self._seen]
        self._seen.update(span.span_id for span in spans)

    def take_spans(self) -> Sequence[TraceSpan]:
        """Return the steps of the last turn, without the web server's own spans, and remove them."""
        spans, self._spans = self._spans, []
        steps = convert_turn_spans(spans, self._began_at)
        return [step for step in steps if step.kind != "other"]


def _build_span(found: dict[str, Any]) -> Span:
    start, end = _read_int(found.get("start_time")), _read_int(found.get("end_time"))
    attributes = found.get("attributes")
    return Span(
        trace_id=str(found.get("trace_id") or ""),
        span_id=str(found.get("span_id") or ""),
        parent_id=str(found.get("parent_span_id") or ""),
        name=str(found.get("name") or ""),
        start=start,
        end=max(start, end),
        attributes=attributes if isinstance(attributes, dict) else {},
        events=tuple(_iter_logs(found.get("logs"))),
    )


def _iter_logs(logs: object) -> Iterator[SpanEvent]:
    """Yield the log records of a span as events, because newer releases of ADK log the model's messages."""
    for log in logs if isinstance(logs, list) else ():
        attributes = log.get("attributes") if isinstance(log, dict) else None
        if isinstance(attributes, dict):
            yield SpanEvent(str(log.get("event_name") or ""), attributes)


def _read_int(found: object) -> int:
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**63 else 0

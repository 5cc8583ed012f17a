"""Timed steps of a turn, from `span` messages and captured spans of the worker, or else from tool calls."""

import math
import time
from collections.abc import Sequence

from evalgate.agents.host.trace_values import MOST_SPANS
from evalgate.agents.tracing.span_steps import convert_spans
from evalgate.agents.tracing.trace_formats import Span
from evalgate.agents.workers import protocol
from evalgate.agents.workers.protocol import InvalidMessageError
from evalgate.core.types import JsonObject, SpanKind, TraceSpan, Usage

_MOST_BYTES = 16 * 1024 * 1024
"""Largest number of bytes that the `span` messages of one turn may take; later messages are ignored."""
_KINDS: dict[object, SpanKind] = {"agent": "agent", "model": "model", "tool": "tool"}


class ReportedSpans:
    """Collector of the timed steps of one turn. Fields of a wrong type are ignored, and never fail a turn."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._began_at = time.time_ns()
        self._recorded: list[TraceSpan] = []
        """Steps from the spans that the agent's own process recorded with OpenTelemetry."""
        self._bytes = 0
        self._spans: list[TraceSpan] = []
        self._calls: list[TraceSpan] = []
        """Tool calls, timed by the arrival of their messages."""
        self._open: dict[object, int] = {}
        """Indexes in `_calls` of calls without a result, by call id, or by tool name if there is no id."""

    def begin_turn(self) -> None:
        """Start a turn, from which the times of its steps are counted; remove the steps of the last turn."""
        self.__init__()  # type: ignore[misc]

    def add_span(self, message: JsonObject, size: int) -> None:
        """Add the step of a `span` message of `size` bytes.

        Steps beyond the first 1,000 or the first 16 MiB of the turn are ignored.
        """
        self._bytes += size
        if self._bytes <= _MOST_BYTES and len(self._spans) < MOST_SPANS:
            self._spans.append(_parse_span(message))

    def add_recorded_spans(self, spans: Sequence[Span]) -> None:
        """Add the steps of the first 1,000 spans that a worker captured, except steps of kind `other`."""
        known = convert_spans(spans[:MOST_SPANS], self._began_at)
        self._recorded += [step for step in known if step.kind != "other"]

    def note_event(self, kind: str, message: JsonObject) -> None:
        """Record the arrival time of a `tool_call` or `tool_result`, in case the worker sends no spans."""
        if kind not in ("tool_call", "tool_result") or len(self._calls) >= MOST_SPANS:
            return
        now = time.perf_counter() - self._began
        name, id_, author = (_read_text(message, key) for key in ("name", "id", "author"))
        if kind == "tool_call":
            self._open[id_ or name] = len(self._calls)
            request = message.get("args")
            self._calls.append(
                TraceSpan(str(len(self._calls)), name, "tool", 0, now, 0.0, author=author, request=request)
            )
        elif (index := self._open.pop(id_ or name, None)) is not None:
            call = self._calls[index]
            self._calls[index] = TraceSpan(
                call.id,
                call.name,
                "tool",
                0,
                call.start_s,
                now - call.start_s,
                author=call.author,
                request=call.request,
                response=message.get("result"),
            )

    def take_spans(self) -> Sequence[TraceSpan]:
        """Return the steps of the turn, and remove them from the collector.

        The agent's framework, OpenTelemetry and the HTTP requests may report the same model call. So model
        calls are taken only from the first of these sources that reports any. If there are no steps at all,
        the tool calls that `note_event` recorded are returned.
        """
        reported = [step for step in self._spans if step.attributes.get("evalgate.captured_from") != "http"]
        found = self._spans
        if any(step.kind == "model" for step in reported):
            found = reported
        elif self._recorded:
            has_model = any(step.kind == "model" for step in self._recorded)
            found = [*(reported if has_model else self._spans), *self._recorded]
        found = found or self._calls
        self.begin_turn()
        return found


def _parse_span(message: JsonObject) -> TraceSpan:
    attributes = message.get("attributes")
    return TraceSpan(
        id=_read_text(message, "id"),
        name=_read_text(message, "name"),
        kind=_KINDS.get(message.get("kind"), "other") if isinstance(message.get("kind"), str) else "other",
        turn=0,
        start_s=_read_seconds(message, "start_s"),
        duration_s=_read_seconds(message, "duration_s"),
        parent_id=_read_text(message, "parent_id"),
        author=_read_text(message, "author"),
        usage=_parse_usage(message.get("usage")),
        request=message.get("request"),
        response=message.get("response"),
        error=_read_text(message, "error"),
        attributes=attributes if isinstance(attributes, dict) else {},
    )


def _parse_usage(found: object) -> Usage | None:
    if not isinstance(found, dict):
        return None
    try:
        return protocol.parse_usage({"type": "span", **found})
    except InvalidMessageError:
        return None


def _read_text(message: JsonObject, field: str) -> str:
    found = message.get(field)
    return found if isinstance(found, str) else ""


def _read_seconds(message: JsonObject, field: str) -> float:
    found = message.get(field)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0.0
    try:
        seconds = float(found)
    except OverflowError:
        return 0.0
    return seconds if math.isfinite(seconds) else 0.0

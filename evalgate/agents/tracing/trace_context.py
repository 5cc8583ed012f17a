"""Trace context of one turn, which the agent receives with the message.

The ids of the trace context distinguish the spans of one turn from all other spans.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

from evalgate.core.frozen import frozen

if TYPE_CHECKING:
    from evalgate.agents.tracing.trace_formats import Span


@frozen
class TurnTrace:
    """Ids of one turn. Each turn is a separate trace (W3C Trace Context)."""

    trace_id: str
    span_id: str
    session: str
    turn: int

    @property
    def traceparent(self) -> str:
        """Return the value of the header `traceparent`, with which the agent continues the trace."""
        # 01 means sampled: an SDK that follows its parent's decision would otherwise record nothing.
        return f"00-{self.trace_id}-{self.span_id}-01"

    @property
    def baggage(self) -> str:
        """Return the value of the header `baggage`, which names the conversation and the turn (W3C Baggage).

        The environment variable `OTEL_RESOURCE_ATTRIBUTES` has the same form.
        """
        return f"evalgate.session={self.session},evalgate.turn={self.turn}"

    @property
    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of a request in this turn."""
        return {"traceparent": self.traceparent, "baggage": self.baggage}

    def build_variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables to add to `environ` for a process that runs only this turn."""
        given = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        attributes = ",".join(filter(None, (given, self.baggage)))
        return {
            "TRACEPARENT": self.traceparent,
            "BAGGAGE": self.baggage,
            "OTEL_RESOURCE_ATTRIBUTES": attributes,
        }

    def owns_span(self, span: "Span") -> bool:
        """Return True if the span has this turn's trace id, or attributes that name this session and turn."""
        if span.trace_id == self.trace_id:
            return True
        return span.get_text("evalgate.session") == self.session and str(
            span.get_attribute("evalgate.turn")
        ) == str(self.turn)

    def is_top(self, span: "Span") -> bool:
        """Return True if the span has no parent among the agent's spans. Such a topmost span ends last."""
        return span.parent_id in ("", self.span_id)


def create_turn_trace(session: str, turn: int) -> TurnTrace:
    """Create the trace context of turn `turn` (from 1) of `session`, with random trace and span ids."""
    import secrets

    return TurnTrace(secrets.token_hex(16), secrets.token_hex(8), session, turn)


current_turn: ContextVar[TurnTrace | None] = ContextVar("current_turn", default=None)
"""Trace context of the turn that the calling task runs; None without a turn or without `otel`."""

is_trace_wanted: ContextVar[bool] = ContextVar("is_trace_wanted", default=False)
"""True in a task that runs cases with a trace. A session reads the value when the session is opened."""

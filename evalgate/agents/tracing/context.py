"""What a turn is called in traces: the agent gets it with the message, and its spans can be told apart."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

from evalgate.core.frozen import frozen

if TYPE_CHECKING:
    from evalgate.agents.tracing.trace_formats import Span


@frozen
class TurnTrace:
    """One turn's place in a trace of its own (W3C Trace Context)."""

    trace_id: str
    span_id: str
    session: str
    turn: int

    @property
    def traceparent(self) -> str:
        """The header that continues the trace."""
        return f"00-{self.trace_id}-{self.span_id}-01"

    @property
    def baggage(self) -> str:
        """The header that names the conversation (W3C Baggage), also the form of resource attributes."""
        return f"evalgate.session={self.session},evalgate.turn={self.turn}"

    @property
    def headers(self) -> dict[str, str]:
        """What a request carries."""
        return {"traceparent": self.traceparent, "baggage": self.baggage}

    def build_variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What a process of this turn alone carries, beside `environ`."""
        given = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        attributes = ",".join(filter(None, (given, self.baggage)))
        return {
            "TRACEPARENT": self.traceparent,
            "BAGGAGE": self.baggage,
            "OTEL_RESOURCE_ATTRIBUTES": attributes,
        }

    def owns_span(self, span: "Span") -> bool:
        """Whether a span belongs to this turn."""
        if span.trace_id == self.trace_id:
            return True
        return span.get_text("evalgate.session") == self.session and str(
            span.get_attribute("evalgate.turn")
        ) == str(self.turn)

    def is_top(self, span: "Span") -> bool:
        """Whether nothing of this turn stands above the span: it ends after all others."""
        return span.parent_id in ("", self.span_id)


def create_turn_trace(session: str, turn: int) -> TurnTrace:
    """A trace for one turn."""
    import secrets

    return TurnTrace(secrets.token_hex(16), secrets.token_hex(8), session, turn)


current_turn: ContextVar[TurnTrace | None] = ContextVar("current_turn", default=None)
"""The turn that the calling task asks for; None: nobody traces it."""

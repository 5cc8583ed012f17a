"""What the agent did with a case."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evalgate.model.said import JsonObject, Reply

Outcome: TypeAlias = Literal["answered", "crashed", "timed_out", "not_run"]
"""How one run of one case ended. `not_run`: interrupted, or the agent could not be reached at all."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run consumed, as far as the agent reports it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run has no answer. Never a score."""

    kind: str
    """A stable word: exception, exited, killed, protocol, timeout, import, interrupted, unsupported, …"""
    message: str
    """One sentence that a user understands."""
    detail: str = ""
    """Traceback or the tail of the agent's stderr, bounded."""


@dataclass(frozen=True, slots=True)
class CaseRun:
    """One run of one case, as it happened."""

    run: int
    """1-based."""
    outcome: Outcome
    replies: tuple[Reply | None, ...] = ()
    """One per turn that was played; None where a recording has none. May be longer than the case."""
    duration_s: float = 0.0
    usage: Usage | None = None
    failure: Failure | None = None
    """Set exactly when `outcome` is not `answered`."""
    final_state: JsonObject | None = None
    attempts: int = 1
    """How often the case was started: more than once when a neighbour took the worker down."""

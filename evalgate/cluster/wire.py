"""What the gate asks of an actor and what it answers, as JSON. Ray carries texts: neither side unpickles."""

from functools import cache
from typing import TYPE_CHECKING, Literal

from evalgate.frozen import frozen
from evalgate.model import EvalCase, Failure, Outcome, Reply, Usage, UserMessage
from evalgate.protocols import AgentFailed, AgentUnreachable, SessionEnd, SessionLost

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@frozen
class Beginning:
    """What a conversation begins with."""

    case: EvalCase
    run: int
    alone: bool


@frozen
class Ask:
    """One step of one conversation."""

    session: str
    """Which, unique within the run."""
    do: Literal["open", "turn", "end", "close"]
    """`end` closes it as well; `close` abandons what is under way, and is not answered."""
    beginning: Beginning | None = None
    """With the first step."""
    message: UserMessage | None = None
    """With a turn."""


@frozen
class Broke:
    """What was raised instead of an answer."""

    how: Literal["failed", "lost", "unreachable"]
    failure: Failure
    outcome: Outcome = "crashed"
    usage: Usage | None = None
    retry_after_s: float | None = None

    @classmethod
    def by(cls, error: AgentFailed | SessionLost | AgentUnreachable) -> "Broke":
        """What can be raised again from it."""
        match error:
            case AgentFailed():
                return cls("failed", error.failure, error.outcome, error.usage, error.retry_after_s)
            case SessionLost():
                return cls("lost", error.failure, error.outcome, error.usage)
            case AgentUnreachable():
                return cls("unreachable", error.failure)

    def error(self) -> AgentFailed | SessionLost | AgentUnreachable:
        """The same, to be raised here."""
        match self.how:
            case "failed":
                return AgentFailed(self.failure, self.outcome, self.usage, self.retry_after_s)
            case "lost":
                return SessionLost(self.failure, self.outcome, self.usage)
            case "unreachable":
                return AgentUnreachable(self.failure)


@frozen
class Answer:
    """What became of a step."""

    reply: Reply | None = None
    """To a turn; None: a recording holds no such turn."""
    end: SessionEnd | None = None
    applies_mocks: bool = False
    """Of the session, with the answer to its first step."""
    broke: Broke | None = None


@cache
def _asks() -> "TypeAdapter[Ask]":
    from pydantic import TypeAdapter

    return TypeAdapter(Ask)


@cache
def _answers() -> "TypeAdapter[Answer]":
    from pydantic import TypeAdapter

    return TypeAdapter(Answer)


@cache
def _brokes() -> "TypeAdapter[Broke]":
    from pydantic import TypeAdapter

    return TypeAdapter(Broke)


def dump(value: Ask | Answer | Broke) -> str:
    """One line of JSON."""
    from pydantic_core import to_json

    return to_json(value).decode()


def load_ask(text: str) -> Ask:
    """What `dump` wrote.

    Raises:
        pydantic.ValidationError: it did not: another evalgate is on the other side.
    """
    return _asks().validate_json(text, strict=True)


def load_answer(text: str) -> Answer:
    """The same."""
    return _answers().validate_json(text, strict=True)


def load_broke(text: str) -> Broke:
    """The same."""
    return _brokes().validate_json(text, strict=True)

"""Protocols of agents, their sessions, and the users who talk to them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from evalgate.core.frozen import frozen
from evalgate.core.types import (
    EvalCase,
    EvalSet,
    Failure,
    JsonObject,
    Outcome,
    Record,
    Reply,
    Usage,
    UserMessage,
)


class SimulatedUserError(Exception):
    """The user cannot go on, through no fault of the agent: the simulated one left its script or is down."""

    def __init__(self, failure: Failure, usage: Usage | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.usage = usage


class User(Protocol):
    """Who talks to the agent, in one run of one case."""

    async def get_next_message(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        """What is said after these replies of the agent; None when the conversation is over.

        Raises:
            SimulatedUserError: there is nothing to say, and that is nobody's wish.
        """
        ...

    @property
    def usage(self) -> Usage | None:
        """What it consumed so far."""
        ...


CreateUser: TypeAlias = Callable[[EvalCase, int], User]
"""Who plays the user in a case, and in which run (1-based) of it. May raise UserFailed."""


class AgentError(Exception):
    """A turn has no reply. Raised by a session; the case carries it as its outcome."""

    def __init__(
        self,
        failure: Failure,
        outcome: Outcome = "crashed",
        usage: Usage | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.outcome = outcome
        self.usage = usage
        self.retry_after_s = retry_after_s
        """Seconds after which whoever is busy wants to be asked again; None when it does not say."""


class SessionLostError(Exception):
    """The session ended through no fault that can be pinned on it: its worker died with others in flight.

    The case is started again, alone, so that only a case that brings its worker down by itself is blamed. Not
    `alone` when nothing in the worker can have done it, as when its whole machine is gone.
    """

    def __init__(
        self,
        failure: Failure,
        outcome: Outcome = "crashed",
        usage: Usage | None = None,
        *,
        alone: bool = True,
    ) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.outcome = outcome
        self.usage = usage
        self.alone = alone


class AgentUnreachableError(Exception):
    """No case can run: the agent cannot be imported, started or connected to."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@frozen
class SessionResult:
    """What a session leaves behind."""

    usage: Usage | None = None
    final_state: JsonObject | None = None
    unasked: tuple[Reply, ...] = ()
    """Turns that nobody asked for: a recording that is longer than its case."""


class AgentSession(Protocol):
    """One conversation with the agent."""

    async def run_turn(self, message: UserMessage) -> Reply | None:
        """Say `message`, wait for the whole reply. None: a recording holds no such turn.

        Cancelling the call abandons the turn.

        Raises:
            AgentError: the agent raised, exited, broke the protocol or took longer than its timeout.
            SessionLostError: the session must be started again.
            AgentUnreachableError: nothing can run.
        """
        ...

    async def end(self) -> SessionResult:
        """Close the conversation and collect what it left."""
        ...


@frozen
class AgentContext:
    """Where an agent lives: what the plan, not the agent's own section, decides."""

    folder: Path
    """Its working folder."""
    env: Mapping[str, str]
    """Its whole environment."""
    timeout: float
    """Seconds that one turn may take."""
    workers: int
    """Processes, at most."""
    concurrency: int
    """Conversations at the same time, over all workers."""
    read_recording: Callable[[str], Record | EvalSet]
    """Reads a file that can stand in for an agent."""
    python: str | None = None
    """Interpreter that runs a Python agent; None: the gate's own."""
    uid: int | None = None
    """The user that it runs as; None: the gate's own."""
    gid: int | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The gate's own environment: for placeholders in the agent's section, never handed on as a whole."""


class Agent(Protocol):
    """The repository's agent, started once per gate run. Entering it starts what it needs."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    def open_session(
        self, case: EvalCase, run: int, *, alone: bool
    ) -> AbstractAsyncContextManager[AgentSession]:
        """A fresh conversation for `case`. `alone`: nothing else shares its process while it lasts."""
        ...


class AgentOptions(Protocol):
    """The options of one kind of agent, checked."""

    def build(self, place: AgentContext) -> Agent:
        """The agent, not started yet.

        Raises:
            InvalidInputError: what the options name cannot be used.
        """
        ...


class AgentType(Protocol):
    """What the catalogue holds for a kind of agent: a pydantic model, whose fields are its own options.

    Its instances are `AgentOptions`.
    """

    named_by: str
    """The option that says what is gated: the WHAT of `--agent KIND:WHAT`."""
    model_fields: Mapping[str, object]

    def model_validate(self, obj: object) -> AgentOptions:
        """The options, checked.

        Raises:
            pydantic.ValidationError: an option is unknown or wrong.
        """
        ...

    def model_json_schema(self) -> dict[str, Any]:
        """What editors know of the options."""
        ...


@runtime_checkable
class SupportsToolMocks(Protocol):
    """A session that can put fixed results in the place of tools."""

    @property
    def applies_mocks(self) -> bool:
        """Whether it does. A case that mocks tools is not played by a session that does not."""
        ...


@runtime_checkable
class ChecksEntry(Protocol):
    """An agent that can tell, once it has been entered, that what the user named does not exist."""

    async def check_entry(self) -> None:
        """Wait until the agent can be asked, or cannot for another reason, which its sessions will tell.

        Raises:
            InvalidInputError: there is no such file, module, attribute or command.
        """
        ...


@runtime_checkable
class HasNotices(Protocol):
    """An agent that has something to say of the whole run once it is over."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Whole sentences."""
        ...


@runtime_checkable
class ProvidesUser(Protocol):
    """An agent that brings the user along: a recording knows what was asked."""

    def create_user(self, case: EvalCase, run: int) -> User:
        """Who talks to it."""
        ...

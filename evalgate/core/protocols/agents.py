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
    """The user's side of one run of one case."""

    async def get_next_message(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        """Return the next message after these replies of the agent; None if the conversation is over.

        Raises:
            SimulatedUserError: there is no next message because of a failure.
        """
        ...

    @property
    def usage(self) -> Usage | None:
        """Return the consumption so far."""
        ...


CreateUser: TypeAlias = Callable[[EvalCase, int], User]
"""Factory of the user of a case in one run (1-based) of it. May raise `SimulatedUserError`."""


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
    """Data that a session leaves behind."""

    usage: Usage | None = None
    final_state: JsonObject | None = None
    unasked: tuple[Reply, ...] = ()
    """Turns beyond the case: a recording can be longer than its case."""


class AgentSession(Protocol):
    """One conversation with the agent."""

    async def run_turn(self, message: UserMessage) -> Reply | None:
        """Send `message` and wait for the whole reply; return None if a recording has no such turn.

        Cancelling the call abandons the turn.

        Raises:
            AgentError: the agent raised, exited, broke the protocol or took longer than its timeout.
            SessionLostError: the session must be started again.
            AgentUnreachableError: nothing can run.
        """
        ...

    async def end(self) -> SessionResult:
        """Close the conversation and return its final data."""
        ...


@frozen
class AgentContext:
    """Surroundings of an agent that the plan decides, not the agent's own section."""

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
    """Reader of a file that can replace an agent."""
    python: str | None = None
    """Interpreter that runs a Python agent; None: the gate's own."""
    uid: int | None = None
    """The user that it runs as; None: the gate's own."""
    gid: int | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The gate's own environment: for placeholders in the agent's section, never handed on as a whole."""


class Agent(Protocol):
    """The repository's agent, started once per gate run. `async with` starts and stops its resources."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    def open_session(
        self, case: EvalCase, run: int, *, alone: bool
    ) -> AbstractAsyncContextManager[AgentSession]:
        """Open a fresh conversation for `case`. `alone`: nothing else shares its process meanwhile."""
        ...


class AgentOptions(Protocol):
    """The options of one kind of agent, checked."""

    def build(self, context: AgentContext) -> Agent:
        """Build the agent without starting it.

        Raises:
            InvalidInputError: the options refer to something unusable.
        """
        ...


class AgentType(Protocol):
    """Options model of a kind of agent: a pydantic model that has the kind's own options as fields.

    Its instances are `AgentOptions`.
    """

    named_by: str
    """The option that the WHAT of `--agent KIND:WHAT` sets."""
    model_fields: Mapping[str, object]

    def model_validate(self, obj: object) -> AgentOptions:
        """Validate the options.

        Raises:
            pydantic.ValidationError: an option is unknown or wrong.
        """
        ...

    def model_json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the options, for editors."""
        ...


@runtime_checkable
class SupportsToolMocks(Protocol):
    """A session that can replace tools by fixed results."""

    @property
    def applies_mocks(self) -> bool:
        """Return True if the session replaces tools; a case with tool mocks is not run otherwise."""
        ...


@runtime_checkable
class ChecksEntry(Protocol):
    """An agent that can report, once it is entered, that the named entry does not exist."""

    async def check_entry(self) -> None:
        """Wait until the agent is ready, or has failed for a reason that its sessions will report.

        Raises:
            InvalidInputError: there is no such file, module, attribute or command.
        """
        ...


@runtime_checkable
class HasNotices(Protocol):
    """An agent with notices about the whole run once it is over."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Return the notices as whole sentences."""
        ...


@runtime_checkable
class ProvidesUser(Protocol):
    """An agent that brings the user along: a recording holds the user's messages."""

    def create_user(self, case: EvalCase, run: int) -> User:
        """Return the user of one run of a case."""
        ...

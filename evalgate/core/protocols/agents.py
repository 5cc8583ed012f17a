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
    Event,
    Failure,
    JsonObject,
    Outcome,
    Record,
    Reply,
    TraceSpan,
    Usage,
    UserMessage,
)


class SimulatedUserError(Exception):
    """A failure of the user and not of the agent, such as an outage of the simulated user's model."""

    def __init__(self, failure: Failure, usage: Usage | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.usage = usage


class User(Protocol):
    """The user who talks to the agent in one run of one case: scripted, simulated or from a recording."""

    async def get_next_message(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        """Return the next message, given all replies of the agent so far; None if the conversation is over.

        `replies` has one item for each earlier message: None if the agent is a recording that lacks this
        turn.

        Raises:
            SimulatedUserError: there is no next message because of a failure.
        """
        ...

    @property
    def usage(self) -> Usage | None:
        """Return the tokens and cost, so far, of the model that plays the user; None if not known."""
        ...


CreateUser: TypeAlias = Callable[[EvalCase, int], User]
"""Function that gets a case and the number of a run (1-based), and creates the user for this run. The
function may raise `SimulatedUserError`."""


class AgentError(Exception):
    """Error of a session: a turn ended without a reply. `outcome` becomes the outcome of the run."""

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
        """Seconds that the overloaded service asks callers to wait; None if it names no time."""


class SessionLostError(Exception):
    """Loss of a session because its worker process ended. The case is then run again.

    If `alone` is True, some case may have ended the process, perhaps another one in the same process. So the
    case is run again in a process of its own. If this process ends as well, the case is to blame. If `alone`
    is False, no case can be the cause, for example because the machine was lost. Then the case is run again
    in any process.
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
    """Error for an agent that cannot be imported, started or connected to, so that no case can run."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@frozen
class SessionResult:
    """Usage and final state of a conversation, and replies of a recording after the case's last turn."""

    usage: Usage | None = None
    final_state: JsonObject | None = None
    unasked: tuple[Reply, ...] = ()
    """Replies after the last turn of the case: a recording can be longer than its case."""


class AgentSession(Protocol):
    """One conversation with the agent."""

    async def run_turn(self, message: UserMessage) -> Reply | None:
        """Send `message` and return the whole reply; None if the agent is a recording that lacks this turn.

        Cancelling the call abandons the turn.

        Raises:
            AgentError: the agent raised, exited, broke the protocol or took longer than its timeout.
            SessionLostError: the session must be started again.
            AgentUnreachableError: no case can run.
        """
        ...

    async def end(self) -> SessionResult:
        """End the conversation, and return its usage and final state. No turn may follow."""
        ...


@frozen
class AgentContext:
    """Settings that evalgate passes to an agent, in addition to the options in the section `agent`."""

    folder: Path
    """Working folder of the agent."""
    env: Mapping[str, str]
    """All environment variables that the agent gets."""
    timeout: float
    """Seconds that one turn may take."""
    workers: int
    """Largest number of worker processes."""
    concurrency: int
    """Largest number of simultaneous conversations, over all workers."""
    read_recording: Callable[[str], Record | EvalSet]
    """Function that reads the file of recorded conversations at a path; only a replaying agent calls it."""
    python: str | None = None
    """Interpreter that runs a Python agent; None: the interpreter of the gate."""
    uid: int | None = None
    """Numeric id of the user that the agent runs as; None: the user of the gate."""
    gid: int | None = None
    track_files: bool = False
    """True: the agent must note the project files that it opens (`TracksFiles`)."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The gate's own environment, for placeholders in the section `agent`. The agent never gets all of it."""


class Agent(Protocol):
    """The agent under test. `async with` starts it once for all cases, and stops it at the end.

    `AgentOptions.build` builds it. An agent in processes of its own is a `WorkerPool`, in
    agents/workers/pool.py.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    def open_session(
        self, case: EvalCase, run: int, *, alone: bool
    ) -> AbstractAsyncContextManager[AgentSession]:
        """Open a new conversation for run `run` (1-based) of `case`, as an async context manager.

        If `alone` is True, no other conversation may use the same agent process.
        """
        ...


class AgentOptions(Protocol):
    """The validated options of one kind of agent."""

    def build(self, context: AgentContext) -> Agent:
        """Build the agent without starting it.

        Raises:
            InvalidInputError: the options refer to something unusable.
        """
        ...


class AgentType(Protocol):
    """Class that validates the options of one kind of agent: a pydantic model with the options as fields.

    Its instances are `AgentOptions`.
    """

    named_by: str
    """Name of the option that gets the part WHAT of the command line's `--agent KIND:WHAT`."""
    model_fields: Mapping[str, object]

    def model_validate(self, obj: object) -> AgentOptions:
        """Return the validated options.

        Raises:
            pydantic.ValidationError: an option is unknown or wrong.
        """
        ...

    def model_json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the options, for editors."""
        ...


@runtime_checkable
class SupportsToolMocks(Protocol):
    """A session that can answer calls of tools with fixed results."""

    @property
    def applies_mocks(self) -> bool:
        """Return True if the session applies tool mocks. If False, cases with tool mocks are not run."""
        ...


@runtime_checkable
class SupportsToolRecordings(Protocol):
    """A session that can answer tool calls from a recording."""

    @property
    def applies_recordings(self) -> bool:
        """Return True if recorded results replace all tool calls, except calls of tools listed as live.

        If False, cases with a recording are not run.
        """
        ...


@runtime_checkable
class IdentifiesSession(Protocol):
    """A session that knows the ids of its conversation and user in the agent's framework or server.

    The ids are read at the end of each run, even if the run has no answer.
    """

    @property
    def session_id(self) -> str:
        """Return the id of the conversation; "" if it is not known."""
        ...

    @property
    def user_id(self) -> str:
        """Return the id of the user; "" if it is not known."""
        ...


def get_session_ids(session: object) -> tuple[str, str]:
    """Return the ids of a session and of its user; "" for an id that the session does not know."""
    # The same as `isinstance(session, IdentifiesSession)`, which takes many times as long in Python 3.11.
    if hasattr(session, "session_id") and hasattr(session, "user_id"):
        return session.session_id, session.user_id
    return "", ""


@runtime_checkable
class RecordsSpans(Protocol):
    """A session that records the timed steps of its turns, for a run with a trace."""

    def take_spans(self) -> Sequence[TraceSpan]:
        """Return the steps of the last turn, and remove them from the session.

        Times are in seconds since the turn began. The caller sets the field `turn` of the steps, and checks
        their ids, parents and sizes.
        """
        ...


@runtime_checkable
class ReportsInterimResult(Protocol):
    """A session that can report its usage and state before it ends, for display during a conversation."""

    @property
    def interim_result(self) -> SessionResult:
        """Return the usage so far, and the state after the last turn."""
        ...


@runtime_checkable
class StreamsEvents(Protocol):
    """A session that reports the events of a turn (messages, tool calls, results) while the turn lasts."""

    on_event: Callable[[Event], None] | None
    """Function that is called with each event as it arrives; None: events are not reported."""


@runtime_checkable
class ChecksEntry(Protocol):
    """A started agent that can check that its entry point (file, module, attribute or command) exists."""

    async def check_entry(self) -> None:
        """Wait until the agent is ready or has failed. Raise an error if its entry point does not exist.

        Other failures of the agent are not raised here: its sessions report them.

        Raises:
            InvalidInputError: the file, module, attribute or command does not exist.
        """
        ...


@runtime_checkable
class HasNotices(Protocol):
    """An agent with notices about the whole run for the reports. They are read after it has stopped."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Return the notices, each a whole sentence."""
        ...


@runtime_checkable
class TracksFiles(Protocol):
    """An agent that knows which files of the project it opened."""

    @property
    def opened_files(self) -> Mapping[str, tuple[str, ...]]:
        """Return a mapping of eval set id to the files that the agent opened while it ran the set's cases.

        The paths are relative to the working folder. An eval set is left out if some of its opened files are
        not known.
        """
        ...


@runtime_checkable
class ProvidesUser(Protocol):
    """An agent that also provides the user's messages, such as a recording of conversations."""

    def create_user(self, case: EvalCase, run: int) -> User:
        """Return the user of run `run` (1-based) of a case."""
        ...

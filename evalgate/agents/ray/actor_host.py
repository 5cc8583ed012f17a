"""Host of the agent in a Ray actor, and the JSON messages that it exchanges with the gate."""

import asyncio
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from evalgate.agents.factory import build_agent, resolve_agent
from evalgate.agents.tracing.trace_context import is_trace_wanted
from evalgate.config.schema.agent import AgentConfig
from evalgate.config.schema.thresholds import DEFAULT_CONFIG, Thresholds
from evalgate.core.errors import EvalgateError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import (
    Agent,
    AgentError,
    AgentSession,
    AgentUnreachableError,
    RecordsSpans,
    SessionLostError,
    SessionResult,
    SupportsToolMocks,
    SupportsToolRecordings,
    get_session_ids,
)
from evalgate.core.types import EvalCase, Failure, Outcome, Reply, TraceSpan, Usage, UserMessage
from evalgate.system.agent_environment import build_agent_environment
from evalgate.system.workspace import Workspace

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@frozen
class SessionStart:
    """Arguments of a new conversation: case, number of the run, `alone` and `trace`.

    With `alone`, no other conversation runs in the same worker of the agent.
    """

    case: EvalCase
    run: int
    alone: bool
    trace: bool = False
    """True if the session records the timed steps of its turns."""


@frozen
class ActorRequest:
    """Request of the gate for one step of a conversation: `open`, `turn`, `end` or `close`."""

    session: str
    """Key of the conversation, unique within the run."""
    do: Literal["open", "turn", "end", "close"]
    """Step to take. `end` returns the result and closes the conversation. `close` only abandons it, and the
    gate does not wait for the answer."""
    beginning: SessionStart | None = None
    """Arguments of the conversation; set only in the first request of a conversation, else None."""
    message: UserMessage | None = None
    """The user's message; set if `do` is `turn`."""


@frozen
class ActorFailure:
    """An error that the agent raised, in a form that JSON can hold."""

    how: Literal["failed", "lost", "unreachable"]
    """Class of the error: `AgentError` (failed), `SessionLostError` or `AgentUnreachableError`."""
    failure: Failure
    outcome: Outcome = "crashed"
    usage: Usage | None = None
    retry_after_s: float | None = None
    alone: bool = True
    """Attribute `alone` of a `SessionLostError`: True if the case must start again in a separate worker."""

    @classmethod
    def from_error(cls, error: AgentError | SessionLostError | AgentUnreachableError) -> "ActorFailure":
        """Convert an error to an `ActorFailure`; `to_error` converts it back."""
        match error:
            case AgentError():
                return cls("failed", error.failure, error.outcome, error.usage, error.retry_after_s)
            case SessionLostError():
                return cls("lost", error.failure, error.outcome, error.usage, alone=error.alone)
            case AgentUnreachableError():
                return cls("unreachable", error.failure)

    def to_error(self) -> AgentError | SessionLostError | AgentUnreachableError:
        """Return an error of the original class and with the same attributes, for the gate to raise."""
        match self.how:
            case "failed":
                return AgentError(self.failure, self.outcome, self.usage, self.retry_after_s)
            case "lost":
                return SessionLostError(self.failure, self.outcome, self.usage, alone=self.alone)
            case "unreachable":
                return AgentUnreachableError(self.failure)


@frozen
class ActorResponse:
    """Answer of an actor to one `ActorRequest`."""

    reply: Reply | None = None
    """Reply to a turn; None for any other request, and for a turn without a reply in a replayed recording."""
    end: SessionResult | None = None
    applies_mocks: bool = False
    """True if the session can answer the agent's tool calls with the case's mocks."""
    applies_recordings: bool = False
    """True if the session can answer the agent's tool calls from a recording."""
    failure: ActorFailure | None = None
    ids: tuple[str, str] = ("", "")
    """Ids of the conversation and of its user; "" for an unknown id, and for both once the session ended."""
    spans: tuple[TraceSpan, ...] = ()
    """Timed steps of the turn; empty if no trace is recorded."""


@cache
def _get_adapter(kind: type) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def dump_message(value: ActorRequest | ActorResponse | ActorFailure) -> str:
    """Return a message as one line of JSON."""
    from pydantic_core import to_json

    return to_json(value).decode()


def load_request(text: str) -> ActorRequest:
    """Parse an `ActorRequest` from JSON of `dump_message`.

    Raises:
        pydantic.ValidationError: the JSON is not valid, for example from another version of evalgate.
    """
    found: ActorRequest = _get_adapter(ActorRequest).validate_json(text, strict=True)
    return found


def load_response(text: str) -> ActorResponse:
    """Parse an `ActorResponse` from JSON of `dump_message`.

    Raises:
        pydantic.ValidationError: the JSON is not valid, for example from another version of evalgate.
    """
    found: ActorResponse = _get_adapter(ActorResponse).validate_json(text, strict=True)
    return found


def load_failure(text: str) -> ActorFailure:
    """Parse an `ActorFailure` from JSON of `dump_message`.

    Raises:
        pydantic.ValidationError: the JSON is not valid, for example from another version of evalgate.
    """
    found: ActorFailure = _get_adapter(ActorFailure).validate_json(text, strict=True)
    return found


@frozen
class ActorSpec:
    """Description of the agent for an actor. It holds only data that the agent may see."""

    section: Mapping[str, object]
    """The `agent` section of the thresholds file."""
    agent_name: str
    """Name of the agent in reports. It takes the place of the option in `section` that names the agent."""
    folder: str | None
    """Working folder; None: the folder that Ray sent to the node, which is the actor's current folder."""
    environ: Mapping[str, str]
    """Environment variables that the gate passes to the agent."""
    is_gates_machine: bool
    """True if the actor is on the gate's machine.

    The agent then gets `environ` alone. On another node, `environ` overrides the node's own variables.
    """
    owner: tuple[int, int] | None = None
    """User id and group id of the agent's processes; None: those of the actor."""

    def to_json(self) -> str:
        """Return the description as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ActorSpec":
        """Parse the JSON that `to_json` returned."""
        found = json.loads(text)
        owner = found.pop("owner")
        return cls(**found, owner=None if owner is None else (owner[0], owner[1]))

    def build_agent(self) -> Agent:
        """Install the agent's dependencies, and build the agent without starting it.

        Raises:
            EvalgateError: the options of the agent are wrong, or the setup fails.
        """
        folder = Path(self.folder or Path.cwd())
        config = AgentConfig.model_validate(self.section)
        own = {} if self.is_gates_machine else build_agent_environment(os.environ, ())
        spec = resolve_agent(config, self.agent_name, Thresholds(DEFAULT_CONFIG, folder))
        with _lock_setup() if config.setup else nullcontext():
            return build_agent(spec, Workspace(folder, self.owner), {**own, **self.environ})


@contextmanager
def _lock_setup() -> Iterator[None]:
    """Hold a file lock in the `with` block, because all actors of a machine install into the same folder."""
    path = Path(tempfile.gettempdir()) / f"evalgate-setup-{os.geteuid()}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


_ABANDONED = ActorResponse(
    failure=ActorFailure("failed", Failure("interrupted", "nobody asks any more"), "not_run")
)


class _OpenSession:
    """An open conversation, and the context manager that closes it."""

    def __init__(self, context: AbstractAsyncContextManager[AgentSession], session: AgentSession) -> None:
        self.context = context
        self.session = session


class ActorHost:
    """Host of the agent in one actor. The agent and its conversations run in one event loop."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._open: dict[str, _OpenSession] = {}
        self._tasks: dict[str, asyncio.Task[ActorResponse]] = {}

    @classmethod
    async def start_host(cls, spec: str) -> "ActorHost | ActorFailure":
        """Build the agent from `spec`, the JSON of an `ActorSpec`, start it, and return its host.

        Return a failure if the agent cannot be built or started.
        """
        try:
            agent = await asyncio.to_thread(ActorSpec.from_json(spec).build_agent)
            return await cls(agent).__aenter__()
        except EvalgateError as error:
            return ActorFailure("unreachable", Failure("start", str(error)))

    async def __aenter__(self) -> Self:
        await self._agent.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close all conversations, then the agent."""
        for session in [*self._open, *self._tasks]:
            await self._close_session(session)
        await self._agent.__aexit__(*exc)

    async def handle_request(self, text: str) -> str:
        """Answer an `ActorRequest` with an `ActorResponse`, both JSON.

        Errors that the agent raises are returned in `ActorResponse.failure`.

        Raises:
            pydantic.ValidationError: the request is not valid, for example from another version of evalgate.
        """
        request = load_request(text)
        if request.do == "close":
            await self._close_session(request.session)
            return dump_message(ActorResponse())
        task = asyncio.create_task(self._run_request(request))
        self._tasks[request.session] = task
        # Not `await task`: the gate may close the session meanwhile, and the cancelled task is answered, too.
        await asyncio.wait([task])
        if self._tasks.get(request.session) is task:
            del self._tasks[request.session]
        return dump_message(_ABANDONED if task.cancelled() else task.result())

    async def _run_request(self, request: ActorRequest) -> ActorResponse:
        answer = await self._answer_request(request)
        opened = self._open.get(request.session)
        if opened is None:
            return answer
        session: object = opened.session
        spans = tuple(session.take_spans()) if isinstance(session, RecordsSpans) else ()
        return replace(answer, ids=get_session_ids(session), spans=spans)

    async def _answer_request(self, request: ActorRequest) -> ActorResponse:
        try:
            return await self._run_step(request)
        except (AgentError, SessionLostError, AgentUnreachableError) as error:
            return ActorResponse(failure=ActorFailure.from_error(error))
        except Exception as error:  # noqa: BLE001  an agent plugin with a bug fails its case, not the run
            return ActorResponse(failure=ActorFailure("failed", Failure.from_plugin(error)))

    async def _run_step(self, request: ActorRequest) -> ActorResponse:
        if (start := request.beginning) is not None:
            is_trace_wanted.set(start.trace)
            context = self._agent.open_session(start.case, start.run, alone=start.alone)
            self._open[request.session] = _OpenSession(context, await context.__aenter__())
        session = self._open[request.session].session
        mocks = isinstance(session, SupportsToolMocks) and session.applies_mocks
        recordings = isinstance(session, SupportsToolRecordings) and session.applies_recordings
        answer = ActorResponse(applies_mocks=mocks, applies_recordings=recordings)
        if request.message is not None:
            return replace(answer, reply=await session.run_turn(request.message))
        if request.do == "end":
            end = await session.end()
            await self._leave_session(request.session)
            return ActorResponse(end=end)
        return answer

    async def _close_session(self, key: str) -> None:
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._leave_session(key)

    async def _leave_session(self, key: str) -> None:
        session = self._open.pop(key, None)
        if session is not None:
            await session.context.__aexit__(None, None, None)

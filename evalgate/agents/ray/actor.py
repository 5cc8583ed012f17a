"""What an actor does, and the JSON that it exchanges with the gate."""

import asyncio
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from evalgate.agents.factory import build_agent, resolve_agent
from evalgate.config.schema.agent import AgentConfig
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core.errors import EvalgateError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import (
    Agent,
    AgentError,
    AgentSession,
    AgentUnreachableError,
    SessionLostError,
    SessionResult,
    SupportsToolMocks,
)
from evalgate.core.types import EvalCase, Failure, Outcome, Reply, Usage, UserMessage
from evalgate.core.types.conversation import build_plugin_failure
from evalgate.system.workspace import Workspace, build_agent_environment

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@frozen
class SessionStart:
    """What a conversation begins with."""

    case: EvalCase
    run: int
    alone: bool


@frozen
class ActorRequest:
    """One step of one conversation."""

    session: str
    """Which, unique within the run."""
    do: Literal["open", "turn", "end", "close"]
    """`end` closes it as well; `close` abandons what is under way, and is not answered."""
    beginning: SessionStart | None = None
    """With the first step."""
    message: UserMessage | None = None
    """With a turn."""


@frozen
class ActorFailure:
    """What was raised instead of an answer."""

    how: Literal["failed", "lost", "unreachable"]
    failure: Failure
    outcome: Outcome = "crashed"
    usage: Usage | None = None
    retry_after_s: float | None = None

    @classmethod
    def from_error(cls, error: AgentError | SessionLostError | AgentUnreachableError) -> "ActorFailure":
        """What can be raised again from it."""
        match error:
            case AgentError():
                return cls("failed", error.failure, error.outcome, error.usage, error.retry_after_s)
            case SessionLostError():
                return cls("lost", error.failure, error.outcome, error.usage)
            case AgentUnreachableError():
                return cls("unreachable", error.failure)

    def to_error(self) -> AgentError | SessionLostError | AgentUnreachableError:
        """The same, to be raised here."""
        match self.how:
            case "failed":
                return AgentError(self.failure, self.outcome, self.usage, self.retry_after_s)
            case "lost":
                return SessionLostError(self.failure, self.outcome, self.usage)
            case "unreachable":
                return AgentUnreachableError(self.failure)


@frozen
class ActorResponse:
    """What became of a step."""

    reply: Reply | None = None
    """To a turn; None: a recording holds no such turn."""
    end: SessionResult | None = None
    applies_mocks: bool = False
    """Of the session, with the answer to its first step."""
    broke: ActorFailure | None = None


@cache
def _get_request_adapter() -> "TypeAdapter[ActorRequest]":
    from pydantic import TypeAdapter

    return TypeAdapter(ActorRequest)


@cache
def _get_response_adapter() -> "TypeAdapter[ActorResponse]":
    from pydantic import TypeAdapter

    return TypeAdapter(ActorResponse)


@cache
def _get_failure_adapter() -> "TypeAdapter[ActorFailure]":
    from pydantic import TypeAdapter

    return TypeAdapter(ActorFailure)


def dump_message(value: ActorRequest | ActorResponse | ActorFailure) -> str:
    """One line of JSON."""
    from pydantic_core import to_json

    return to_json(value).decode()


def load_request(text: str) -> ActorRequest:
    """What `dump_message` wrote.

    Raises:
        pydantic.ValidationError: it did not: another evalgate is on the other side.
    """
    return _get_request_adapter().validate_json(text, strict=True)


def load_response(text: str) -> ActorResponse:
    """The same."""
    return _get_response_adapter().validate_json(text, strict=True)


def load_failure(text: str) -> ActorFailure:
    """The same."""
    return _get_failure_adapter().validate_json(text, strict=True)


@frozen
class ActorSpec:
    """What an actor is told about the agent. Holds what the agent may know of the gate, and no more."""

    section: Mapping[str, object]
    """The thresholds file's `agent`."""
    what: str
    """What is gated, where the command line says so."""
    folder: str | None
    """The working folder; None: the one that Ray brought, where the actor was started."""
    environ: Mapping[str, str]
    """Variables of the gate's machine."""
    is_gates_machine: bool
    """Whether `environ` is all that there is; else it goes before what the node has of its own."""
    owner: tuple[int, int] | None = None
    """See `Workspace.owner`."""

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ActorSpec":
        """What `dump_message` wrote."""
        found = json.loads(text)
        owner = found.pop("owner")
        return cls(**found, owner=None if owner is None else (owner[0], owner[1]))

    def build_agent(self) -> Agent:
        """The agent, installed and not started.

        Raises:
            EvalgateError: as `resolve_agent` and `build_agent`.
        """
        folder = Path(self.folder or Path.cwd())
        config = AgentConfig.model_validate(self.section)
        own = {} if self.is_gates_machine else build_agent_environment(os.environ, ())
        chosen = resolve_agent(config, self.what, Thresholds(Config(), folder))
        with _lock_setup() if config.setup else _skip_lock():
            return build_agent(chosen, Workspace(folder, self.owner), {**own, **self.environ})


@contextmanager
def _skip_lock() -> Iterator[None]:
    yield


@contextmanager
def _lock_setup() -> Iterator[None]:
    """Actors of one node install into the same place."""
    path = Path(tempfile.gettempdir()) / f"evalgate-setup-{os.geteuid()}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


_ABANDONED = ActorResponse(
    broke=ActorFailure("failed", Failure("interrupted", "nobody asks any more"), "not_run")
)


class _OpenSession:
    """A conversation that is held here."""

    def __init__(self, place: AbstractAsyncContextManager[AgentSession], session: AgentSession) -> None:
        self.place = place
        self.session = session


class ActorHost:
    """The agent of one actor. Everything in one event loop."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._held: dict[str, _OpenSession] = {}
        self._working: dict[str, asyncio.Task[ActorResponse]] = {}

    @classmethod
    async def start_host(cls, spec: str) -> "ActorHost | ActorFailure":
        """The host of the agent that `ActorSpec.to_json` describes, or why there is none."""
        try:
            agent = await asyncio.to_thread(ActorSpec.from_json(spec).build_agent)
        except EvalgateError as error:
            return ActorFailure("unreachable", Failure("start", str(error)))
        return await cls(agent).__aenter__()

    async def __aenter__(self) -> Self:
        await self._agent.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Abandon what is held; as the agent's own context ends."""
        for session in [*self._held, *self._working]:
            await self._close_session(session)
        await self._agent.__aexit__(*exc)

    async def handle_request(self, text: str) -> str:
        """Answer an `ActorRequest` with an `ActorResponse`, both JSON; never raise the agent's errors."""
        ask = load_request(text)
        if ask.do == "close":
            await self._close_session(ask.session)
            return dump_message(ActorResponse())
        task = asyncio.create_task(self._run_request(ask))
        self._working[ask.session] = task
        await asyncio.wait([task])
        if self._working.get(ask.session) is task:
            del self._working[ask.session]
        return dump_message(_ABANDONED if task.cancelled() else task.result())

    async def _run_request(self, ask: ActorRequest) -> ActorResponse:
        try:
            return await self._run_step(ask)
        except (AgentError, SessionLostError, AgentUnreachableError) as error:
            return ActorResponse(broke=ActorFailure.from_error(error))
        except Exception as error:  # noqa: BLE001  an agent plugin with a bug fails its case, not the run
            return ActorResponse(broke=ActorFailure("failed", build_plugin_failure(error)))

    async def _run_step(self, ask: ActorRequest) -> ActorResponse:
        if ask.beginning is not None:
            await self._open_session(ask.session, ask.beginning)
        held = self._held[ask.session].session
        mocks = isinstance(held, SupportsToolMocks) and held.applies_mocks
        if ask.message is not None:
            return ActorResponse(await held.run_turn(ask.message), applies_mocks=mocks)
        if ask.do == "end":
            end = await held.end()
            await self._leave_session(ask.session)
            return ActorResponse(end=end)
        return ActorResponse(applies_mocks=mocks)

    async def _open_session(self, key: str, beginning: SessionStart) -> None:
        place = self._agent.open_session(beginning.case, beginning.run, alone=beginning.alone)
        self._held[key] = _OpenSession(place, await place.__aenter__())

    async def _close_session(self, key: str) -> None:
        task = self._working.pop(key, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._leave_session(key)

    async def _leave_session(self, key: str) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            await held.place.__aexit__(None, None, None)

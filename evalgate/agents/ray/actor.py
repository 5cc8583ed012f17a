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

from evalgate.agents.factory import built_agent, choose_agent
from evalgate.config.schema.agent import AgentConfig
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core.errors import EvalgateError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import (
    Agent,
    AgentFailed,
    AgentSession,
    AgentUnreachable,
    AppliesMocks,
    SessionEnd,
    SessionLost,
)
from evalgate.core.types import EvalCase, Failure, Outcome, Reply, Usage, UserMessage
from evalgate.core.types.conversation import bug
from evalgate.system.workspace import Workspace, agent_environment

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


@frozen
class HostSpec:
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

    def dump(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "HostSpec":
        """What `dump` wrote."""
        found = json.loads(text)
        owner = found.pop("owner")
        return cls(**found, owner=None if owner is None else (owner[0], owner[1]))

    def build(self) -> Agent:
        """The agent, installed and not started.

        Raises:
            EvalgateError: as `choose_agent` and `built_agent`.
        """
        folder = Path(self.folder or Path.cwd())
        config = AgentConfig.model_validate(self.section)
        own = {} if self.is_gates_machine else agent_environment(os.environ, ())
        chosen = choose_agent(config, self.what, Thresholds(Config(), folder))
        with _one_at_a_time() if config.setup else _at_once():
            return built_agent(chosen, Workspace(folder, self.owner), {**own, **self.environ})


@contextmanager
def _at_once() -> Iterator[None]:
    yield


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Actors of one node install into the same place."""
    path = Path(tempfile.gettempdir()) / f"evalgate-setup-{os.geteuid()}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


_ABANDONED = Answer(broke=Broke("failed", Failure("interrupted", "nobody asks any more"), "not_run"))


class _Held:
    """A conversation that is held here."""

    def __init__(self, place: AbstractAsyncContextManager[AgentSession], session: AgentSession) -> None:
        self.place = place
        self.session = session


class Host:
    """The agent of one actor. Everything in one event loop."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._held: dict[str, _Held] = {}
        self._working: dict[str, asyncio.Task[Answer]] = {}

    @classmethod
    async def started(cls, spec: str) -> "Host | Broke":
        """The host of the agent that `HostSpec.dump` describes, or why there is none."""
        try:
            agent = await asyncio.to_thread(HostSpec.load(spec).build)
        except EvalgateError as error:
            return Broke("unreachable", Failure("start", str(error)))
        return await cls(agent).__aenter__()

    async def __aenter__(self) -> Self:
        await self._agent.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Abandon what is held; as the agent's own context ends."""
        for session in [*self._held, *self._working]:
            await self._close(session)
        await self._agent.__aexit__(*exc)

    async def answer(self, text: str) -> str:
        """Take a step: JSON of an `Ask` in, of an `Answer` out; never raises what the agent raised."""
        ask = load_ask(text)
        if ask.do == "close":
            await self._close(ask.session)
            return dump(Answer())
        task = asyncio.create_task(self._answered(ask))
        self._working[ask.session] = task
        await asyncio.wait([task])
        if self._working.get(ask.session) is task:
            del self._working[ask.session]
        return dump(_ABANDONED if task.cancelled() else task.result())

    async def _answered(self, ask: Ask) -> Answer:
        try:
            return await self._step(ask)
        except (AgentFailed, SessionLost, AgentUnreachable) as error:
            return Answer(broke=Broke.by(error))
        except Exception as error:  # noqa: BLE001  an agent plugin with a bug fails its case, not the run
            return Answer(broke=Broke("failed", bug(error)))

    async def _step(self, ask: Ask) -> Answer:
        if ask.beginning is not None:
            await self._open(ask.session, ask.beginning)
        held = self._held[ask.session].session
        mocks = isinstance(held, AppliesMocks) and held.applies_mocks
        if ask.message is not None:
            return Answer(await held.turn(ask.message), applies_mocks=mocks)
        if ask.do == "end":
            end = await held.end()
            await self._leave(ask.session)
            return Answer(end=end)
        return Answer(applies_mocks=mocks)

    async def _open(self, key: str, beginning: Beginning) -> None:
        place = self._agent.session(beginning.case, beginning.run, alone=beginning.alone)
        self._held[key] = _Held(place, await place.__aenter__())

    async def _close(self, key: str) -> None:
        task = self._working.pop(key, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._leave(key)

    async def _leave(self, key: str) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            await held.place.__aexit__(None, None, None)

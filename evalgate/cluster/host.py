"""What an actor does: build the agent, and hold the conversations that the gate asks for."""

import asyncio
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Self

from evalgate.builtagent import built_agent
from evalgate.chosenagent import choose_agent
from evalgate.cluster.wire import Answer, Ask, Beginning, Broke, dump, load_ask
from evalgate.config import AgentConfig, Config, Thresholds
from evalgate.errors import EvalgateError
from evalgate.frozen import frozen
from evalgate.model import Failure
from evalgate.playing import bug
from evalgate.protocols import Agent, AgentFailed, AgentSession, AgentUnreachable, AppliesMocks, SessionLost
from evalgate.system.environment import agent_environment
from evalgate.system.workspace import Workspace


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

"""A fake cluster in this process. Its actors run real hosts, and a test can make them fail."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Self

from evalgate.agents.ray.actor_host import ActorHost
from evalgate.agents.ray.actor_pool import ClusterAgent, ClusterLimits
from evalgate.agents.ray.bridge_client import ActorListener
from evalgate.core.protocols import Agent, SessionResult
from evalgate.core.types import EvalCase, Failure, Reply, UserMessage


class FakeLink:
    """A `ClusterClient` with fake actors. `make` creates the agent of each actor."""

    def __init__(self, make: Callable[[int], Agent], *, refuses: bool = False, has_room: bool = True) -> None:
        """Create the client. If `refuses`, no actor can start. If not `has_room`, actors wait for ever to start."""
        self.hosts: dict[int, ActorHost] = {}
        self.asked: dict[int, list[str]] = {}
        """The `do` of each request, in order, by number of the actor."""
        self.left: bool | None = None
        """The argument `gently` of `leave_cluster`; None if that was not called yet."""
        self.watcher: ActorListener | None = None
        self._make = make
        self._refuses = refuses
        self.has_room = has_room
        self._tasks: set[asyncio.Task[None]] = set()

    async def join_cluster(self, watcher: ActorListener) -> str:
        self.watcher = watcher
        return "the cluster has 2 CPU, and each worker wants 1 CPU"

    def add_actor(self, number: int) -> None:
        if self.has_room:
            self._spawn(self._start(number))

    def ask_actor(self, number: int, key: int, body: str) -> None:
        self._spawn(self._answer(number, key, body))

    def kill_actor(self, number: int) -> None:
        self.hosts.pop(number, None)

    async def leave_cluster(self, *, gently: bool) -> None:
        self.left = gently
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def lose(self, number: int, why: str = "ActorDiedError: The actor died.\nA long essay.") -> None:
        """Report an actor as lost, as if its node was switched off."""
        self.hosts.pop(number, None)
        assert self.watcher is not None
        self.watcher.on_lost(number, why)

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, number: int) -> None:
        assert self.watcher is not None
        if self._refuses:
            self.watcher.on_lost(number, "RuntimeEnvSetupError: no space left")
            return
        self.hosts[number] = await ActorHost(self._make(number)).__aenter__()
        self.watcher.on_ready(number)

    async def _answer(self, number: int, key: int, body: str) -> None:
        host = self.hosts.get(number)
        if host is None:
            return
        self.asked.setdefault(number, []).append(json.loads(body)["do"])
        answer = await host.handle_request(body)
        if number in self.hosts and self.watcher is not None:
            self.watcher.on_answer(key, answer)


class Scripted:
    """An agent, and its own session, that answers with `reply(text)`."""

    applies_mocks = True

    def __init__(self, reply: Callable[[str], str] = str.upper, gate: asyncio.Event | None = None) -> None:
        self._reply = reply
        self._gate = gate
        self.open = 0
        self.session_id, self.user_id = "s-1", "ada"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> "_Talk":
        return _Talk(self)

    async def run_turn(self, message: UserMessage) -> Reply:
        if self._gate is not None:
            await self._gate.wait()
        return Reply(self._reply(message.text))

    async def end(self) -> SessionResult:
        return SessionResult(final_state={"done": True})


class _Talk:
    def __init__(self, agent: Scripted) -> None:
        self._agent = agent

    async def __aenter__(self) -> Scripted:
        self._agent.open += 1
        return self._agent

    async def __aexit__(self, *exc: object) -> None:
        self._agent.open -= 1


def build_cluster_agent(link: FakeLink, *, workers: int = 1, start_timeout_s: float = 30) -> ClusterAgent:
    return ClusterAgent(link, ClusterLimits(workers=workers, timeout_s=10, start_timeout_s=start_timeout_s))


def fail_with(error: Exception) -> Callable[[str], str]:
    """Return a reply function that raises `error`."""

    def reply(text: str) -> str:
        raise error

    return reply


A_FAILURE = Failure("exception", "ValueError: no such order", "Traceback …")

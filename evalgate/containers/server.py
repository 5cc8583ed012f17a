"""One container that listens, as long as it lives, and how it ended."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalgate.containers import daemon
from evalgate.containers.spec import ContainerSpec
from evalgate.model import Failure
from evalgate.protocols import AgentUnreachable
from evalgate.remote.agent import RemoteAgent

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_ADDRESS_S = 10.0
_POLL_S = 0.05
_LOOK_S = 0.5
_DYING_S = 1.0
# The daemon hears of the end of a process after whoever was connected to it does.
_DEAD_S = 15.0
# On a busy machine much later. So long, a server that does not answer either may have ended.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """How a container that listens is made."""

    client: "DockerClient"
    image: str
    spec: ContainerSpec
    port: int
    """Where it listens in the container."""
    agent_at: Callable[[str], RemoteAgent]
    """The agent, once its URL is known."""


class ContainedServer:
    """A container that listens, from `start` to `stop`."""

    def __init__(self, plan: ServerPlan) -> None:
        self.busy = 0
        """Turns in progress."""
        self.crowd = 0
        """How many were when a connection broke."""
        self.gone: Failure | None = None
        """How the container ended, once it is known that it did."""
        self._plan = plan
        self._container: Container | None = None
        self._agent: RemoteAgent | None = None
        self._looking: asyncio.Task[Failure | None] | None = None

    @property
    def agent(self) -> RemoteAgent:
        """What is asked."""
        if self._agent is None:
            raise RuntimeError("the container was not started")
        return self._agent

    async def start(self) -> None:
        """Make the container and wait until its server answers.

        Raises:
            AgentUnreachable: it does not; with the end of the container's log.
        """
        making = asyncio.ensure_future(asyncio.to_thread(self._make))
        try:
            await asyncio.shield(making)
            agent = self._plan.agent_at(f"http://{await self._address()}")
            self._agent = await agent.__aenter__()
            await self._until_ready(agent)
        except AgentUnreachable as error:
            failure = replace(error.failure, detail=error.failure.detail or await self.log())
            await self.stop()
            raise AgentUnreachable(failure) from None
        except BaseException:
            await asyncio.wait([making])
            await self.stop()
            raise

    async def stop(self) -> None:
        """Remove the container."""
        if self._looking is not None:
            await asyncio.wait([self._looking])
        agent, self._agent = self._agent, None
        try:
            if agent is not None:
                await agent.__aexit__(None, None, None)
        finally:
            container, self._container = self._container, None
            if container is not None:
                await asyncio.to_thread(daemon.remove, container)

    async def log(self) -> str:
        """The end of what the container wrote."""
        return "" if self._container is None else await asyncio.to_thread(daemon.tail, self._container)

    async def ending(self) -> Failure | None:
        """Whether the container has ended, or does in this moment, and how; None: it goes on."""
        self.crowd = max(self.crowd, self.busy)
        if self._looking is None or (self._looking.done() and self.gone is None):
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    async def _look(self) -> Failure | None:
        clock = asyncio.get_running_loop().time
        began = clock()
        while (ended := await asyncio.to_thread(self._how_it_ended)) is None:
            if not await self._may_be_dying(clock() - began):
                break
            await asyncio.sleep(_POLL_S)
        if ended is None:
            self.crowd = 0
        else:
            self.gone = replace(ended, detail=await self.log())
        return self.gone

    async def _may_be_dying(self, seconds: float) -> bool:
        """Whether the daemon may merely not have heard of the end, so long after a connection broke."""
        return seconds < _DYING_S or (seconds < _DEAD_S and not await self.agent.answers())

    def _make(self) -> None:
        plan = self._plan
        self._container = daemon.create(plan.client, plan.image, plan.spec)
        daemon.start(self._container)

    async def _address(self) -> str:
        end = asyncio.get_running_loop().time() + _ADDRESS_S
        while self._container is not None and asyncio.get_running_loop().time() < end:
            if address := await asyncio.to_thread(daemon.address_of, self._container, self._plan.port):
                return address
            await self._check_lives()
            await asyncio.sleep(_POLL_S)
        raise AgentUnreachable(Failure("start", "the agent's container has no address: it has no network"))

    async def _until_ready(self, agent: RemoteAgent) -> None:
        ready = asyncio.ensure_future(agent.ready())
        try:
            while not ready.done():
                await asyncio.wait([ready], timeout=_LOOK_S)
                if not ready.done():
                    await self._check_lives()
            ready.result()
        finally:
            ready.cancel()
            await asyncio.wait([ready])

    async def _check_lives(self) -> None:
        ended = await asyncio.to_thread(self._how_it_ended)
        if ended is not None:
            raise AgentUnreachable(
                replace(ended, kind="start", message=f"{ended.message} before it answered")
            )

    def _how_it_ended(self) -> Failure | None:
        import docker.errors

        container = self._container
        if container is None:
            return None
        try:
            container.reload()
        except docker.errors.NotFound:
            return Failure("exited", "the agent's container was removed by somebody else")
        except (docker.errors.APIError, OSError):
            return None  # the daemon does not tell
        state = container.attrs["State"]
        if state["Status"] not in {"exited", "dead"}:
            return None
        if state.get("OOMKilled"):
            return Failure("killed", "the agent's container exceeded its memory limit and was killed")
        return Failure("exited", f"the agent's container ended with exit code {state['ExitCode']}")

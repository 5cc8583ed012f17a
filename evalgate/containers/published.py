"""Agents that are a server in a container: one container, asked over HTTP at its port."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from evalgate.containers import daemon
from evalgate.containers.spec import ContainerSpec
from evalgate.model import EvalCase, Failure, Reply, UserMessage
from evalgate.protocols import AgentFailed, AgentUnreachable, SessionEnd
from evalgate.remote.agent import RemoteAgent, RemoteSession

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_ADDRESS_S = 10.0
_POLL_S = 0.05


class PublishedAgent:
    """An `Agent` that listens in a container."""

    def __init__(self, spec: ContainerSpec, port: int, agent_at: Callable[[str], RemoteAgent]) -> None:
        """Nothing is started yet.

        Args:
            spec: The container.
            port: Where the server listens in it.
            agent_at: The agent, once its URL is known.
        """
        self._spec = spec
        self._port = port
        self._agent_at = agent_at
        self._client: DockerClient | None = None
        self._container: Container | None = None
        self._agent: RemoteAgent | None = None
        self._refusal: AgentUnreachable | None = None

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self._start))
        try:
            await asyncio.shield(starting)
            self._agent = self._agent_at(f"http://{await self._address()}")
            await self._agent.__aenter__()
        except AgentUnreachable as error:
            self._refusal = await self._with_log(error)
        except BaseException:
            await asyncio.wait([starting])
            await self._remove()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            if self._agent is not None:
                await self._agent.__aexit__(*exc)
        finally:
            await self._remove()

    def session(self, case: EvalCase, run: int, *, alone: bool) -> "_Place":
        """See `Agent.session`."""
        if self._refusal is not None:
            raise self._refusal
        if self._agent is None or self._container is None:
            raise RuntimeError("the agent was not entered")
        return _Place(self._agent.session(case, run, alone=alone), self._container)

    def _start(self) -> None:
        self._client, image = daemon.prepared(self._spec)
        self._container = daemon.create(self._client, image, self._spec)
        daemon.start(self._container)

    async def _address(self) -> str:
        end = asyncio.get_running_loop().time() + _ADDRESS_S
        while self._container is not None and asyncio.get_running_loop().time() < end:
            if address := await asyncio.to_thread(daemon.address_of, self._container, self._port):
                return address
            await asyncio.sleep(_POLL_S)
        raise AgentUnreachable(
            Failure("start", "the agent's container has no address: it ended, or has no network")
        )

    async def _with_log(self, error: AgentUnreachable) -> AgentUnreachable:
        if self._container is None:
            return error
        log = await asyncio.to_thread(daemon.tail, self._container)
        return AgentUnreachable(replace(error.failure, detail=error.failure.detail or log))

    async def _remove(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            await asyncio.to_thread(daemon.remove, container)
        if self._client is not None:
            self._client.close()


class _Place:
    """One conversation; what fails carries the end of the container's log."""

    def __init__(self, inner: RemoteSession, container: "Container") -> None:
        self._inner = inner
        self._container = container

    async def __aenter__(self) -> Self:
        try:
            await self._inner.__aenter__()
        except AgentUnreachable as error:
            raise AgentUnreachable(await self._with_log(error.failure)) from None
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        await self._inner.__aexit__(kind, *exc)

    @property
    def applies_mocks(self) -> bool:
        """See `AppliesMocks`."""
        return self._inner.applies_mocks

    async def turn(self, message: UserMessage) -> Reply:
        """See `AgentSession.turn`."""
        try:
            return await self._inner.turn(message)
        except AgentFailed as error:
            failure = await self._with_log(error.failure)
            raise AgentFailed(failure, error.outcome, error.usage, error.retry_after_s) from None

    async def end(self) -> SessionEnd:
        """See `AgentSession.end`."""
        return await self._inner.end()

    async def _with_log(self, failure: Failure) -> Failure:
        log = await asyncio.to_thread(daemon.tail, self._container)
        parts = [failure.detail, log and f"The container's log:\n{log}"]
        return replace(failure, detail="\n".join(filter(None, parts)))

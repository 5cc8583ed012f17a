"""Agents that are a server in a container, asked over HTTP at its port.

There is one container for all conversations, and another when it ends. Which of several conversations ended
it, nobody can tell: each is lost, and begun again in a container of its own.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Self

from evalgate.containers import daemon
from evalgate.containers.server import ContainedServer, ServerPlan
from evalgate.containers.spec import ContainerSpec
from evalgate.model import EvalCase, Failure, Reply, UserMessage
from evalgate.protocols import AgentFailed, AgentUnreachable, SessionEnd, SessionLost
from evalgate.remote.agent import RemoteAgent, RemoteSession

_ISOLATED = 4
"""Containers for single conversations, at the same time."""
_BROKEN = frozenset({"connection", "unavailable"})
"""Kinds of failures after which the container may be gone."""


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
        self._plan: ServerPlan | None = None
        self._shared: ContainedServer | None = None
        self._servers: set[ContainedServer] = set()
        self._replacing = asyncio.Lock()
        self._isolated = asyncio.Semaphore(_ISOLATED)
        self._refusal: AgentUnreachable | None = None

    async def __aenter__(self) -> Self:
        preparing = asyncio.ensure_future(asyncio.to_thread(self._prepare))
        try:
            await asyncio.shield(preparing)
            self._shared = await self._started()
        except AgentUnreachable as error:
            self._refusal = error
        except BaseException:
            await asyncio.wait([preparing])
            await self._close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._close()

    def session(self, case: EvalCase, run: int, *, alone: bool) -> "_Place":
        """See `Agent.session`."""
        if self._refusal is not None:
            raise self._refusal
        if self._plan is None:
            raise RuntimeError("the agent was not entered")
        return _Place(self, case, run, alone=alone)

    async def acquire(self, *, alone: bool) -> ContainedServer:
        """A server that answers: of the caller's own when it wants to be alone.

        Raises:
            AgentUnreachable: another one was needed, and does not start.
        """
        if alone:
            await self._isolated.acquire()
            try:
                return await self._started()
            except BaseException:
                self._isolated.release()
                raise
        async with self._replacing:
            if self._shared is None or self._shared.gone is not None:
                if self._shared is not None:
                    await self._stopped(self._shared)
                self._shared = await self._started()
            return self._shared

    async def release(self, server: ContainedServer, *, alone: bool) -> None:
        """The conversation that acquired it is over."""
        if alone:
            try:
                await self._stopped(server)
            finally:
                self._isolated.release()

    def _prepare(self) -> None:
        client, image = daemon.prepared(self._spec)
        self._plan = ServerPlan(
            client=client, image=image, spec=self._spec, port=self._port, agent_at=self._agent_at
        )

    async def _started(self) -> ContainedServer:
        if self._plan is None:
            raise RuntimeError("the agent was not entered")
        server = ContainedServer(self._plan)
        self._servers.add(server)
        await server.start()
        return server

    async def _stopped(self, server: ContainedServer) -> None:
        await server.stop()
        self._servers.discard(server)

    async def _close(self) -> None:
        try:
            await asyncio.gather(*(server.stop() for server in self._servers))
        finally:
            if self._plan is not None:
                self._plan.client.close()


class _Place:
    """One conversation; what fails carries the end of the container's log."""

    def __init__(self, agent: PublishedAgent, case: EvalCase, run: int, *, alone: bool) -> None:
        self._agent = agent
        self._case = case
        self._run = run
        self._alone = alone
        self._turns = 0

    async def __aenter__(self) -> Self:
        self._server = await self._agent.acquire(alone=self._alone)
        self._inner: RemoteSession = self._server.agent.session(self._case, self._run, alone=self._alone)
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            if self._server.gone is None:
                await self._inner.__aexit__(kind, *exc)
        finally:
            await self._agent.release(self._server, alone=self._alone)

    @property
    def applies_mocks(self) -> bool:
        """See `AppliesMocks`."""
        return self._inner.applies_mocks

    async def turn(self, message: UserMessage) -> Reply:
        """See `AgentSession.turn`."""
        server = self._server
        if server.gone is not None:
            raise await self._lost(server.gone)
        self._turns += 1
        server.busy += 1
        try:
            return await self._inner.turn(message)
        except AgentFailed as error:
            ended = await server.ending() if error.failure.kind in _BROKEN else None
            if ended is None:
                failure = _with_log(error.failure, await server.log())
                raise AgentFailed(failure, error.outcome, error.usage, error.retry_after_s) from None
            if server.crowd > 1 or error.failure.kind == "unavailable":
                raise await self._lost(ended) from None
            told = f"{ended.message} while it answered (turn {self._turns})"
            raise AgentFailed(replace(ended, message=told), usage=error.usage) from None
        finally:
            server.busy -= 1

    async def end(self) -> SessionEnd:
        """See `AgentSession.end`."""
        return await self._inner.end()

    async def _lost(self, ended: Failure) -> SessionLost:
        crowd = f" ({self._server.crowd} cases at once in it)" if self._server.crowd > 1 else ""
        usage = (await self._inner.end()).usage
        return SessionLost(replace(ended, message=ended.message + crowd), usage=usage)


def _with_log(failure: Failure, log: str) -> Failure:
    parts = [failure.detail, log and f"The container's log:\n{log}"]
    return replace(failure, detail="\n".join(filter(None, parts)))

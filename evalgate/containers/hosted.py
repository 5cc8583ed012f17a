"""Agents whose workers run in containers: one container for each worker, never one for each case."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Self

from evalgate.containers import daemon
from evalgate.containers.process import ContainerProcess
from evalgate.containers.spec import ContainerSpec
from evalgate.model import EvalCase
from evalgate.protocols import AgentUnreachable
from evalgate.workerpool.pool import PoolOptions, WorkerPool
from evalgate.workerpool.process import Launch, Listener

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from docker import DockerClient

    from evalgate.protocols import AgentSession


class HostedAgent:
    """An `Agent` that speaks the worker protocol in containers."""

    def __init__(self, spec: ContainerSpec, options: PoolOptions) -> None:
        self._spec = spec
        self._options = options
        self._client: DockerClient | None = None
        self._pool: WorkerPool | None = None
        self._refusal: AgentUnreachable | None = None

    async def __aenter__(self) -> Self:
        try:
            client, image = await asyncio.to_thread(daemon.prepared, self._spec)
        except AgentUnreachable as error:
            self._refusal = error
            return self
        self._client = client

        def process_of(listener: Listener) -> ContainerProcess:
            return ContainerProcess(listener, client, image, self._spec)

        launch = Launch(self._spec.command or (), Path("/"), self._spec.env)
        self._pool = WorkerPool(launch, self._options, process_of)
        await self._pool.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            if self._pool is not None:
                await self._pool.__aexit__(*exc)
        finally:
            if self._client is not None:
                self._client.close()

    async def check_entry(self) -> None:
        """See `ChecksEntry`."""
        if self._pool is not None:
            await self._pool.check_entry()

    def session(
        self, case: EvalCase, run: int, *, alone: bool
    ) -> "AbstractAsyncContextManager[AgentSession]":
        """See `Agent.session`."""
        if self._refusal is not None:
            raise self._refusal
        if self._pool is None:
            raise RuntimeError("the agent was not entered")
        return self._pool.session(case, run, alone=alone)

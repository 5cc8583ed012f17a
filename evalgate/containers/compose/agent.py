"""An agent that is a service among others."""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Self

from evalgate.containers.compose.companions import Companion, Companions
from evalgate.containers.compose.document import compose_file, read_composition
from evalgate.containers.compose.specs import Specs
from evalgate.containers.spec import ContainerSpec
from evalgate.model import EvalCase
from evalgate.protocols import Agent, AgentSession, AgentUnreachable


class ComposedAgent:
    """An `Agent` in a container that is made once its companions run."""

    def __init__(
        self, companions: Companions, agent: Companion, make: Callable[[ContainerSpec], Agent]
    ) -> None:
        """Nothing is started yet. `make`: the agent in a container, which is told in which network."""
        self._companions = companions
        self._own = agent
        self._make = make
        self._agent: Agent | None = None
        self._refusal: AgentUnreachable | None = None

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self._companions.start, self._own))
        try:
            agent = self._make(await asyncio.shield(starting))
            await agent.__aenter__()
            self._agent = agent
        except AgentUnreachable as error:
            self._refusal = error
        except BaseException:
            self._companions.give_up()
            await asyncio.wait([starting])
            await asyncio.to_thread(self._companions.stop)
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            if self._agent is not None:
                await self._agent.__aexit__(*exc)
        finally:
            await asyncio.to_thread(self._companions.stop)

    def session(self, case: EvalCase, run: int, *, alone: bool) -> AbstractAsyncContextManager[AgentSession]:
        """See `Agent.session`."""
        if self._refusal is not None:
            raise self._refusal
        if self._agent is None:
            raise RuntimeError("the agent was not entered")
        return self._agent.session(case, run, alone=alone)


def composed_agent(
    *,
    service: str,
    file: str | None,
    folder: Path,
    environ: Mapping[str, str],
    timeout_s: float,
    adapted: Callable[[ContainerSpec], ContainerSpec],
    make: Callable[[ContainerSpec], Agent],
) -> ComposedAgent:
    """A service of a Compose file as the agent.

    Args:
        service: Its name.
        file: The file, relative to `folder`; None: whichever Compose would find there.
        folder: The working folder.
        environ: What the file's variables stand for.
        timeout_s: Until a service that is waited for is what is waited for.
        adapted: The agent's container, with what the user wants otherwise.
        make: The agent in its container.

    Raises:
        InvalidInput: with every problem of the file.
    """
    path = compose_file(folder, file)
    composition = read_composition(path, os.path.relpath(path, folder), service, environ)
    found = {
        name: Companion(spec, composition.services[name].depends_on)
        for name, spec in Specs(composition, folder).all().items()
    }
    own = found.pop(service)
    own = replace(own, spec=adapted(own.spec))
    return ComposedAgent(Companions(found, timeout_s), own, make)

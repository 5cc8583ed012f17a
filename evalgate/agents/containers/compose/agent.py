"""An agent that is a Compose service, and the services that it depends on."""

import asyncio
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from evalgate.agents.containers import docker_client
from evalgate.agents.containers.compose.containers import ContainerSpecBuilder, place_in_network
from evalgate.agents.containers.compose.document import Dependency, find_compose_file, read_compose_project
from evalgate.agents.containers.docker_client import build_labels, remove_orphans
from evalgate.agents.containers.spec import ContainerSpec
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, AgentSession, AgentUnreachableError
from evalgate.core.types import EvalCase, Failure

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container
    from docker.models.networks import Network
    from docker.models.volumes import Volume


_POLL_S = 0.1


@frozen
class PlannedService:
    """A service, and the conditions that must be true before it starts."""

    spec: ContainerSpec
    waits_for: Mapping[str, Dependency]


class Sidecars:
    """Services that the agent depends on, with their network and volumes. Starting and stopping blocks."""

    def __init__(self, services: Mapping[str, PlannedService], timeout_s: float) -> None:
        """Create the services without starting them.

        Args:
            services: Each after those that it waits for.
            timeout_s: Seconds until the condition of a dependency must be true.
        """
        self._services = services
        self._timeout_s = timeout_s
        self._client: DockerClient | None = None
        self._network: Network | None = None
        self._guest = ""
        """The gate's own container, once it is connected to the network; else ""."""
        self._volumes: dict[str, Volume] = {}
        self._running: dict[str, Container] = {}
        self._unwanted = threading.Event()

    def start(self, agent: PlannedService) -> ContainerSpec:
        """Start all services that the agent waits for; return the agent's container in their network.

        Raises:
            AgentUnreachableError: one cannot be started, or its condition does not become true.
            InvalidInputError: the SDK is missing.
        """
        client = self._client = docker_client.connect_to_daemon()
        remove_orphans(client)
        network = self._create_network(client, [agent.spec, *(each.spec for each in self._services.values())])
        volumes = {name: str(volume.name) for name, volume in self._volumes.items()}
        for name, each in self._services.items():
            self._wait_for_dependencies(each)
            spec = place_in_network(each.spec, network, volumes)
            container = docker_client.create_container(client, docker_client.ensure_image(client, spec), spec)
            self._running[name] = container
            docker_client.start_container(container, spec.whose)
        self._wait_for_dependencies(agent)
        return place_in_network(agent.spec, network, volumes)

    def cancel_start(self) -> None:
        """Make `start`, which runs in another thread, end soon."""
        self._unwanted.set()

    def stop(self) -> None:
        """Remove everything that was created. It may be called at any time, also after a failed start."""
        for container in reversed(list(self._running.values())):
            docker_client.remove_container(container)
        if self._network is not None:
            if self._guest:
                with suppress(Exception):  # it may not be connected
                    self._network.disconnect(self._guest, force=True)
            _remove_quietly(self._network)
        for volume in self._volumes.values():
            _remove_quietly(volume)
        if self._client is not None:
            self._client.close()

    def _create_network(self, client: "DockerClient", specs: list[ContainerSpec]) -> str:
        import docker.errors

        name = f"evalgate-{uuid.uuid4().hex[:12]}"
        wanted = dict.fromkeys(volume for spec in specs for volume, _, _ in spec.volumes)
        try:
            self._network = client.networks.create(name, driver="bridge", labels=build_labels())
            for volume in wanted:
                self._volumes[volume] = client.volumes.create(f"{name}-{volume}", labels=build_labels())
            if own := docker_client.find_gate_container(client):
                self._network.connect(own)
                self._guest = own
        except (docker.errors.APIError, OSError) as error:
            raise AgentUnreachableError(
                Failure("start", f"cannot make a network for the agent's services: {error}")
            ) from None
        return name

    def _wait_for_dependencies(self, service: PlannedService) -> None:
        for name, dependency in service.waits_for.items():
            if name in self._running:
                self._wait_for_condition(name, dependency.condition, service.spec.whose)

    def _wait_for_condition(self, name: str, condition: str, whose: str) -> None:
        container, end = self._running[name], time.monotonic() + self._timeout_s
        while condition != "service_started":
            container.reload()
            why, is_true = _check_condition(container.attrs["State"], condition)
            if is_true:
                return
            if self._unwanted.is_set() or (not why and time.monotonic() > end):
                why = f"is not what is waited for ({condition}) within {self._timeout_s:g} s"
            if why:
                sentence = f"the service `{name}`, on which {whose} depends, {why}"
                raise AgentUnreachableError(
                    Failure("start", sentence, docker_client.read_log_tail(container))
                )
            self._unwanted.wait(_POLL_S)


def _check_condition(state: Mapping[str, Any], condition: str) -> tuple[str, bool]:
    """Return why the condition can never become true, or "", and True if it is true now."""
    is_over = state["Status"] in {"exited", "dead"}
    if condition == "service_completed_successfully":
        code = state["ExitCode"]
        return (f"ended with exit code {code}" if is_over and code else ""), is_over and not code
    if is_over:
        return f"ended with exit code {state['ExitCode']}", False
    health = (state.get("Health") or {}).get("Status")
    if health is None and state["Status"] == "running":
        return "must be healthy, and has no `healthcheck`", False
    return ("is unhealthy" if health == "unhealthy" else ""), health == "healthy"


def _remove_quietly(found: "Network | Volume") -> None:
    import docker.errors

    with suppress(docker.errors.APIError, OSError):
        found.remove()


class ComposeAgent:
    """An `Agent` in a container that is created once its sidecars run."""

    def __init__(
        self, sidecars: Sidecars, agent: PlannedService, build_agent: Callable[[ContainerSpec], Agent]
    ) -> None:
        """Create the agent without starting anything; `build_agent` receives its final container."""
        self._sidecars = sidecars
        self._own = agent
        self._build_agent = build_agent
        self._agent: Agent | None = None
        self._refusal: AgentUnreachableError | None = None

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self._sidecars.start, self._own))
        try:
            agent = self._build_agent(await asyncio.shield(starting))
            await agent.__aenter__()
            self._agent = agent
        except AgentUnreachableError as error:
            self._refusal = error
        except BaseException:
            self._sidecars.cancel_start()
            await asyncio.wait([starting])
            await asyncio.to_thread(self._sidecars.stop)
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            if self._agent is not None:
                await self._agent.__aexit__(*exc)
        finally:
            await asyncio.to_thread(self._sidecars.stop)

    def open_session(
        self, case: EvalCase, run: int, *, alone: bool
    ) -> AbstractAsyncContextManager[AgentSession]:
        """Return the context of a conversation; raise AgentUnreachableError if a service did not start."""
        if self._refusal is not None:
            raise self._refusal
        if self._agent is None:
            raise RuntimeError("the agent was not entered")
        return self._agent.open_session(case, run, alone=alone)


def build_compose_agent(
    *,
    service: str,
    file: str | None,
    folder: Path,
    environ: Mapping[str, str],
    timeout_s: float,
    adapt_spec: Callable[[ContainerSpec], ContainerSpec],
    build_agent: Callable[[ContainerSpec], Agent],
) -> ComposeAgent:
    """Build an agent that is a service of a Compose file.

    Args:
        service: Its name.
        file: The file, relative to `folder`; None: the one that Compose would find there.
        folder: The working folder.
        environ: Values of the file's variables.
        timeout_s: Seconds until the condition of a dependency must be true.
        adapt_spec: Function that applies the user's own settings to the agent's container.
        build_agent: Function that builds the agent in its container.

    Raises:
        InvalidInputError: with every problem of the file.
    """
    path = find_compose_file(folder, file)
    composition = read_compose_project(path, os.path.relpath(path, folder), service, environ)
    found = {
        name: PlannedService(spec, composition.services[name].depends_on)
        for name, spec in ContainerSpecBuilder(composition, folder).build_specs().items()
    }
    own = found.pop(service)
    own = replace(own, spec=adapt_spec(own.spec))
    return ComposeAgent(Sidecars(found, timeout_s), own, build_agent)

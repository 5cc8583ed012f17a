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
from evalgate.agents.containers.cleanup import remove_orphans
from evalgate.agents.containers.compose_file import (
    ComposeProject,
    ComposeService,
    Dependency,
    Volume,
    find_compose_file,
    read_compose_project,
)
from evalgate.agents.containers.container_settings import find_gate_container
from evalgate.agents.containers.ownership import build_labels
from evalgate.agents.containers.spec import ContainerLimits, ContainerSpec, HealthTest, ImageBuild
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, AgentSession, AgentUnreachableError
from evalgate.core.types import EvalCase, Failure
from evalgate.documents.env_file import describe_read_error, read_env_file
from evalgate.documents.strict_json import Location
from evalgate.documents.validation_errors import format_location
from evalgate.system.files import is_non_folder

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container
    from docker.models.networks import Network
    from docker.models.volumes import Volume as DockerVolume


_POLL_S = 0.1


@frozen
class PlannedService:
    """A Compose service, and the conditions that must be true before it starts."""

    spec: ContainerSpec
    waits_for: Mapping[str, Dependency]
    """Names of the services that must be ready first, each with the condition that it must fulfil."""


class Sidecars:
    """Services that the agent depends on, with their network and volumes.

    `start` and `stop` block the calling thread.
    """

    def __init__(self, services: Mapping[str, PlannedService], timeout_s: float) -> None:
        """Create the services without starting them.

        Args:
            services: Services by name, each after the services that it waits for.
            timeout_s: Seconds to wait until a service fulfils a condition such as `service_healthy`.
        """
        self._services = services
        self._timeout_s = timeout_s
        self._client: DockerClient | None = None
        self._network: Network | None = None
        self._gate_container = ""
        """Id of the container that the gate runs in; "" if this container is not in the network (yet)."""
        self._volumes: dict[str, DockerVolume] = {}
        self._running: dict[str, Container] = {}
        self._is_cancelled = threading.Event()

    def start(self, agent: PlannedService) -> ContainerSpec:
        """Start all services, and return the specification of the agent's container in their network.

        First remove the containers, networks and volumes that ended gates left behind. Then create a network
        and the volumes for this run, and wait until the conditions of the services and of the agent are true.
        Call `stop` afterwards, also after an error.

        Raises:
            AgentUnreachableError: no daemon answers, the network or a volume cannot be created, a service
                cannot be started, or a condition does not become true.
            InvalidInputError: the package `docker` is missing.
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
            docker_client.start_container(container, spec.owner)
        self._wait_for_dependencies(agent)
        return place_in_network(agent.spec, network, volumes)

    def cancel_start(self) -> None:
        """Make `start`, which runs in another thread, fail instead of waiting for a condition."""
        self._is_cancelled.set()

    def stop(self) -> None:
        """Remove the containers, the network and the volumes; ignore errors of the daemon.

        `start` must not be running. It may have returned or raised, or not have been called at all.
        """
        # The daemon removes no network or volume that a container still uses.
        for container in reversed(list(self._running.values())):
            docker_client.remove_container(container)
        if self._network is not None:
            if self._gate_container:
                with suppress(Exception):  # it may not be connected
                    self._network.disconnect(self._gate_container, force=True)
            _remove_quietly(self._network)
        for volume in self._volumes.values():
            _remove_quietly(volume)
        if self._client is not None:
            self._client.close()

    def _create_network(self, client: "DockerClient", specs: list[ContainerSpec]) -> str:
        import docker.errors

        # A unique name, as several gates may use one daemon. Compose would name the network after the folder.
        name = f"evalgate-{uuid.uuid4().hex[:12]}"
        wanted = dict.fromkeys(volume for spec in specs for volume, _, _ in spec.volumes)
        try:
            labels = build_labels(client)
            self._network = client.networks.create(name, driver="bridge", labels=labels)
            for volume in wanted:
                self._volumes[volume] = client.volumes.create(f"{name}-{volume}", labels=labels)
            if own := find_gate_container(client):
                # A gate in a container reaches the agent's port only if both are in the same network.
                self._network.connect(own)
                self._gate_container = own
        except (docker.errors.APIError, OSError) as error:
            raise AgentUnreachableError(
                Failure("start", f"cannot make a network for the agent's services: {error}")
            ) from None
        return name

    def _wait_for_dependencies(self, service: PlannedService) -> None:
        for name, dependency in service.waits_for.items():
            if name in self._running:
                self._wait_for_condition(name, dependency.condition, service.spec.owner)

    def _wait_for_condition(self, name: str, condition: str, owner: str) -> None:
        container, end = self._running[name], time.monotonic() + self._timeout_s
        while condition != "service_started":
            why, is_true = _inspect_condition(container, condition)
            if is_true:
                return
            if self._is_cancelled.is_set() or (not why and time.monotonic() > end):
                why = f"is not what is waited for ({condition}) within {self._timeout_s:g} s"
            if why:
                sentence = f"the service `{name}`, on which {owner} depends, {why}"
                raise AgentUnreachableError(
                    Failure("start", sentence, docker_client.read_log_tail(container))
                )
            self._is_cancelled.wait(_POLL_S)


def _inspect_condition(container: "Container", condition: str) -> tuple[str, bool]:
    """Ask the daemon for a container's state, and return (reason, is_true) for a condition of Compose.

    `reason` says why the condition can never become true. It is "" if the condition is true or may become
    true later. If the daemon does not answer, the condition counts as not true yet.
    """
    import docker.errors

    try:
        container.reload()
    except docker.errors.NotFound:
        return "was removed from outside", False
    except (docker.errors.APIError, OSError):
        return "", False  # a busy daemon did not answer in time: the container may still run
    return _check_condition(container.attrs["State"], condition)


def _check_condition(state: Mapping[str, Any], condition: str) -> tuple[str, bool]:
    """Return (reason, is_true) for a Compose condition such as `service_healthy`.

    `reason` says why the condition can never become true. It is "" if the condition is true or may become
    true later. `state` is the state of the service's container, as Docker reports it.
    """
    is_over = state["Status"] in {"exited", "dead"}
    if condition == "service_completed_successfully":
        code = state["ExitCode"]
        return (f"ended with exit code {code}" if is_over and code else ""), is_over and not code
    if is_over:  # an ended container does not answer, even if it was healthy before
        return f"ended with exit code {state['ExitCode']}", False
    health = (state.get("Health") or {}).get("Status")
    if health is None and state["Status"] == "running":
        return "must be healthy, and has no `healthcheck`", False
    return ("is unhealthy" if health == "unhealthy" else ""), health == "healthy"


def _remove_quietly(found: "Network | DockerVolume") -> None:
    import docker.errors

    with suppress(docker.errors.APIError, OSError):
        found.remove()


class ComposeAgent:
    """An `Agent` that is a Compose service. First, the services that the agent depends on are started."""

    def __init__(
        self, sidecars: Sidecars, agent: PlannedService, build_agent: Callable[[ContainerSpec], Agent]
    ) -> None:
        """Create the agent without starting it; `build_agent` receives the final container specification."""
        self._sidecars = sidecars
        self._own = agent
        self._build_agent = build_agent
        self._agent: Agent | None = None
        self._refusal: AgentUnreachableError | None = None

    async def __aenter__(self) -> Self:
        # A thread cannot be cancelled: what it creates is only known, and removed, once it has ended.
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
        """Return an asynchronous context manager that opens a conversation.

        With `alone`, no other conversation may use the same worker or server of the agent.

        Raises:
            AgentUnreachableError: a service or the agent did not start.
            RuntimeError: the agent was not entered as a context manager.
        """
        if self._refusal is not None:
            raise self._refusal
        if self._agent is None:
            raise RuntimeError("the agent was not entered")
        return self._agent.open_session(case, run, alone=alone)


class ContainerSpecBuilder:
    """Converter of Compose services to container specifications; collects the problems of all services."""

    def __init__(self, composition: ComposeProject, folder: Path) -> None:
        """Create a builder. Services may mount only paths in `folder`, the working folder."""
        self._composition = composition
        self._folder = folder.resolve()
        self._problems: list[Problem] = []

    def build_specs(self) -> Mapping[str, ContainerSpec]:
        """Return the container specification of each service, by the name of the service.

        The volumes in the result have the names from the Compose file. `place_in_network` replaces these
        names by the names of the created volumes.

        Raises:
            InvalidInputError: an env file cannot be read, or a mounted path is missing or outside the working
                folder. The error lists every problem.
        """
        found = {name: self._build_spec(name, each) for name, each in self._composition.services.items()}
        if self._problems:
            raise InvalidInputError(sorted(self._problems))
        return found

    def _build_spec(self, name: str, service: ComposeService) -> ContainerSpec:
        volumes = service.volumes
        kept = [each for each in volumes if each.type == "volume"]
        mounted = [(index, each) for index, each in enumerate(volumes) if each.type == "bind"]
        return ContainerSpec(
            image=self._resolve_image(service),
            command=service.command,
            entrypoint=service.entrypoint,
            env=self._collect_env(name, service),
            user=service.user,
            folder=service.working_dir,
            limits=ContainerLimits(
                memory=service.mem_limit,
                cpus=service.cpus,
                pids=service.pids_limit,
                read_only=service.read_only,
            ),
            copied=tuple((self._resolve_mount(name, index, each), each.target) for index, each in mounted),
            volumes=tuple((each.source, each.target, each.read_only) for each in kept if each.source),
            anonymous_volumes=tuple(each.target for each in kept if not each.source),
            tmpfs=(*service.tmpfs, *(each.target for each in volumes if each.type == "tmpfs")),
            aliases=self._composition.aliases[name],
            hostname=service.hostname,
            extra_hosts=dict(each.replace("=", ":", 1).partition(":")[::2] for each in service.extra_hosts),
            cap_drop=service.cap_drop,
            health=_build_health_test(service),
            owner=f"the service `{name}`",
            is_agent=False,
        )

    def _resolve_image(self, service: ComposeService) -> str | ImageBuild:
        build = service.build
        if build is None:
            return service.image or ""
        return ImageBuild(
            context=self._composition.folder / build.context,
            dockerfile=build.dockerfile,
            args=self._fill_missing_values(build.args),
            target=build.target,
        )

    def _collect_env(self, name: str, service: ComposeService) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in service.env_file:
            path = self._composition.folder / each.path
            if is_non_folder(path) or each.required:
                found |= self._read_env_file(name, path, each.path)
        return {**found, **self._fill_missing_values(service.environment)}

    def _read_env_file(self, name: str, path: Path, shown_as: str) -> dict[str, str]:
        try:
            return read_env_file(path)
        except (OSError, UnicodeDecodeError) as error:
            location = ("services", name, "env_file")
            self._report_problem(
                location, f"names {shown_as}, which cannot be read: {describe_read_error(error)}"
            )
        return {}

    def _fill_missing_values(self, given: Mapping[str, str | None]) -> dict[str, str]:
        """Return a copy of `given`, variables by name, with a value for each variable that is None.

        The value is taken from the variables of the Compose file (`ComposeProject.values`). A variable
        that has no value there is left out.
        """
        values = self._composition.values
        filled = {name: values.get(name) if value is None else value for name, value in given.items()}
        return {name: value for name, value in filled.items() if value is not None}

    def _resolve_mount(self, name: str, index: int, volume: Volume) -> Path:
        """Return the path that is copied into the container instead of being bind-mounted.

        If the path is missing or outside the working folder, record a problem and return the path anyway.
        `name` and `index` are for the message of the problem: the name of the service, and the position of
        `volume` in the service's list `volumes`, from 0.
        """
        location, source = ("services", name, "volumes", index), volume.source or ""
        # Resolved before it is compared: a link in the working folder may lead out of it.
        path = (self._composition.folder / source).resolve()
        if not path.is_relative_to(self._folder):
            self._report_problem(
                location, f"mounts {source}, which is not in the working folder: nothing else is given"
            )
        elif not path.exists():
            self._report_problem(location, f"mounts {source}, which is not there")
        return path

    def _report_problem(self, location: Location, sentence: str) -> None:
        position = self._composition.position(location)
        sentence = f"`{format_location(location)}` {sentence}"
        self._problems.append(Problem(self._composition.path, *position, sentence))


def place_in_network(spec: ContainerSpec, network: str, volumes: Mapping[str, str]) -> ContainerSpec:
    """Return a copy of `spec` that uses the network `network` and the volumes created for the run.

    `volumes` maps each volume name of the Compose file to the name of the created volume.
    """
    return replace(
        spec,
        limits=replace(spec.limits, network=network),
        volumes=tuple((volumes[name], target, is_read_only) for name, target, is_read_only in spec.volumes),
    )


def _build_health_test(service: ComposeService) -> HealthTest | None:
    check = service.healthcheck
    if check is None:
        return None
    return HealthTest(
        test=("NONE",) if check.disable else check.test,
        interval=check.interval,
        timeout=check.timeout,
        retries=check.retries,
        start_period=check.start_period,
    )


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
        service: Name of the agent's service.
        file: The Compose file, relative to `folder`; None: the first default name that exists there.
        folder: The working folder.
        environ: Values of the variables in the Compose file; they take precedence over its `.env`.
        timeout_s: Seconds to wait until a service fulfils a condition such as `service_healthy`.
        adapt_spec: Function that returns the agent's container with the settings of the `agent` section.
        build_agent: Function that builds the agent in its container.

    Raises:
        InvalidInputError: there is no Compose file, or it has problems; every problem is listed.
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

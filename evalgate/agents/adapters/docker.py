"""Agents in a container: an image, a build or a Compose service, spoken to over streams or a port."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from evalgate.agents.containers.compose.agent import composed_agent
from evalgate.agents.containers.server_container import PublishedAgent
from evalgate.agents.containers.spec import WORKER_FOLDER, Build, ContainerSpec, Limits
from evalgate.agents.containers.tracing import FROM_ANY_CONTAINER, endpoint_for
from evalgate.agents.containers.worker_container import HostedAgent
from evalgate.agents.http.agent import RemoteAgent, RemoteOptions
from evalgate.agents.http.options import WireOptions
from evalgate.agents.http.server import Server
from evalgate.agents.tracing.collector import Endpoint
from evalgate.agents.tracing.traced_agent import OtelOption, TracedAgent, otel_settings
from evalgate.agents.workers.pool import PoolOptions
from evalgate.config.schema.values import Command
from evalgate.core.protocols import Agent, AgentPlace
from evalgate.documents.env_expansion import Filling
from evalgate.system.workspace import agent_environment

_OF_IMAGES = frozenset({"image", "build_from", "network"})
_WORKER = Path(__file__).resolve().parent.parent / "host"


class BuildOptions(BaseModel):
    """An image that is built before the first case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    context: str
    """The folder that is sent to the daemon."""
    dockerfile: str = "Dockerfile"
    """Relative to it."""


class DockerAgent(WireOptions):
    """A thresholds file's `agent` section of kind `docker`."""

    named_by: ClassVar[str] = "image"
    otherwise_named_by: ClassVar[str] = "service"

    image: str | None = Field(default=None, min_length=1)
    """The image; with `build`, what reports call it."""
    service: str | None = Field(default=None, min_length=1)
    """In the place of an image, a service of a Compose file: started with those that it depends on."""
    compose: str | None = Field(default=None, min_length=1)
    """The Compose file; by default `compose.yaml`, or whichever Compose would find in the working folder."""
    build_from: str | BuildOptions | None = Field(default=None, alias="build")
    """The folder of a Dockerfile, or that and its name: built before the first case."""
    command: Command | None = None
    """A program that speaks the worker protocol, or with `port` a server; the image's own when absent."""
    entry: str | None = Field(default=None, min_length=1)
    """A Python agent as of kind `python`, hosted by evalgate's worker, which is copied in."""
    python: str = "python3"
    """The interpreter in the container, 3.9 or later, for `entry`."""
    capture: bool = True
    """As of kind `python`, for `entry`."""
    port: Annotated[int, Strict()] | None = Field(default=None, ge=1, le=65_535)
    """Where a server in the container listens: it is asked in `dialect`."""
    workspace: str | None = Field(default=None, pattern="^/.+")
    """Where the working folder is copied to, and where the agent runs then."""
    environment: Mapping[str, str] = Field(default_factory=dict)
    """Variables beside those of `env`; values may hold `${NAME}`."""
    user: str | None = None
    """User, or user:group, in the container."""
    memory: str | None = Field(default=None, pattern="^[0-9]+[bkmgBKMG]?$")
    """As `512m`."""
    cpus: Annotated[float, Strict()] | None = Field(default=None, gt=0, le=4_096)
    """Processors that the container may use, as `1.5`; all when absent."""
    pids: Annotated[int, Strict()] | None = Field(default=None, ge=1)
    """Processes at the same time."""
    network: str = "bridge"
    """`none`, or the name of a network."""
    read_only: bool = False
    """Whether the container can write to /tmp and to its copied folders only."""

    otel: OtelOption = False
    """Whether calls and usage are read from the spans that the agent sends: docs/opentelemetry.md."""

    @model_validator(mode="after")
    def _can_be_traced(self) -> Self:
        if self.otel is not False and self.entry is not None:
            raise ValueError("has `otel`, which needs a `command` or a `port`: an `entry` reports itself")
        if self.otel is not False and self.network == "none":
            raise ValueError("has `otel`, which needs a network")
        return self

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if self.image is None and self.service is None:
            raise ValueError("needs an `image`, or a `service` of a Compose file")
        if self.service is not None and (own := sorted(_OF_IMAGES & self.model_fields_set)):
            raise ValueError(f"has a `service`, which takes no `{own[0].removesuffix('_from')}`")
        if self.compose is not None and self.service is None:
            raise ValueError("has `compose`, which needs a `service`")
        return self

    @model_validator(mode="after")
    def _can_be_spoken_to(self) -> Self:
        if self.entry is not None and (self.port is not None or self.command is not None):
            raise ValueError("has `entry`, which takes neither `command` nor `port`")
        if self.port is not None and self.network == "none":
            raise ValueError("has a `port`, which needs a network")
        wire = sorted(set(WireOptions.model_fields) & self.model_fields_set - {"start_timeout"})
        if self.port is None and wire:
            raise ValueError(f"has `{wire[0]}`, which needs a `port`")
        return self

    def build(self, place: AgentPlace) -> Agent:
        """See `evalgate.core.protocols.AgentType`."""
        filling = Filling(place.environ)
        spec = self._spec(place, filling)
        headers = {name: filling.filled(f"headers.{name}", value) for name, value in self.headers.items()}
        filling.check()

        def agent_in(container: ContainerSpec) -> Agent:
            return self._traced(container, lambda each: self._agent_in(each, place, headers, filling.secrets))

        if self.service is None:
            return agent_in(spec)
        return composed_agent(
            service=self.service,
            file=self.compose,
            folder=place.folder,
            environ=place.env,
            timeout_s=self.start_timeout,
            adapted=lambda found: self._over(found, spec),
            make=agent_in,
        )

    def _traced(self, spec: ContainerSpec, make: Callable[[ContainerSpec], Agent]) -> Agent:
        traces = otel_settings(self.otel)
        if traces is None:
            return make(spec)
        host_is_given = "host" in traces.model_fields_set
        calling = replace(spec, calls_gate=True)

        def told_where(variables: Mapping[str, str]) -> Agent:
            # Only where it is used: a daemon whose bridge has no address refuses `host-gateway`.
            is_named = any(FROM_ANY_CONTAINER in value for value in variables.values())
            known = {FROM_ANY_CONTAINER: "host-gateway"} if is_named else {}
            return make(
                replace(calling, env={**spec.env, **variables}, extra_hosts={**known, **spec.extra_hosts})
            )

        def reachable(wanted: Endpoint) -> Endpoint:
            return endpoint_for(calling, wanted, host_is_given=host_is_given)

        return TracedAgent(told_where, traces, port=0, found=reachable)

    def _agent_in(
        self, spec: ContainerSpec, place: AgentPlace, headers: Mapping[str, str], secrets: tuple[str, ...]
    ) -> Agent:
        if self.port is None:
            options = PoolOptions(
                workers=place.workers, timeout_s=place.timeout, start_timeout_s=self.start_timeout
            )
            return HostedAgent(spec, options)

        def agent_at(url: str) -> RemoteAgent:
            server = Server(
                url=url, headers=headers, secrets=secrets, relocated=True, connections=place.concurrency
            )
            options = RemoteOptions(
                timeout_s=place.timeout, start_timeout_s=self.start_timeout, health=self.health_url(url)
            )
            return RemoteAgent(server, self.speaking(), options)

        return PublishedAgent(spec, self.port, agent_at)

    def _spec(self, place: AgentPlace, filling: Filling) -> ContainerSpec:
        copied = [(place.folder, self.workspace)] if self.workspace else []
        if self.entry is not None:
            copied.append((_WORKER, WORKER_FOLDER))
        limits = Limits(
            memory=self.memory,
            cpus=self.cpus,
            pids=self.pids,
            network=self.network,
            read_only=self.read_only,
        )
        own = {name: filling.filled(f"environment.{name}", value) for name, value in self.environment.items()}
        return ContainerSpec(
            image=self._image(place.folder),
            command=self._command(place.concurrency),
            env={**_wanted(place.env), **own},
            user=self.user,
            limits=limits,
            copied=tuple(copied),
            folder=self.workspace,
            port=self.port,
        )

    def _over(self, service: ContainerSpec, own: ContainerSpec) -> ContainerSpec:
        """A service's container, with what the agent's own section says otherwise."""
        given = self.model_fields_set
        limits = Limits(
            memory=self.memory or service.limits.memory,
            cpus=self.cpus or service.limits.cpus,
            pids=self.pids or service.limits.pids,
            read_only=self.read_only if "read_only" in given else service.limits.read_only,
        )
        return replace(
            service,
            command=own.command or service.command,
            env={**service.env, **own.env},
            user=own.user or service.user,
            limits=limits,
            copied=(*service.copied, *own.copied),
            folder=own.folder or service.folder,
            port=own.port,
            whose=own.whose,
            speaks=True,
        )

    def _image(self, folder: Path) -> str | Build:
        match self.build_from:
            case None:
                return self.image or ""
            case str() as context:
                return Build(context=folder / context)
            case options:
                return Build(context=folder / options.context, dockerfile=options.dockerfile)

    def _command(self, concurrency: int) -> tuple[str, ...] | None:
        if self.entry is not None:
            host = json.dumps({"entry": self.entry, "threads": concurrency, "capture": self.capture})
            return (self.python, f"{WORKER_FOLDER}/__main__.py", host)
        if self.command is None:
            return None
        return tuple(shlex.split(self.command) if isinstance(self.command, str) else self.command)


def _wanted(env: Mapping[str, str]) -> dict[str, str]:
    """What of the agent's environment was asked for by name: the rest speaks of this machine."""
    harmless = agent_environment(env, ())
    return {name: value for name, value in env.items() if name not in harmless}

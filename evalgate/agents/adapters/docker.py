"""Agents in a Docker container: of a ready-made image, of an image built first, or of a Compose service.

The gate sends messages to the container's stdin, or to a port of the container.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from evalgate.agents.containers.compose_agent import build_compose_agent
from evalgate.agents.containers.gate_address import HOST_GATEWAY_NAME, find_reachable_endpoint
from evalgate.agents.containers.server_container import ServerContainerAgent
from evalgate.agents.containers.spec import WORKER_FOLDER, ContainerLimits, ContainerSpec, ImageBuild
from evalgate.agents.containers.worker_container import WorkerContainerAgent
from evalgate.agents.http.agent import RemoteAgent, RemoteOptions
from evalgate.agents.http.connection import AgentServer
from evalgate.agents.http.options import HttpDialectOptions
from evalgate.agents.tracing.collector import CollectorEndpoint
from evalgate.agents.tracing.traced_agent import OtelOption, TracedAgent, resolve_otel_settings
from evalgate.agents.workers.pool import PoolOptions
from evalgate.config.schema.field_types import Command
from evalgate.core.protocols import Agent, AgentContext
from evalgate.documents.env_expansion import PlaceholderExpander
from evalgate.system.agent_environment import build_agent_environment

_IMAGE_OPTIONS = frozenset({"image", "build_from", "network"})
_WORKER = Path(__file__).resolve().parent.parent / "host"


class BuildOptions(BaseModel):
    """Folder and Dockerfile from which the image is built, before the first case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    context: str
    """The folder that is sent to the Docker daemon, relative to the working folder."""
    dockerfile: str = "Dockerfile"
    """Path of the Dockerfile, relative to `context`."""


class DockerAgentOptions(HttpDialectOptions):
    """A thresholds file's `agent` section of kind `docker`."""

    named_by: ClassVar[str] = "image"
    otherwise_named_by: ClassVar[str] = "service"

    image: str | None = Field(default=None, min_length=1)
    """Name of the image to run. If `build` is set, the built image is run instead, and `image` is only the
    agent's name in reports."""
    service: str | None = Field(default=None, min_length=1)
    """A service of a Compose file, instead of `image`. All services that it depends on are started, too."""
    compose: str | None = Field(default=None, min_length=1)
    """The Compose file, relative to the working folder. When absent, the first that exists of `compose.yaml`,
    `compose.yml`, `docker-compose.yaml` and `docker-compose.yml`."""
    build_from: str | BuildOptions | None = Field(default=None, alias="build")
    """Folder with the `Dockerfile` of the image, or an object with the folder and the file's name. The image
    is built before the first case."""
    command: Command | None = None
    """Command of the container; the image's own command when absent. With `port`, the command runs a server.
    Without `port`, it runs a program that speaks the worker protocol."""
    entry: str | None = Field(default=None, min_length=1)
    """A Python agent in the container: `package.module:attribute` or `path/file.py:attribute`. Evalgate
    copies its own worker program into the container, and the worker runs the agent."""
    python: str = "python3"
    """Command that starts the container's Python (3.9 or later), which runs the `entry`."""
    capture: bool = True
    """If true, and the agent named by `entry` reports no tool calls or usage itself, evalgate reads them from
    the agent's requests to models and its OpenTelemetry spans: docs/agents.md."""
    port: Annotated[int, Strict()] | None = Field(default=None, ge=1, le=65_535)
    """Port of a server in the container. The server receives the messages over HTTP, in the wire format that
    `dialect` names. When absent, messages are sent to the container's stdin."""
    workspace: str | None = Field(default=None, pattern="^/.+")
    """Absolute path in the container to which the working folder is copied, and in which the agent runs. When
    absent, the working folder is not copied."""
    environment: Mapping[str, str] = Field(default_factory=dict)
    """Further environment variables of the container, with their values. (The option `env` passes on
    evalgate's variables.) `${NAME}` in a value is replaced by a variable of evalgate's own environment."""
    user: str | None = None
    """User that runs the container's command, or `user:group`; the image's own user when absent."""
    memory: str | None = Field(default=None, pattern="^[0-9]+[bkmgBKMG]?$")
    """Memory that the container may use, such as `512m`; no limit when absent."""
    cpus: Annotated[float, Strict()] | None = Field(default=None, gt=0, le=4_096)
    """Number of processors that the container may use, such as `1.5`; all when absent."""
    pids: Annotated[int, Strict()] | None = Field(default=None, ge=1)
    """Largest number of processes in the container at the same time; no limit when absent."""
    network: str = "bridge"
    """Docker network that the container joins, by name; `none`: the container has no network."""
    read_only: bool = False
    """If true, the container can write only to /tmp and to the folders that are copied into it."""

    otel: OtelOption = False
    """If true, tool calls and usage are read from the spans that the agent sends: docs/opentelemetry.md."""

    @model_validator(mode="after")
    def _validate_tracing(self) -> Self:
        if self.otel is not False and self.entry is not None:
            raise ValueError("has `otel`, which needs a `command` or a `port`: an `entry` reports itself")
        if self.otel is not False and self.network == "none":
            raise ValueError("has `otel`, which needs a network")
        return self

    @model_validator(mode="after")
    def _require_one_source(self) -> Self:
        if self.image is None and self.service is None:
            raise ValueError("needs an `image`, or a `service` of a Compose file")
        if self.service is not None and (own := sorted(_IMAGE_OPTIONS & self.model_fields_set)):
            raise ValueError(f"has a `service`, which takes no `{own[0].removesuffix('_from')}`")
        if self.compose is not None and self.service is None:
            raise ValueError("has `compose`, which needs a `service`")
        return self

    @model_validator(mode="after")
    def _validate_transport(self) -> Self:
        if self.entry is not None and (self.port is not None or self.command is not None):
            raise ValueError("has `entry`, which takes neither `command` nor `port`")
        if self.port is not None and self.network == "none":
            raise ValueError("has a `port`, which needs a network")
        wire = sorted(set(HttpDialectOptions.model_fields) & self.model_fields_set - {"start_timeout"})
        if self.port is None and wire:
            raise ValueError(f"has `{wire[0]}`, which needs a `port`")
        return self

    def build(self, context: AgentContext) -> Agent:
        """Build the agent without creating its container.

        Raises:
            InvalidInputError: a placeholder `${NAME}` has no value, or the Compose file is missing or has
                problems.
        """
        expander = PlaceholderExpander(context.environ)
        spec = self._build_spec(context, expander)
        headers = {
            name: expander.expand_text(f"headers.{name}", value) for name, value in self.headers.items()
        }
        expander.raise_problems()

        def build_container_agent(container: ContainerSpec) -> Agent:
            return self._add_tracing(
                container, lambda each: self._build_agent(each, context, headers, expander.secrets)
            )

        if self.service is None:
            return build_container_agent(spec)
        return build_compose_agent(
            service=self.service,
            file=self.compose,
            folder=context.folder,
            environ=context.env,
            timeout_s=self.start_timeout,
            adapt_spec=lambda found: self._override_service(found, spec),
            build_agent=build_container_agent,
        )

    def _add_tracing(self, spec: ContainerSpec, make: Callable[[ContainerSpec], Agent]) -> Agent:
        traces = resolve_otel_settings(self.otel)
        if traces is None:
            return make(spec)
        host_is_given = "host" in traces.model_fields_set
        calling = replace(spec, calls_gate=True)  # it must share a network with a gate in a container

        def build_with_env(variables: Mapping[str, str]) -> Agent:
            # Only if it is used: a daemon refuses `host-gateway` if its bridge has no address.
            is_named = any(HOST_GATEWAY_NAME in value for value in variables.values())
            known = {HOST_GATEWAY_NAME: "host-gateway"} if is_named else {}
            return make(
                replace(calling, env={**spec.env, **variables}, extra_hosts={**known, **spec.extra_hosts})
            )

        def resolve_endpoint(wanted: CollectorEndpoint) -> CollectorEndpoint:
            return find_reachable_endpoint(calling, wanted, host_is_given=host_is_given)

        return TracedAgent(build_with_env, traces, port=0, resolve_endpoint=resolve_endpoint)

    def _build_agent(
        self, spec: ContainerSpec, context: AgentContext, headers: Mapping[str, str], secrets: tuple[str, ...]
    ) -> Agent:
        if self.port is None:
            options = PoolOptions(
                workers=context.workers, timeout_s=context.timeout, start_timeout_s=self.start_timeout
            )
            return WorkerContainerAgent(spec, options)

        def build_remote_agent(url: str) -> RemoteAgent:
            # In a container: an A2A agent's card may name the address that it has elsewhere.
            server = AgentServer(
                url=url,
                headers=headers,
                secrets=secrets,
                is_in_container=True,
                connections=context.concurrency,
            )
            options = RemoteOptions(
                timeout_s=context.timeout,
                start_timeout_s=self.start_timeout,
                health=self.build_health_url(url),
            )
            return RemoteAgent(server, self.build_dialect_factory(), options)

        return ServerContainerAgent(spec, self.port, build_remote_agent)

    def _build_spec(self, context: AgentContext, expander: PlaceholderExpander) -> ContainerSpec:
        copied = [(context.folder, self.workspace)] if self.workspace else []
        if self.entry is not None:
            copied.append((_WORKER, WORKER_FOLDER))
        limits = ContainerLimits(
            memory=self.memory,
            cpus=self.cpus,
            pids=self.pids,
            network=self.network,
            read_only=self.read_only,
        )
        # Variables that the user did not name describe this machine (PATH, HOME, …). The image has its own.
        harmless = build_agent_environment(context.env, ())
        requested = {name: value for name, value in context.env.items() if name not in harmless}
        own = {
            name: expander.expand_text(f"environment.{name}", value)
            for name, value in self.environment.items()
        }
        return ContainerSpec(
            image=self._resolve_image(context.folder),
            command=self._build_command(context.concurrency),
            env={**requested, **own},
            user=self.user,
            limits=limits,
            copied=tuple(copied),
            folder=self.workspace,
            port=self.port,
        )

    def _override_service(self, service: ContainerSpec, own: ContainerSpec) -> ContainerSpec:
        """Return the container of the Compose `service`, changed by the settings of the `agent` section.

        `own` is the container that the `agent` section alone describes. The result has the variables and the
        copied folders of both containers. If both have a value for a variable or a setting, the value of the
        `agent` section is taken. The port is always the one of the `agent` section.
        """
        given = self.model_fields_set  # tells `read_only: false` from no `read_only`
        limits = ContainerLimits(
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
            owner=own.owner,
            is_agent=True,
        )

    def _resolve_image(self, folder: Path) -> str | ImageBuild:
        match self.build_from:
            case None:
                return self.image or ""
            case str() as context:
                return ImageBuild(context=folder / context)
            case options:
                return ImageBuild(context=folder / options.context, dockerfile=options.dockerfile)

    def _build_command(self, threads: int) -> tuple[str, ...] | None:
        if self.entry is not None:
            host = json.dumps({"entry": self.entry, "threads": threads, "capture": self.capture})
            return (self.python, f"{WORKER_FOLDER}/__main__.py", host)
        if self.command is None:
            return None
        return tuple(shlex.split(self.command) if isinstance(self.command, str) else self.command)

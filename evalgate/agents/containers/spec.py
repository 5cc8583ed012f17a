"""Specification of a container: image, command, limits, files and health check."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

WORKER_FOLDER = "/opt/evalgate"
"""Folder in a container to which the agent host, the program that runs a Python agent, is copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuild:
    """An image that is built before the first case."""

    context: Path
    dockerfile: str = "Dockerfile"
    args: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    """Stage of the Dockerfile to build; None: the last stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLimits:
    """Resources that a container may use."""

    memory: str | None = None
    """Limit of memory in Docker's notation, such as `512m` or `2g`; None: no limit."""
    cpus: float | None = None
    pids: int | None = None
    network: str = "bridge"
    """Docker network that the container joins, by name; `none`: the container has no network."""
    read_only: bool = False
    """True if only volumes and /tmp can be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthTest:
    """Health check of a container. Times are in seconds; None: Docker's default."""

    test: tuple[str, ...] | None = None
    """`("CMD", …)`, `("CMD-SHELL", line)` or `("NONE",)`; None: the image's own test."""
    interval: float | None = None
    timeout: float | None = None
    retries: int | None = None
    start_period: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """A container of the agent, or of a service that the agent needs."""

    image: str | ImageBuild
    command: tuple[str, ...] | None = None
    """Command and arguments; None: the image's own."""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    limits: ContainerLimits = ContainerLimits()
    copied: tuple[tuple[Path, str], ...] = ()
    """Folders and files of this machine, each with its path in the container. They are copied, not mounted:
    if the gate runs in a container, the Docker daemon would look for the gate's paths on the host."""
    folder: str | None = None
    """Working folder; None: the image's own."""
    port: int | None = None
    """Port of the container to which the gate connects; None: no port. The gate then talks to the agent's
    container through its stdin and stdout, and does not talk to the containers of other services."""
    owner: str = "the agent"
    """Name of the container's owner in messages, such as `the agent`."""
    is_agent: bool = True
    """True for the agent's own container; False for a service that the agent needs."""
    calls_gate: bool = False
    """True if the container connects to the gate, for example to send spans."""
    entrypoint: tuple[str, ...] | None = None
    """Program that receives `command` as its arguments (Docker's ENTRYPOINT); None: the image's own."""
    volumes: tuple[tuple[str, str, bool], ...] = ()
    """Volumes, each as (name, path in the container, True if read-only)."""
    anonymous_volumes: tuple[str, ...] = ()
    """Paths of anonymous volumes in the container."""
    tmpfs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Host names of the container for other containers in its network."""
    hostname: str | None = None
    extra_hosts: Mapping[str, str] = field(default_factory=dict)
    cap_drop: tuple[str, ...] = ()
    health: HealthTest | None = None

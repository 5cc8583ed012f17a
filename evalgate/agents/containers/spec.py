"""What a container is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

WORKER_FOLDER = "/opt/evalgate"
"""Where the agent host is copied to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuild:
    """An image that is built before the first case."""

    context: Path
    dockerfile: str = "Dockerfile"
    args: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    """The stage that is wanted; None: the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLimits:
    """What a container may use."""

    memory: str | None = None
    """As Docker has it: `512m`, `2g`."""
    cpus: float | None = None
    pids: int | None = None
    network: str = "bridge"
    """Name of a network; `none`: no network at all."""
    read_only: bool = False
    """Whether only volumes and /tmp can be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthTest:
    """How a container tells that it is well. Times are in seconds; None: Docker's own."""

    test: tuple[str, ...] | None = None
    """`("CMD", …)`, `("CMD-SHELL", line)` or `("NONE",)`; None: the image's own."""
    interval: float | None = None
    timeout: float | None = None
    retries: int | None = None
    start_period: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """A container that hosts the agent, or something that it needs."""

    image: str | ImageBuild
    command: tuple[str, ...] | None = None
    """None: the image's own."""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    limits: ContainerLimits = ContainerLimits()
    copied: tuple[tuple[Path, str], ...] = ()
    """Folders and files of this machine, and where they are copied to. Nothing of the machine is mounted: in
    a container action the daemon would not find the path, or find another folder there."""
    folder: str | None = None
    """Where the agent runs; None: where the image says."""
    port: int | None = None
    """Where it listens; None: it is spoken to over its streams, or not at all."""
    whose: str = "the agent"
    """What messages call its owner."""
    speaks: bool = True
    """Whether anybody listens to its streams or its port."""
    calls_gate: bool = False
    """Whether something in it asks the gate, as for spans to be taken."""
    entrypoint: tuple[str, ...] | None = None
    """None: the image's own."""
    volumes: tuple[tuple[str, str, bool], ...] = ()
    """Names of volumes, where they are seen, and whether they are only read."""
    scratch: tuple[str, ...] = ()
    """Where volumes without a name are seen."""
    tmpfs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Names under which the others in its network reach it."""
    hostname: str | None = None
    extra_hosts: Mapping[str, str] = field(default_factory=dict)
    cap_drop: tuple[str, ...] = ()
    health: HealthTest | None = None

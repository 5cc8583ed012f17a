"""What a container is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

WORKER_FOLDER = "/opt/evalgate"
"""Where the agent host is copied to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """An image that is built before the first case."""

    context: Path
    dockerfile: str = "Dockerfile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
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
class ContainerSpec:
    """A container that hosts the agent."""

    image: str | Build
    command: tuple[str, ...] | None = None
    """None: the image's own."""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    limits: Limits = Limits()
    copied: tuple[tuple[Path, str], ...] = ()
    """Folders of this machine, and where they are copied to. Nothing of the machine is mounted: in a
    container action the daemon would not find the path, or find another folder there."""
    folder: str | None = None
    """Where the agent runs; None: where the image says."""
    port: int | None = None
    """Where it listens; None: it is spoken to over its streams."""

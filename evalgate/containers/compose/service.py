"""What of a service in a Compose file is understood: https://github.com/compose-spec/compose-spec."""

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

IGNORED = frozenset(
    {
        *(
            "annotations",
            "attach",
            "container_name",
            "deploy",
            "develop",
            "expose",
            "init",
            "labels",
            "logging",
        ),
        *("networks", "ports", "profiles", "pull_policy", "restart", "stdin_open", "stop_grace_period"),
        *("stop_signal", "tty"),
    }
)
"""Keys that change nothing here: all services share one network of their own, and end with the run."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    parts = _DURATION.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"must be a duration, as `1m30s`, not {value!r}")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _words(value: object) -> object:
    return shlex.split(value) if isinstance(value, str) else value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str | Mapping) else value


def _text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _assignments(value: object) -> object:
    """`{A: 1}` for `[A=1]`; a name without a value is None."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        return value
    pairs = (each.partition("=") for each in value)
    return {name: text if equals else None for name, equals, text in pairs}


def _conditions(value: object) -> object:
    return {name: {} for name in value} if isinstance(value, list) else value


Seconds: TypeAlias = Annotated[float, BeforeValidator(_seconds)]
Words: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_words)]
Text: TypeAlias = Annotated[str, BeforeValidator(_text)]
Assignments: TypeAlias = Annotated[dict[str, Text | None], BeforeValidator(_assignments)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ServiceBuild(_Part):
    """How the image of a service is built."""

    context: str = "."
    """The folder that is sent to the daemon, relative to the file's."""
    dockerfile: str = "Dockerfile"
    args: Assignments = {}
    target: str | None = None


class Dependency(_Part):
    """What must be true of another service before this one starts."""

    condition: Literal["service_started", "service_healthy", "service_completed_successfully"] = (
        "service_started"
    )
    required: bool = True
    restart: bool = False


class HealthCheck(_Part):
    """How a container tells that it is well. Times are in seconds."""

    test: Annotated[
        tuple[str, ...] | None, BeforeValidator(lambda v: ["CMD-SHELL", v] if isinstance(v, str) else v)
    ] = None
    interval: Seconds | None = None
    timeout: Seconds | None = None
    retries: int | None = None
    start_period: Seconds | None = None
    start_interval: Seconds | None = None
    disable: bool = False


class EnvFile(_Part):
    """A file of variables."""

    path: str
    required: bool = True
    format: Literal["raw"] | None = None


class Volume(_Part):
    """Something that is seen at a path of the container."""

    type: Literal["volume", "bind", "tmpfs"] = "volume"
    source: str | None = None
    """Name of a volume, or path relative to the file's folder; None: a volume without a name."""
    target: str
    read_only: bool = False
    bind: dict[str, object] = {}
    volume: dict[str, object] = {}
    tmpfs: dict[str, object] = {}


def _volume(value: object) -> object:
    if not isinstance(value, str):
        return value
    source, colon, rest = value.partition(":")
    if not colon:
        return {"target": source}
    target, _, mode = rest.partition(":")
    kind = "bind" if source.startswith((".", "/", "~")) else "volume"
    return {"type": kind, "source": source, "target": target, "read_only": "ro" in mode.split(",")}


def _env_file(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


class Service(BaseModel):
    """One service, its variables filled in."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    image: str | None = None
    build: Annotated[
        ServiceBuild | None, BeforeValidator(lambda v: {"context": v} if isinstance(v, str) else v)
    ] = None
    command: Words | None = None
    entrypoint: Words | None = None
    environment: Assignments = {}
    env_file: Annotated[
        tuple[Annotated[EnvFile, BeforeValidator(_env_file)], ...], BeforeValidator(_listed)
    ] = ()
    volumes: tuple[Annotated[Volume, BeforeValidator(_volume)], ...] = ()
    tmpfs: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    healthcheck: HealthCheck | None = None
    depends_on: Annotated[dict[str, Dependency], BeforeValidator(_conditions)] = {}
    working_dir: str | None = None
    user: Text | None = None
    hostname: str | None = None
    extra_hosts: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    cap_drop: tuple[str, ...] = ()
    read_only: bool = False
    mem_limit: Text | None = None
    cpus: Annotated[float, Field(gt=0)] | None = None
    pids_limit: int | None = None


KNOWN = frozenset(Service.model_fields)

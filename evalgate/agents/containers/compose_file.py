"""Parser of Compose files: interpolation, env files, and the keys that are supported."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.documents.config_file import ConfigDocument, parse_yaml
from evalgate.documents.env_file import describe_read_error, read_env_file
from evalgate.documents.strict_json import Location
from evalgate.documents.validation_errors import format_location, validate_model
from evalgate.system.files import is_non_folder, read_text

# The empty group `wrong` matches every other `$`: a typing error is then reported, and not passed on.
_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<how>:?[-?+])(?P<word>[^{}]*))?\}|(?P<wrong>))"
)


class InterpolationError(Exception):
    """Error for a variable in a Compose file that is required and not set, or is written in a wrong form.

    The message begins with a verb. The caller puts the key of the Compose file before it, as its subject.
    """


def interpolate_text(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with its variables replaced; a variable with neither value nor default becomes empty.

    Raises:
        InterpolationError: a required variable is not set, or a `$` begins neither a variable nor `$$`.
    """

    def replace_variable(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        if found["plain"]:
            return values.get(found["plain"], "")
        if not found["name"]:
            raise InterpolationError("holds a `$` that names no variable (a plain one is written `$$`)")
        return _apply_operator(found["name"], found["how"] or "", found["word"] or "", values)

    return _VARIABLE.sub(replace_variable, text)


def _apply_operator(name: str, how: str, word: str, values: Mapping[str, str]) -> str:
    found = values.get(name)
    is_there = found is not None and (found != "" or not how.startswith(":"))
    match how[-1:]:
        case "-":
            return found if is_there and found is not None else word
        case "+":
            return word if is_there else ""
        case "?" if not is_there:
            raise InterpolationError(f"needs ${{{name}}}, which has no value{f': {word}' if word else ''}")
    return found or ""


IGNORED_KEYS = frozenset(
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
"""Keys of a service that have no effect.

Keys such as `ports` and `restart` are not needed: all services share one private network and end with the
run.
"""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def _parse_duration(value: object) -> object:
    if not isinstance(value, str):
        return value
    parts = _DURATION.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"must be a duration, as `1m30s`, not {value!r}")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _wrap_in_list(value: object) -> object:
    return [value] if isinstance(value, str | Mapping) else value


def _convert_to_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _parse_assignments(value: object) -> object:
    """Convert a list of texts such as `[A=1, B]` to `{A: "1", B: None}`; return other values unchanged."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        return value
    pairs = (each.partition("=") for each in value)
    return {name: text if equals else None for name, equals, text in pairs}


Seconds: TypeAlias = Annotated[float, BeforeValidator(_parse_duration)]
Words: TypeAlias = Annotated[
    tuple[str, ...], BeforeValidator(lambda v: shlex.split(v) if isinstance(v, str) else v)
]
Text: TypeAlias = Annotated[str, BeforeValidator(_convert_to_text)]
Assignments: TypeAlias = Annotated[dict[str, Text | None], BeforeValidator(_parse_assignments)]


class _ComposeModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ServiceBuild(_ComposeModel):
    """Key `build` of a service, which says from what the service's image is built."""

    context: str = "."
    """Folder that is sent to the daemon, relative to the Compose file's folder."""
    dockerfile: str = "Dockerfile"
    args: Assignments = {}
    target: str | None = None


class Dependency(_ComposeModel):
    """Item of `depends_on`: the condition that another service must fulfil before this service starts."""

    condition: Literal["service_started", "service_healthy", "service_completed_successfully"] = (
        "service_started"
    )
    required: bool = True
    restart: bool = False


class HealthCheck(_ComposeModel):
    """Health check of a container. Times are in seconds."""

    test: Annotated[
        tuple[str, ...] | None, BeforeValidator(lambda v: ["CMD-SHELL", v] if isinstance(v, str) else v)
    ] = None
    interval: Seconds | None = None
    timeout: Seconds | None = None
    retries: int | None = None
    start_period: Seconds | None = None
    start_interval: Seconds | None = None
    disable: bool = False


class EnvFile(_ComposeModel):
    """Item of `env_file`: a file with environment variables of the service."""

    path: str
    required: bool = True
    format: Literal["raw"] | None = None


class Volume(_ComposeModel):
    """Item of `volumes`: a volume, a folder or a tmpfs that is mounted at `target` in the container."""

    type: Literal["volume", "bind", "tmpfs"] = "volume"
    source: str | None = None
    """Name of a volume, or path relative to the Compose file's folder; None: an anonymous volume."""
    target: str
    read_only: bool = False
    bind: dict[str, object] = {}
    volume: dict[str, object] = {}
    tmpfs: dict[str, object] = {}


def _parse_volume(value: object) -> object:
    if not isinstance(value, str):
        return value
    source, colon, rest = value.partition(":")
    if not colon:
        return {"target": source}
    target, _, mode = rest.partition(":")
    kind = "bind" if source.startswith((".", "/", "~")) else "volume"
    return {"type": kind, "source": source, "target": target, "read_only": "ro" in mode.split(",")}


class ComposeService(BaseModel):
    """One service, with its variables interpolated."""

    # Other keys are checked before, with their lines: `IGNORED_KEYS` have no effect, and the rest is refused.
    model_config = ConfigDict(frozen=True, extra="ignore")

    image: str | None = None
    build: Annotated[
        ServiceBuild | None, BeforeValidator(lambda v: {"context": v} if isinstance(v, str) else v)
    ] = None
    command: Words | None = None
    entrypoint: Words | None = None
    environment: Assignments = {}
    env_file: Annotated[
        tuple[Annotated[EnvFile, BeforeValidator(lambda v: {"path": v} if isinstance(v, str) else v)], ...],
        BeforeValidator(_wrap_in_list),
    ] = ()
    volumes: tuple[Annotated[Volume, BeforeValidator(_parse_volume)], ...] = ()
    tmpfs: Annotated[tuple[str, ...], BeforeValidator(_wrap_in_list)] = ()
    healthcheck: HealthCheck | None = None
    depends_on: Annotated[
        dict[str, Dependency],
        BeforeValidator(lambda v: {name: {} for name in v} if isinstance(v, list) else v),
    ] = {}
    working_dir: str | None = None
    user: Text | None = None
    hostname: str | None = None
    extra_hosts: Annotated[tuple[str, ...], BeforeValidator(_wrap_in_list)] = ()
    cap_drop: tuple[str, ...] = ()
    read_only: bool = False
    mem_limit: Text | None = None
    cpus: Annotated[float, Field(gt=0)] | None = None
    pids_limit: int | None = None


KNOWN_KEYS = frozenset(ComposeService.model_fields)


DEFAULT_NAMES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_TOP_LEVEL_KEYS = frozenset({"services", "volumes", "networks", "name", "version"})


@frozen
class ComposeProject:
    """The agent's service and all services that it depends on."""

    folder: Path
    """Folder of the Compose file, to which the paths in the file are relative."""
    services: Mapping[str, ComposeService]
    """Services by name, each after the services that it depends on; the agent's service is last."""
    values: Mapping[str, str]
    """Values of the file's variables: those of the `.env` file, then those of the environment, which win."""
    aliases: Mapping[str, tuple[str, ...]]
    """Host names in the network, by service. The first host name of a service is the service's name."""
    path: str
    """Path of the Compose file, as error messages show it."""
    position: Callable[[Location], tuple[int, int]]
    """Function that returns the line and column of a location, such as `("services", "web", "image")`."""


def find_compose_file(folder: Path, named: str | None) -> Path:
    """Return the Compose file of a working folder.

    Args:
        folder: The working folder.
        named: Path of the file, relative to `folder`; None: the first of `DEFAULT_NAMES` that exists.

    Raises:
        InvalidInputError: there is no such file.
    """
    names = (named,) if named is not None else DEFAULT_NAMES
    found = next((folder / name for name in names if is_non_folder(folder / name)), None)
    if found is None:
        listed = " or ".join(names)
        raise InvalidInputError(f"`agent.service` needs a Compose file: there is no {listed} in {folder}")
    return found


def read_compose_project(
    path: Path, shown_as: str, service: str, environ: Mapping[str, str]
) -> ComposeProject:
    """Read one service of a Compose file and all services that it depends on, directly or indirectly.

    Args:
        path: The Compose file.
        shown_as: Path of the file in messages.
        service: The agent's service.
        environ: Values of variables; they take precedence over the `.env` next to the file.

    Raises:
        InvalidInputError: the file or the `.env` cannot be read, the file is not valid YAML, or the services
            have problems. Every problem of the services is listed with its line and column.
    """
    try:
        text = read_text(path, "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{shown_as}: cannot be read: {describe_read_error(error)}") from None
    # `environ` is the agent's environment. With the gate's own, a changed file could read the gate's secrets.
    own = _read_dotenv(path.parent / ".env", str(Path(shown_as).with_name(".env")))
    return _ProjectReader(parse_yaml(text, shown_as), {**own, **environ}).read_project(service, path.parent)


def _read_dotenv(path: Path, shown_as: str) -> Mapping[str, str]:
    """Return the variables of `path`, the `.env` file next to a Compose file.

    Return {} if there is no such file, or if it is a folder, such as a virtual environment.

    Raises:
        InvalidInputError: the file cannot be read.
    """
    if not is_non_folder(path):
        return {}
    try:
        return read_env_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{shown_as}: cannot be read: {describe_read_error(error)}") from None


class _ProjectReader:
    def __init__(self, document: ConfigDocument, values: Mapping[str, str]) -> None:
        self._document = document
        self._values = values
        self._problems: list[Problem] = []
        self._top = document.value if isinstance(document.value, dict) else {}
        services = self._top.get("services")
        self._services: Mapping[str, Any] = services if isinstance(services, dict) else {}

    def read_project(self, service: str, folder: Path) -> ComposeProject:
        for key in self._top:
            if key not in _TOP_LEVEL_KEYS and not str(key).startswith("x-"):
                self._report_unsupported((key,))
        found: dict[str, ComposeService] = {}
        self._add_service(service, (), found, at=("services",))
        self._check_volumes(found)
        if self._problems:
            raise InvalidInputError(sorted(set(self._problems)))
        aliases = {name: tuple(self._iter_aliases(name)) for name in found}
        document = self._document
        return ComposeProject(folder, found, self._values, aliases, document.path, document.find_position)

    def _add_service(
        self, name: str, above: tuple[str, ...], found: dict[str, ComposeService], at: Location
    ) -> None:
        if name in above:
            self._report_problem(at, f"depends on itself: {' → '.join([*above[above.index(name) :], name])}")
        elif name not in found and (service := self._parse_service(name, at)) is not None:
            listed = self._services[name].get("depends_on")
            # Only dependencies are read: the file's other services may use keys that are refused here.
            for other, dependency in service.depends_on.items():
                if other in self._services or dependency.required:
                    key = listed.index(other) if isinstance(listed, list) else other
                    location = ("services", name, "depends_on", key)
                    self._add_service(other, (*above, name), found, location)
            found[name] = service

    def _parse_service(self, name: str, at: Location) -> ComposeService | None:
        raw = self._services.get(name)
        if not isinstance(raw, dict):
            hint = did_you_mean(name, map(str, self._services))
            self._report_problem(at, f"knows no service `{name}`.{hint}")
            return None
        location = ("services", name)
        for key in raw:
            if key not in KNOWN_KEYS | IGNORED_KEYS and not str(key).startswith("x-"):
                self._report_unsupported((*location, key))
        service = validate_model(
            ComposeService,
            self._interpolate_value(raw, location),
            self._problems,
            file=self._document.path,
            position=self._document.find_position,
            prefix=location,
        )
        if service is not None and service.image is None and service.build is None:
            self._report_problem(location, "has neither `image` nor `build`")
        return service

    def _interpolate_value(self, value: Any, location: Location) -> Any:
        """Return `value` with the variables replaced in every text in it, at any depth.

        A text with an invalid variable stays unchanged, and a problem is recorded for it. `location` is the
        place of `value` in the file.
        """
        if isinstance(value, dict):
            return {key: self._interpolate_value(each, (*location, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self._interpolate_value(each, (*location, index)) for index, each in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return interpolate_text(value, self._values)
        except InterpolationError as error:
            self._report_problem(location, str(error))
            return value

    def _check_volumes(self, services: Mapping[str, ComposeService]) -> None:
        declared = self._top.get("volumes") or {}
        for name, service in services.items():
            for index, volume in enumerate(service.volumes):
                if volume.type != "volume" or volume.source is None:
                    continue
                settings = declared.get(volume.source) if isinstance(declared, dict) else None
                if isinstance(declared, dict) and volume.source not in declared:
                    location: Location = ("services", name, "volumes", index)
                    self._report_problem(
                        location, f"names the volume `{volume.source}`, which `volumes` does not"
                    )
                for key in settings or ():
                    if key not in {"name", "labels"}:
                        self._report_unsupported(("volumes", volume.source, key))

    def _iter_aliases(self, name: str) -> Iterator[str]:
        raw = self._services[name]
        yield name
        if isinstance(alias := raw.get("container_name"), str):
            yield alias
        networks = raw.get("networks")
        for network in networks.values() if isinstance(networks, dict) else ():
            aliases = network.get("aliases") if isinstance(network, dict) else None
            yield from (str(alias) for alias in aliases or ())

    def _report_unsupported(self, location: Location) -> None:
        self._report_problem(location, "is something that evalgate does not do for a service: leave it out")

    def _report_problem(self, location: Location, sentence: str) -> None:
        position = self._document.find_position(location)
        subject = f"`{format_location(location)}`" if location else "the file"
        self._problems.append(Problem(self._document.path, *position, f"{subject} {sentence}"))

"""Reads the services of a Compose file that an agent needs, in the order in which they are started."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evalgate.containers.compose.envfile import read_env_file, why_not
from evalgate.containers.compose.filling import CannotFill, filled
from evalgate.containers.compose.service import IGNORED, KNOWN, Service
from evalgate.errors import InvalidInput, Problem
from evalgate.frozen import frozen
from evalgate.reading.configfile import ConfigDocument, parse_yaml
from evalgate.reading.validation import Location, did_you_mean, path_text, shaped
from evalgate.system.files import is_readable_name, read_text

DEFAULT_NAMES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_TOP = frozenset({"services", "volumes", "networks", "name", "version"})


@frozen
class Composition:
    """The services that are run together."""

    folder: Path
    """Where the file is: its paths are relative to it."""
    services: Mapping[str, Service]
    """Each after those that it depends on; the agent's last."""
    values: Mapping[str, str]
    """What variables stand for."""
    aliases: Mapping[str, tuple[str, ...]]
    """The names under which each is reached."""
    path: str
    """The file, as messages call it."""
    position: Callable[[Location], tuple[int, int]]
    """Where something stands in it."""


def compose_file(folder: Path, named: str | None) -> Path:
    """The Compose file of a working folder. Raises InvalidInput: there is none."""
    names = (named,) if named is not None else DEFAULT_NAMES
    found = next((folder / name for name in names if is_readable_name(folder / name)), None)
    if found is None:
        listed = " or ".join(names)
        raise InvalidInput(f"`agent.service` needs a Compose file: there is no {listed} in {folder}")
    return found


def read_composition(path: Path, shown_as: str, service: str, environ: Mapping[str, str]) -> Composition:
    """The service of that name, and all that it depends on.

    Args:
        path: The Compose file.
        shown_as: What messages call it.
        service: The agent's service.
        environ: What variables stand for; the `.env` beside the file says what it does not.

    Raises:
        InvalidInput: with every problem of those services, each at its place.
    """
    try:
        text = read_text(path, "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{shown_as}: cannot be read: {why_not(error)}") from None
    own = _read_own_variables(path.parent / ".env", str(Path(shown_as).with_name(".env")))
    return _Reader(parse_yaml(text, shown_as), {**own, **environ}).read(service, path.parent)


def _read_own_variables(path: Path, shown_as: str) -> Mapping[str, str]:
    """Return the variables of the `.env` next to a Compose file; a folder of that name is an environment."""
    if not is_readable_name(path):
        return {}
    try:
        return read_env_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{shown_as}: cannot be read: {why_not(error)}") from None


class _Reader:
    def __init__(self, document: ConfigDocument, values: Mapping[str, str]) -> None:
        self._document = document
        self._values = values
        self._problems: list[Problem] = []
        self._top = document.value if isinstance(document.value, dict) else {}
        services = self._top.get("services")
        self._services: Mapping[str, Any] = services if isinstance(services, dict) else {}

    def read(self, service: str, folder: Path) -> Composition:
        for key in self._top:
            if key not in _TOP and not str(key).startswith("x-"):
                self._unsupported((key,))
        found: dict[str, Service] = {}
        self._add(service, (), found, at=("services",))
        self._check_volumes(found)
        if self._problems:
            raise InvalidInput(sorted(set(self._problems)))
        aliases = {name: tuple(self._aliases(name)) for name in found}
        document = self._document
        return Composition(folder, found, self._values, aliases, document.path, document.position)

    def _add(self, name: str, above: tuple[str, ...], found: dict[str, Service], at: Location) -> None:
        if name in above:
            self._problem(at, f"depends on itself: {' → '.join([*above[above.index(name) :], name])}")
        elif name not in found and (service := self._service(name, at)) is not None:
            for other, dependency in service.depends_on.items():
                if other in self._services or dependency.required:
                    self._add(other, (*above, name), found, self._place_of(name, other))
            found[name] = service

    def _place_of(self, name: str, dependency: str) -> Location:
        given = self._services[name]["depends_on"]
        last = given.index(dependency) if isinstance(given, list) else dependency
        return "services", name, "depends_on", last

    def _service(self, name: str, at: Location) -> Service | None:
        raw = self._services.get(name)
        if not isinstance(raw, dict):
            hint = did_you_mean(name, map(str, self._services))
            self._problem(at, f"knows no service `{name}`.{hint}")
            return None
        place = ("services", name)
        for key in raw:
            if key not in KNOWN | IGNORED and not str(key).startswith("x-"):
                self._unsupported((*place, key))
        service = shaped(
            Service,
            self._filled(raw, place),
            self._problems,
            file=self._document.path,
            position=self._document.position,
            prefix=place,
        )
        if service is not None and service.image is None and service.build is None:
            self._problem(place, "has neither `image` nor `build`")
        return service

    def _filled(self, value: Any, place: Location) -> Any:
        """`value` with its variables filled in."""
        if isinstance(value, dict):
            return {key: self._filled(each, (*place, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each, (*place, index)) for index, each in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return filled(value, self._values)
        except CannotFill as error:
            self._problem(place, str(error))
            return value

    def _check_volumes(self, services: Mapping[str, Service]) -> None:
        declared = self._top.get("volumes") or {}
        for name, service in services.items():
            for index, volume in enumerate(service.volumes):
                if volume.type != "volume" or volume.source is None:
                    continue
                settings = declared.get(volume.source) if isinstance(declared, dict) else None
                if isinstance(declared, dict) and volume.source not in declared:
                    place: Location = ("services", name, "volumes", index)
                    self._problem(place, f"names the volume `{volume.source}`, which `volumes` does not")
                for key in settings or ():
                    if key not in {"name", "labels"}:
                        self._unsupported(("volumes", volume.source, key))

    def _aliases(self, name: str) -> Iterator[str]:
        raw = self._services[name]
        yield name
        if isinstance(alias := raw.get("container_name"), str):
            yield alias
        networks = raw.get("networks")
        for network in networks.values() if isinstance(networks, dict) else ():
            aliases = network.get("aliases") if isinstance(network, dict) else None
            yield from (str(alias) for alias in aliases or ())

    def _unsupported(self, place: Location) -> None:
        self._problem(place, "is something that evalgate does not do for a service: leave it out")

    def _problem(self, place: Location, sentence: str) -> None:
        position = self._document.position(place)
        subject = f"`{path_text(place)}`" if place else "the file"
        self._problems.append(Problem(self._document.path, *position, f"{subject} {sentence}"))

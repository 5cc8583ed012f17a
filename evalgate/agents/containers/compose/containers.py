"""Containers out of services."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evalgate.agents.containers.compose.document import (
    Composition,
    Service,
    ServiceBuild,
    Volume,
    read_env_file,
    why_not,
)
from evalgate.agents.containers.spec import Build, ContainerSpec, HealthTest, Limits
from evalgate.core.errors import InvalidInput, Problem
from evalgate.documents.validation import Location, path_text
from evalgate.system.files import is_readable_name


class Specs:
    """Makes them, and remembers what cannot be made."""

    def __init__(self, composition: Composition, folder: Path) -> None:
        """`folder`: the working folder, of which files may be copied."""
        self._composition = composition
        self._folder = folder.resolve()
        self._problems: list[Problem] = []

    def all(self) -> Mapping[str, ContainerSpec]:
        """Service → its container; the names of its network and of its volumes are the file's own.

        Raises:
            InvalidInput: something that is to be copied or read is not there, or not in the working folder.
        """
        found = {name: self._spec(name, each) for name, each in self._composition.services.items()}
        if self._problems:
            raise InvalidInput(sorted(self._problems))
        return found

    def _spec(self, name: str, service: Service) -> ContainerSpec:
        volumes = service.volumes
        kept = [each for each in volumes if each.type == "volume"]
        mounted = [(index, each) for index, each in enumerate(volumes) if each.type == "bind"]
        return ContainerSpec(
            image=self._image(service),
            command=service.command,
            entrypoint=service.entrypoint,
            env=self._env(name, service),
            user=service.user,
            folder=service.working_dir,
            limits=Limits(
                memory=service.mem_limit,
                cpus=service.cpus,
                pids=service.pids_limit,
                read_only=service.read_only,
            ),
            copied=tuple((self._source(name, index, each), each.target) for index, each in mounted),
            volumes=tuple((each.source, each.target, each.read_only) for each in kept if each.source),
            scratch=tuple(each.target for each in kept if not each.source),
            tmpfs=(*service.tmpfs, *(each.target for each in volumes if each.type == "tmpfs")),
            aliases=self._composition.aliases[name],
            hostname=service.hostname,
            extra_hosts=dict(_host(each) for each in service.extra_hosts),
            cap_drop=service.cap_drop,
            health=_health(service),
            whose=f"the service `{name}`",
            speaks=False,
        )

    def _image(self, service: Service) -> str | Build:
        if service.build is None:
            return service.image or ""
        return self._build(service.build)

    def _build(self, build: ServiceBuild) -> Build:
        return Build(
            context=self._composition.folder / build.context,
            dockerfile=build.dockerfile,
            args=self._with_values(build.args),
            target=build.target,
        )

    def _env(self, name: str, service: Service) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in service.env_file:
            path = self._composition.folder / each.path
            if is_readable_name(path) or each.required:
                found |= self._read(name, path, each.path)
        return {**found, **self._with_values(service.environment)}

    def _read(self, name: str, path: Path, shown_as: str) -> dict[str, str]:
        try:
            return read_env_file(path)
        except (OSError, UnicodeDecodeError) as error:
            place = ("services", name, "env_file")
            self._problem(place, f"names {shown_as}, which cannot be read: {why_not(error)}")
        return {}

    def _with_values(self, given: Mapping[str, str | None]) -> dict[str, str]:
        """A name without a value has that of the variable; nothing, if there is none."""
        values = self._composition.values
        filled = {name: values.get(name) if value is None else value for name, value in given.items()}
        return {name: value for name, value in filled.items() if value is not None}

    def _source(self, name: str, index: int, volume: Volume) -> Path:
        """What is copied in the place of a mount."""
        place, source = ("services", name, "volumes", index), volume.source or ""
        path = (self._composition.folder / source).resolve()
        if not path.is_relative_to(self._folder):
            self._problem(
                place, f"mounts {source}, which is not in the working folder: nothing else is given"
            )
        elif not path.exists():
            self._problem(place, f"mounts {source}, which is not there")
        return path

    def _problem(self, place: Location, sentence: str) -> None:
        position = self._composition.position(place)
        sentence = f"`{path_text(place)}` {sentence}"
        self._problems.append(Problem(self._composition.path, *position, sentence))


def in_network(spec: ContainerSpec, network: str, volumes: Mapping[str, str]) -> ContainerSpec:
    """The same container in a network that is there, with the volumes that stand for those of the file."""
    return replace(
        spec,
        limits=replace(spec.limits, network=network),
        volumes=tuple((volumes[name], target, is_read) for name, target, is_read in spec.volumes),
    )


def _health(service: Service) -> HealthTest | None:
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


def _host(entry: str) -> tuple[str, str]:
    name, _, address = entry.replace("=", ":", 1).partition(":")
    return name, address

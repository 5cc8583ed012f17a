"""Conversion of Compose services to container specifications."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evalgate.agents.containers.compose.document import (
    ComposeProject,
    ComposeService,
    Volume,
    describe_read_error,
    read_env_file,
)
from evalgate.agents.containers.spec import ContainerLimits, ContainerSpec, HealthTest, ImageBuild
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.documents.validation import Location, format_location
from evalgate.system.files import is_readable_name


class ContainerSpecBuilder:
    """Builder of container specifications that collects the problems of all services."""

    def __init__(self, composition: ComposeProject, folder: Path) -> None:
        """Create a builder that may copy files of `folder`, the working folder."""
        self._composition = composition
        self._folder = folder.resolve()
        self._problems: list[Problem] = []

    def build_specs(self) -> Mapping[str, ContainerSpec]:
        """Return the container of each service; its network and volumes have the file's own names.

        Raises:
            InvalidInputError: a file that is to be copied or read is missing, or outside the working folder.
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
            scratch=tuple(each.target for each in kept if not each.source),
            tmpfs=(*service.tmpfs, *(each.target for each in volumes if each.type == "tmpfs")),
            aliases=self._composition.aliases[name],
            hostname=service.hostname,
            extra_hosts=dict(_parse_extra_host(each) for each in service.extra_hosts),
            cap_drop=service.cap_drop,
            health=_build_health_test(service),
            whose=f"the service `{name}`",
            speaks=False,
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
            if is_readable_name(path) or each.required:
                found |= self._read_env_file(name, path, each.path)
        return {**found, **self._fill_missing_values(service.environment)}

    def _read_env_file(self, name: str, path: Path, shown_as: str) -> dict[str, str]:
        try:
            return read_env_file(path)
        except (OSError, UnicodeDecodeError) as error:
            place = ("services", name, "env_file")
            self._report_problem(
                place, f"names {shown_as}, which cannot be read: {describe_read_error(error)}"
            )
        return {}

    def _fill_missing_values(self, given: Mapping[str, str | None]) -> dict[str, str]:
        """Return `given` with values for names without one; without those that no variable has either."""
        values = self._composition.values
        filled = {name: values.get(name) if value is None else value for name, value in given.items()}
        return {name: value for name, value in filled.items() if value is not None}

    def _resolve_mount(self, name: str, index: int, volume: Volume) -> Path:
        """Return the path that is copied instead of mounted; report a problem if it cannot be."""
        place, source = ("services", name, "volumes", index), volume.source or ""
        path = (self._composition.folder / source).resolve()
        if not path.is_relative_to(self._folder):
            self._report_problem(
                place, f"mounts {source}, which is not in the working folder: nothing else is given"
            )
        elif not path.exists():
            self._report_problem(place, f"mounts {source}, which is not there")
        return path

    def _report_problem(self, place: Location, sentence: str) -> None:
        position = self._composition.position(place)
        sentence = f"`{format_location(place)}` {sentence}"
        self._problems.append(Problem(self._composition.path, *position, sentence))


def place_in_network(spec: ContainerSpec, network: str, volumes: Mapping[str, str]) -> ContainerSpec:
    """Return the container in an existing network, with existing volumes instead of the file's."""
    return replace(
        spec,
        limits=replace(spec.limits, network=network),
        volumes=tuple((volumes[name], target, is_read) for name, target, is_read in spec.volumes),
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


def _parse_extra_host(entry: str) -> tuple[str, str]:
    name, _, address = entry.replace("=", ":", 1).partition(":")
    return name, address

"""Compose files mean what Docker Compose makes of them: `compose_cases.json`, which `compose.py` recorded."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.agents.containers.compose_agent import ContainerSpecBuilder
from evalgate.agents.containers.compose_file import read_compose_project
from evalgate.agents.containers.spec import ContainerSpec, ImageBuild
from evalgate.agents.workers.process import parse_memory_size
from tests.conformance.compose import ENVIRON, write_project

CASES = json.loads(Path(__file__).with_name("compose_cases.json").read_text("utf-8"))["services"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path)
    return tmp_path


def describe_spec(spec: ContainerSpec, folder: Path) -> dict[str, object]:
    """Return what differs from a container without any setting, in the words of `ContainerSpec`."""
    image, health, limits = spec.image, spec.health, spec.limits
    found: dict[str, Any] = {
        "env": spec.env,
        "command": spec.command,
        "volumes": spec.volumes,
        "scratch": spec.anonymous_volumes,
        "copied": [(str(source.relative_to(folder)), target) for source, target in spec.copied],
        "tmpfs": spec.tmpfs,
        "health": health
        and {
            name: getattr(health, name)
            for name in ("test", "interval", "timeout", "retries", "start_period")
            if getattr(health, name) is not None
        },
        "extra_hosts": spec.extra_hosts,
        "memory": limits.memory and parse_memory_size(limits.memory),
        "pids": limits.pids,
        "cpus": limits.cpus,
        "read_only": limits.read_only,
        "user": spec.user,
        "folder": spec.folder,
        "hostname": spec.hostname,
        "cap_drop": spec.cap_drop,
    }
    if isinstance(image, ImageBuild):
        found["build"] = {
            "context": str(image.context.relative_to(folder)),
            "dockerfile": image.dockerfile,
            "args": image.args,
            **({"target": image.target} if image.target else {}),
        }
    found = {name: value for name, value in found.items() if value}
    if spec.entrypoint is not None:  # an empty one removes the image's
        found["entrypoint"] = spec.entrypoint
    return found


@pytest.mark.parametrize(("service", "expected"), CASES, ids=[json.dumps(each) for each, _ in CASES])
def test_a_service_means_what_compose_makes_of_it(
    project: Path, service: dict[str, object], expected: dict[str, object]
) -> None:
    (project / "compose.yaml").write_text(
        json.dumps({"services": {"weather": service}, "volumes": {"data": None}})
    )
    read = read_compose_project(project / "compose.yaml", "compose.yaml", "weather", ENVIRON)
    spec = ContainerSpecBuilder(read, project).build_specs()["weather"]
    assert json.loads(json.dumps(describe_spec(spec, project))) == expected

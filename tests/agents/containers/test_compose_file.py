"""Refusals of Compose files, with their positions."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.agents.adapters.docker import DockerAgentOptions
from evalgate.agents.containers.compose_file import InterpolationError, interpolate_text
from evalgate.core.errors import InvalidInputError
from evalgate.documents.env_file import read_env_file
from tests.agents.http.server import build_context


def build_agent_of(folder: Path) -> None:
    DockerAgentOptions.model_validate({"service": "weather", "port": 8000}).build(
        build_context(folder=folder)
    )


def read_problems(folder: Path, text: str) -> list[str]:
    (folder / "compose.yaml").write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        build_agent_of(folder)
    return [str(problem) for problem in caught.value.problems]


def test_every_problem_is_reported_with_its_position(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    text = """\
include: [more.yaml]
services:
  weather:
    image: x
    privileged: true
    environment: {KEY: "${KEY:?give one}", PRICE: "$"}
    depends_on: [store, other]
    healthcheck: {interval: soon}
  store:
    depends_on: [weather]
    volumes: ["data:/data", "shared:/shared"]
  never:
    extends: {service: store}
volumes:
  shared: {external: true}
"""
    assert read_problems(tmp_path, text) == [
        "compose.yaml:1:1: `include` is something that evalgate does not do for a service: leave it out",
        "compose.yaml:5:5: `services.weather.privileged` is something that evalgate does not do for a service: leave it out",
        "compose.yaml:6:19: `services.weather.environment.KEY` needs ${KEY}, which has no value: give one",
        "compose.yaml:6:44: `services.weather.environment.PRICE` holds a `$` that names no variable (a plain one is written `$$`)",
        "compose.yaml:8:19: `services.weather.healthcheck.interval` must be a duration, as `1m30s`, not 'soon'",
    ]
    text = (
        text.replace("soon", "1s").replace("include: [more.yaml]\n", "").replace("    privileged: true\n", "")
    )
    text = text.replace('{KEY: "${KEY:?give one}", PRICE: "$"}', '{KEY: "$$"}')
    assert read_problems(tmp_path, text) == [
        "compose.yaml:5:25: `services.weather.depends_on[1]` knows no service `other`. Did you mean `weather`?",
        "compose.yaml:7:3: `services.store` has neither `image` nor `build`",
        "compose.yaml:8:18: `services.store.depends_on[0]` depends on itself: weather → store → weather",
        "compose.yaml:9:15: `services.store.volumes[0]` names the volume `data`, which `volumes` does not",
        "compose.yaml:13:12: `volumes.shared.external` is something that evalgate does not do for a service: leave it out",
    ]


def test_mounts_outside_the_working_folder_are_refused(tmp_path: Path) -> None:
    mounts = ["/var/run/docker.sock:/var/run/docker.sock", "../up:/up", "./gone:/gone"]
    text = json.dumps({"services": {"weather": {"image": "x", "env_file": "gone.env", "volumes": mounts}}})
    found = read_problems(tmp_path, text)
    assert [problem.partition(": ")[2] for problem in found] == [
        "`services.weather.env_file` names gone.env, which cannot be read: No such file or directory",
        "`services.weather.volumes[0]` mounts /var/run/docker.sock, which is not in the working folder: nothing else is given",
        "`services.weather.volumes[1]` mounts ../up, which is not in the working folder: nothing else is given",
        "`services.weather.volumes[2]` mounts ./gone, which is not there",
    ]


def test_missing_file_or_service_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match=r"there is no compose\.yaml or compose\.yml or docker-compose\.yaml"
    ):
        build_agent_of(tmp_path)
    assert read_problems(tmp_path, "services: {wether: {image: x}}\n") == [
        "compose.yaml:1:1: `services` knows no service `weather`. Did you mean `wether`?"
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "needs an `image`, or a `service`"),
        ({"service": "a", "image": "b"}, "has a `service`, which takes no `image`"),
        ({"service": "a", "build": "."}, "has a `service`, which takes no `build`"),
        ({"image": "b", "compose": "c.yaml"}, "has `compose`, which needs a `service`"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DockerAgentOptions.model_validate(options).build(build_context())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A-${A}-$$A", "a-a-$A"),
        ("${GONE}|$GONE|${EMPTY}", "||"),
        ("${GONE:-x}|${EMPTY:-x}|${EMPTY-x}|${A:-x}", "x|x||a"),
        ("${GONE:+x}|${EMPTY:+x}|${EMPTY+x}|${A:+x}", "||x|x"),
        ("${A:?no}|${EMPTY?no}", "a|"),
    ],
)
def test_variables_are_interpolated(text: str, expected: str) -> None:
    assert interpolate_text(text, {"A": "a", "EMPTY": ""}) == expected


@pytest.mark.parametrize("text", ["$", "${}", "${A", "${EMPTY:?no}", "${GONE?no}", "$-"])
def test_invalid_variables_are_refused(text: str) -> None:
    with pytest.raises(InterpolationError):
        interpolate_text(text, {"A": "a", "EMPTY": ""})


def test_env_file_is_read(tmp_path: Path) -> None:
    lines = ["# c", "A=1 # c", "export B='x # y'", 'C="a\\nb" # c', "D=", "E", "F = a b ", "G=x#y", "no way"]
    (tmp_path / "env").write_text("\n".join(lines))
    assert read_env_file(tmp_path / "env") == {
        "A": "1",
        "B": "x # y",
        "C": "a\nb",
        "D": "",
        "F": "a b",
        "G": "x#y",
    }

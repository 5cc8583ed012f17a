"""The image, used as docs/container.md says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evalgate import __version__
from tests.e2e import ROOT
from tests.e2e.containers import IMAGE, call, copy_of_sample, docker_run, foreign_files, hand_over
from tests.e2e.workspaces import add_requirements, workspace

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("image")]

NOT_ROOT = "1234:1234"


def record(folder: Path) -> Any:
    return json.loads((folder / "evalgate-report/results.json").read_text("utf-8"))


def statuses(folder: Path) -> list[str]:
    return [case["status"] for case in record(folder)["cases"]]


@pytest.mark.parametrize(
    ("argument", "expected"), [("--help", "Usage: evalgate"), ("--version", __version__)]
)
def test_the_image_starts(tmp_path: Path, argument: str, expected: str) -> None:
    ended = docker_run(tmp_path, argument)

    assert ended.code == 0, ended.log
    assert expected in ended.out


def test_the_image_is_small() -> None:
    size = call("docker", "image", "inspect", "--format", "{{.Size}}", IMAGE)

    assert int(size.out) <= 250_000_000


def test_a_bucket_asks_for_the_full_image(tmp_path: Path) -> None:
    folder = copy_of_sample(tmp_path / "desk")

    ended = docker_run(folder, "run", "--baseline", "s3://bucket/desk")

    assert ended.code == 2, ended.log
    assert "the image whose tag ends in `-full`" in ended.log


@pytest.mark.parametrize(("spoilt", "code", "status"), [(False, 0, "pass"), (True, 1, "fail")])
def test_the_exit_code_is_the_verdict(tmp_path: Path, spoilt: bool, code: int, status: str) -> None:
    folder = copy_of_sample(tmp_path / "desk", spoilt=spoilt)

    ended = docker_run(folder, "run")

    assert ended.code == code, ended.log
    assert record(folder)["verdict"]["status"] == status
    assert {path.name for path in (folder / "evalgate-report").iterdir()} == {
        "results.json",
        "junit.xml",
        "comment.md",
        "gl-code-quality-report.json",
    }
    assert foreign_files(folder) == []


@pytest.mark.parametrize("command", [["init"], ["run", "--out", "a/b/c"], ["baseline", "save"]])
def test_what_is_written_belongs_to_the_owner_of_the_workspace(tmp_path: Path, command: list[str]) -> None:
    folder = copy_of_sample(tmp_path / "desk")
    first = docker_run(folder, "run")
    assert first.code == 0, first.log

    ended = docker_run(folder, *command)

    assert ended.code == 0, ended.log
    assert foreign_files(folder) == []


def test_any_user_without_home_and_a_read_only_file_system_will_do(tmp_path: Path) -> None:
    folder = copy_of_sample(tmp_path / "desk")
    (folder / "evalgate-report").mkdir(mode=0o777)
    (folder / "evalgate-report").chmod(0o777)

    ended = docker_run(
        folder, "run", options=["-u", NOT_ROOT, "--read-only", "--tmpfs", "/tmp:exec", "--env", "HOME"]
    )

    assert ended.code == 0, ended.log
    assert statuses(folder) == ["passed"] * 4


def test_an_empty_environment_will_do(tmp_path: Path) -> None:
    folder = copy_of_sample(tmp_path / "desk")
    empty = ["-i", "/opt/venv/bin/python", "-IBu", "-m", "evalgate", "run"]

    ended = docker_run(folder, *empty, options=["--entrypoint", "/usr/bin/env"])

    assert ended.code == 0, ended.log


@pytest.mark.parametrize("guide", ["README.md", "docs/container.md"])
def test_the_commands_of_the_guides_run_as_they_are(image: str, tmp_path: Path, guide: str) -> None:
    typed = re.findall(r"^\$ (mkdir .+|docker .+)$", (ROOT / guide).read_text("utf-8"), re.MULTILINE)
    folder = copy_of_sample(tmp_path / "desk")
    home = tmp_path / "home"
    (home / ".cache/evalgate").mkdir(parents=True)
    hand_over(home)

    assert sum("docker run" in command for command in typed) >= 1
    for command in typed:
        build = command.startswith("docker build")
        ended = call("sh", "-c", command, cwd=ROOT if build else folder, env={"HOME": str(home)})
        assert ended.code == 0, f"{command}\n{ended.log}"


def test_a_home_that_stays_keeps_what_setup_installed(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "repo", "packages", ("can you import greeting", "yes"))
    add_requirements(folder, "greeting", [])
    home = tmp_path / "home"
    home.mkdir()
    hand_over(home)
    options = ["--network=none", "-v", f"{home}:/home/agent", "-e", "HOME=/home/agent"]
    installed = docker_run(folder, "run", "--setup", "pip install -r requirements.txt", options=options)
    assert installed.code == 0, installed.log

    ended = docker_run(folder, "run", "--setup", "pip show --quiet greeting", options=options)

    assert ended.code == 0, ended.log
    assert foreign_files(home) == []


@pytest.mark.parametrize("options", [[], ["-u", NOT_ROOT]])
def test_setup_installs_what_the_agent_needs(tmp_path: Path, options: list[str]) -> None:
    folder = workspace(
        tmp_path / "repo",
        "packages",
        ("can you import greeting", "yes"),
        ("can you import six", "yes"),
        ("can you import pydantic", "no"),
    )
    add_requirements(folder, "greeting", ["six"])

    ended = docker_run(
        folder,
        "run",
        "--setup",
        "pip install --disable-pip-version-check -r requirements.txt",
        "--out",
        "/tmp/report" if options else "evalgate-report",
        options=options,
    )

    assert ended.code == 0, ended.log
    assert foreign_files(folder) == []


def test_a_given_interpreter_runs_the_agent(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "repo", "packages", ("import pydantic", "no"), ("import json", "yes"))

    ended = docker_run(folder, "run", "--python", "/usr/local/bin/python3")

    assert ended.code == 0, ended.log
    assert statuses(folder) == ["passed"] * 2


def test_a_failing_setup_is_no_verdict_and_shows_why(tmp_path: Path) -> None:
    folder = copy_of_sample(tmp_path / "desk")

    ended = docker_run(folder, "run", "--setup", "echo the index is down; exit 9")

    assert ended.code == 3, ended.log
    assert "the index is down" in ended.err
    assert "Traceback" not in ended.log


def test_the_workspace_cannot_replace_a_part_of_the_gate(tmp_path: Path) -> None:
    folder = copy_of_sample(tmp_path / "desk")
    for module in ("click", "json", "evalgate", "sitecustomize"):
        (folder / f"{module}.py").write_text("raise SystemExit(0)\n", "utf-8")

    ended = docker_run(folder, "--version", options=["--env", "PYTHONPATH=/workspace"])

    assert ended.out == f"evalgate, version {__version__}\n", ended.log


def test_a_shell_finds_the_command(tmp_path: Path) -> None:
    ended = docker_run(tmp_path, "-c", "evalgate --version", options=["--entrypoint", "sh", "-u", NOT_ROOT])

    assert ended.code == 0, ended.log

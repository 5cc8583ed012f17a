"""One agent that tries everything, in a container action with the mounts of GitHub's runner.

The mounts are made here, so that the test needs nothing but Docker.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.act import PULL_REQUEST
from tests.e2e.checkouts import commit, git
from tests.e2e.containers import IMAGE, RUNNERS_UID, Ended, call, file_command
from tests.e2e.workspaces import project
from tests.github.server import FakeGitHub
from tests.github.world import HEAD_SHA, PULL, REPOSITORY

pytestmark = [
    pytest.mark.docker,
    pytest.mark.usefixtures("image"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives the workspace to the runner's user"),
]

SOCKET = Path("/var/run/docker.sock")
TOKEN = "ghs_writer"
KEYS = {"GITHUB_TOKEN": "ghs_canary_of_the_job", "OPENAI_API_KEY": "sk-canary-of-the-judge-0123456789"}
SECRETS = (TOKEN, *KEYS.values(), "fake.runtime.token")
FILES = {
    "GITHUB_OUTPUT": "set_output_x",
    "GITHUB_ENV": "set_env_x",
    "GITHUB_PATH": "add_path_x",
    "GITHUB_STATE": "save_state_x",
    "GITHUB_STEP_SUMMARY": "step_summary_x",
}
TRAP = "#!/bin/sh\n(id -u; env) >> /github/workspace/sprung\nexit 1\n"


class Job:
    """A job with one workspace, in which steps run one after the other."""

    def __init__(self, folder: Path, api: str) -> None:
        self.workspace = folder / "workspace"
        self.runner = folder / "runner"
        self.commands = self.runner / "file_commands"
        self._api = api
        for name in ("file_commands", "home", "workflow"):
            (self.runner / name).mkdir(parents=True)
        (self.runner / "workflow/event.json").write_text(json.dumps(PULL_REQUEST))
        for name in FILES.values():
            (self.commands / name).touch()

    def hand_over(self, group: int) -> None:
        """Give everything to the runner's user, with a group as bad as can be: that of the engine's socket."""
        for top in (self.workspace, self.runner):
            for path in (top, *top.rglob("*")):
                os.chown(path, RUNNERS_UID, group, follow_symlinks=False)

    def step(self, *arguments: str, inputs: Mapping[str, str]) -> Ended:
        """Run the action as the runner does."""
        mounts = {
            SOCKET: "/var/run/docker.sock",
            self.runner / "home": "/github/home",
            self.runner / "workflow": "/github/workflow",
            self.commands: "/github/file_commands",
            self.workspace: "/github/workspace",
        }
        environ = {
            **KEYS,
            **{f"INPUT_{name.upper()}": value for name, value in inputs.items()},
            **{name: f"/github/file_commands/{file}" for name, file in FILES.items()},
            "HOME": "/github/home",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self._api,
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": "/github/workflow/event.json",
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": "17",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_SHA": git(self.workspace, "rev-parse", "HEAD"),
            "GITHUB_WORKSPACE": "/github/workspace",
            "ACTIONS_RUNTIME_TOKEN": "fake.runtime.token",
        }
        options = [word for source, target in mounts.items() for word in ("-v", f"{source}:{target}")]
        options += [word for pair in environ.items() for word in ("-e", "=".join(pair))]
        ended = call(
            *("docker", "run", "--rm", "--network=host", "--workdir=/github/workspace", *options),
            *(IMAGE, *arguments),
        )
        outputs = dict(file_command((self.commands / FILES["GITHUB_OUTPUT"]).read_text("utf-8")))
        return Ended(ended.code, ended.out, ended.err, outputs)


@pytest.fixture
def hub() -> Iterator[FakeGitHub]:
    """A GitHub that takes comments."""
    with FakeGitHub().running() as running:
        yield running


@pytest.fixture
def job(tmp_path: Path, origin: str, hub: FakeGitHub) -> Job:
    """A job of a pull request whose agent is hostile, with a baseline on a branch of a host."""
    made = Job(tmp_path, hub.url)
    commit(project(made.workspace, "hostile", ("hello", "hi")))
    git(made.workspace, "remote", "add", "origin", origin)
    git(made.workspace, "push", "-q", "origin", "main")
    trap = made.workspace / "trap.sh"
    trap.write_text(TRAP)
    trap.chmod(0o755)
    (made.workspace / "victim").write_text("the victim's\n")
    made.hand_over(SOCKET.stat().st_gid)
    return made


def loot(job: Job, name: str) -> dict[str, Any]:
    """What the agent got."""
    found: dict[str, Any] = json.loads((job.workspace / name).read_text("utf-8"))
    return found


def assert_files_are_the_runners(job: Job, group: int) -> None:
    """Every command file is a regular one of the runner's user, and those that the gate never writes are empty."""
    for variable, name in FILES.items():
        status = (job.commands / name).lstat()
        assert stat.S_ISREG(status.st_mode), variable
        assert (status.st_uid, status.st_gid) == (RUNNERS_UID, group), variable
        if variable not in {"GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"}:
            assert status.st_size == 0, variable


def test_nothing_is_stolen_written_or_changed(job: Job, hub: FakeGitHub, tmp_path: Path) -> None:
    group = SOCKET.stat().st_gid
    wanted = {
        "comment": "true",
        "check": "true",
        "token": TOKEN,
        "python": "python3",
        "setup": "python3 agent.py setup",
    }

    ended = job.step("action", inputs=wanted)

    assert ended.code == 1, ended.log
    assert (ended.outputs["verdict"], ended.outputs["exit-code"]) == ("fail", "1")
    assert (ended.outputs["cases"], ended.outputs["failed"]) == ("1", "1")
    for name in ("loot.json", "loot_of_setup.json"):
        got = loot(job, name)
        assert got["who"] == [RUNNERS_UID, RUNNERS_UID if group != RUNNERS_UID else 65534, []]
        assert {key: got[key] for key in ("engines", "killed", "became", "written")} == {
            "engines": [],
            "killed": [],
            "became": [],
            "written": [],
        }
        assert 1 not in got["traced"]
        assert not [secret for secret in SECRETS if secret in json.dumps(got)]
        assert not [secret for secret in KEYS if secret in got["environ"]]
    assert_files_are_the_runners(job, group)
    assert "evalgate" in (job.commands / FILES["GITHUB_STEP_SUMMARY"]).read_text("utf-8")
    for variable in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE"):
        assert f"{variable} was changed, but not by the gate: the change was undone." in ended.out
    assert (job.workspace / "victim").read_text() == "the victim's\n"
    assert len(hub.world.comment_bodies(PULL)) == 1
    assert hub.world.comment_bodies(666) == []
    (check,) = hub.world.check_runs.values()
    assert check["head_sha"] == HEAD_SHA
    assert not (job.workspace / "sprung").exists()

    saved = job.step(
        *("baseline", "save", "--allow-failing", "--allow-pull-request", "--to=branch:kept"),
        inputs={"token": TOKEN},
    )

    assert saved.code == 0, saved.log
    assert "runs" in git(tmp_path / "served/origin.git", "show", "kept:baseline.json")
    assert not (job.workspace / "sprung").exists()
    for text in (ended.log, saved.log):
        assert not [secret for secret in SECRETS if secret in text]

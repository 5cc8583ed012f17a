"""Running workflows with `act`, and reading what it says of them.

What act is not: it makes its own checkout by copying the folder, knows no permissions, and gives a container
action the host's own network. What it runs is the workflow file, the action file and the image as they are.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e import ROOT
from tests.e2e.containers import IMAGE, call
from tests.github.server import FakeGitHub
from tests.github.world import HEAD_SHA, PULL, REPOSITORY

RUNNER = "evalgate/act-runner:local"
"""The image that jobs run in."""

ACT = Path(sys.executable).with_name("act")

SHIMS = Path(__file__).parent / "shims"
"""Stand-ins for actions that act would clone: composite actions of the same inputs."""

STORE = "/artifacts"
"""Where the stand-ins keep artifacts, inside the jobs' containers."""

RELEASED = "org/evalgate@v1"
"""How the workflows for users name the action."""


PULL_REQUEST: Mapping[str, Any] = {
    "number": PULL,
    "pull_request": {
        "number": PULL,
        "base": {"ref": "main", "sha": "0" * 40},
        "head": {"ref": "shorter-prompt", "sha": HEAD_SHA, "repo": {"full_name": REPOSITORY, "fork": False}},
    },
    "repository": {"full_name": REPOSITORY, "default_branch": "main"},
}
"""The payload of a pull request within the repository."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """What act says of a workflow run."""

    code: int
    results: Mapping[str, str]
    """Job name → its result."""
    steps: Mapping[str, str]
    """Step id → its result, in the job that ran it last."""
    said: Mapping[str, Any]
    """What the steps printed as `said NAME=JSON`."""
    lines: Sequence[Mapping[str, Any]]

    @property
    def log(self) -> str:
        """All that was printed."""
        return "\n".join(str(line.get("msg", line)).rstrip() for line in self.lines)

    @property
    def summaries(self) -> str:
        """What stands on the summary pages of the steps."""
        return "\n".join(line["content"] for line in self.lines if line.get("command") == "summary")


@dataclass(frozen=True, slots=True)
class Act:
    """A runner beside a folder for events and artifacts."""

    folder: Path
    options: Sequence[str] = field(default=())
    """Further options of act's, for every run."""
    mounts: Sequence[str] = ()
    """What else of this machine a job sees, as `FROM:TO`."""

    def run(
        self,
        repository: Path,
        event: str,
        payload: Mapping[str, object],
        *more: str,
        token: str = "ghs_dummy",
    ) -> Workflow:
        """Run what an event starts in a repository."""
        file, store = self.folder / f"{event}.json", self.folder / "artifacts"
        file.write_text(json.dumps(payload), "utf-8")
        store.mkdir(exist_ok=True)
        job = ("-P", f"ubuntu-latest={RUNNER}", "--pull=false", "--rm", "--json", "-e", str(file))
        secrets = ("-s", f"GITHUB_TOKEN={token}") if token else ()
        mount = ("--container-options", " ".join(f"-v {pair}" for pair in (f"{store}:{STORE}", *self.mounts)))
        ended = call(ACT, event, *job, *secrets, *mount, *self.options, *more, cwd=repository)
        return _read(ended.code, f"{ended.out}\n{ended.err}".splitlines())


def sample(name: str) -> str:
    """A workflow that we ship."""
    return (ROOT / "samples/workflows" / f"{name}.yml").read_text("utf-8")


@contextmanager
def github() -> Iterator[tuple[FakeGitHub, tuple[str, ...]]]:
    """A GitHub that takes comments, and the options that send a job to it."""
    with FakeGitHub().running() as running:
        yield running, ("--env", f"GITHUB_API_URL={running.url}")


def instead_of(action: str, folder: Path) -> tuple[str, str]:
    """The option that makes act take an action from a folder."""
    return "--local-repository", f"{action}={folder}"


def shims(workflow: str) -> tuple[str, ...]:
    """The options for every action that a workflow uses and we have a stand-in for, at the commit it names."""
    used = (line.partition("uses: ")[2].split()[0] for line in workflow.splitlines() if "uses: " in line)
    named = {action: SHIMS / action.partition("@")[0].rpartition("/")[2] for action in used}
    return tuple(
        word
        for action, folder in named.items()
        if action.startswith("actions/") and folder.is_dir()
        for word in instead_of(action, folder)
    )


def released_action(folder: Path) -> Path:
    """The action as a release has it: beside nothing, with an image that was built before."""
    folder.mkdir()
    (folder / "action.yml").write_bytes((ROOT / "action.yml").read_bytes())
    script = ROOT / ".github/released_action.py"
    done = call(sys.executable, script, f"docker://{IMAGE}", folder / "action.yml")
    assert done.code == 0, done.log
    reusable = folder / ".github/workflows/evalgate.yml"
    reusable.parent.mkdir(parents=True)
    reusable.write_bytes((ROOT / ".github/workflows/evalgate.yml").read_bytes())
    return folder


def _read(code: int, lines: Sequence[str]) -> Workflow:
    read = list(_objects(lines))
    results = {
        line["job"].partition("/")[2].strip(): line["jobResult"] for line in read if "jobResult" in line
    }
    steps = {
        line["stepID"][0]: line["stepResult"] for line in read if {"stepID", "stepResult"} <= line.keys()
    }
    printed = (line["msg"].strip() for line in read if line.get("raw_output"))
    pairs = (text.removeprefix("said ").partition("=") for text in printed if text.startswith("said "))
    return Workflow(code, results, steps, {name: json.loads(value) for name, _, value in pairs}, read)


def _objects(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        yield found if isinstance(found, dict) else {"msg": line}

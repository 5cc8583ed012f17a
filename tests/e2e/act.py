"""Run workflows with `act`, and read its results.

Differences from GitHub: act makes a checkout by copying the folder, has no permissions, and gives a container action
the host's network. The workflow file, the action file and the image are unchanged.
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
"""Image in which jobs run."""

ACT = Path(sys.executable).with_name("act")

SHIMS = Path(__file__).parent / "shims"
"""Folder of composite actions that replace actions that act would clone, with the same inputs."""

STORE = "/artifacts"
"""Folder in the jobs' containers in which these replacements store artifacts."""

RELEASED = "org/evalgate@v1"
"""Name of the action in the workflows for users."""


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
    """Results of a workflow run, from the log of act."""

    code: int
    results: Mapping[str, str]
    """Result of each job by name."""
    steps: Mapping[str, str]
    """Result of each step by id; if several jobs have the step, of the job that ran last."""
    said: Mapping[str, Any]
    """Values that the steps printed as `said NAME=JSON`, by name."""
    lines: Sequence[Mapping[str, Any]]

    @property
    def log(self) -> str:
        """Return the whole output of the workflow."""
        return "\n".join(str(line.get("msg", line)).rstrip() for line in self.lines)

    @property
    def summaries(self) -> str:
        """Return the texts of the step summaries."""
        return "\n".join(line["content"] for line in self.lines if line.get("command") == "summary")


@dataclass(frozen=True, slots=True)
class Act:
    """Runner of workflows, with a folder for events and artifacts."""

    folder: Path
    options: Sequence[str] = field(default=())
    """Further options of act for every run."""
    mounts: Sequence[str] = ()
    """Further folders of this machine to mount into jobs, as `FROM:TO`."""

    def run(
        self,
        repository: Path,
        event: str,
        payload: Mapping[str, object],
        *more: str,
        token: str = "ghs_dummy",
    ) -> Workflow:
        """Run the workflows that an event starts in a repository."""
        file, store = self.folder / f"{event}.json", self.folder / "artifacts"
        file.write_text(json.dumps(payload), "utf-8")
        store.mkdir(exist_ok=True)
        job = ("-P", f"ubuntu-latest={RUNNER}", "--pull=false", "--rm", "--json", "-e", str(file))
        secrets = ("-s", f"GITHUB_TOKEN={token}") if token else ()
        mount = ("--container-options", " ".join(f"-v {pair}" for pair in (f"{store}:{STORE}", *self.mounts)))
        ended = call(ACT, event, *job, *secrets, *mount, *self.options, *more, cwd=repository)
        return _read(ended.code, f"{ended.out}\n{ended.err}".splitlines())


def sample(name: str) -> str:
    """Return the text of a workflow in `samples/workflows`."""
    return (ROOT / "samples/workflows" / f"{name}.yml").read_text("utf-8")


@contextmanager
def github() -> Iterator[tuple[FakeGitHub, tuple[str, ...]]]:
    """Yield a running fake GitHub, and the options of act that make jobs use it."""
    with FakeGitHub().running() as running:
        yield running, ("--env", f"GITHUB_API_URL={running.url}")


def instead_of(action: str, folder: Path) -> tuple[str, str]:
    """Return the option that makes act use `folder` as the action `action`."""
    return "--local-repository", f"{action}={folder}"


def shims(workflow: str) -> tuple[str, ...]:
    """Return the options of act for every action of a workflow that has a replacement in `SHIMS`."""
    used = (line.partition("uses: ")[2].split()[0] for line in workflow.splitlines() if "uses: " in line)
    named = {action: SHIMS / action.partition("@")[0].rpartition("/")[2] for action in used}
    return tuple(
        word
        for action, folder in named.items()
        if action.startswith("actions/") and folder.is_dir()
        for word in instead_of(action, folder)
    )


def released_action(folder: Path) -> Path:
    """Write the action as in a release: only its `action.yml`, with an image that was built before."""
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

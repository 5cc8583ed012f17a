"""Workflows that use the action, run by `act`."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.e2e import ROOT
from tests.e2e.containers import call, copy_of_sample

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.usefixtures("act_alone")]

RUNNER = "evalgate/act-runner:local"
ACT = Path(sys.executable).with_name("act")

SHIMS = Path(__file__).parent / "shims"
"""Stand-ins for actions that act would clone: composite actions of the same inputs."""

EVENT = {
    "pull_request": {
        "number": 7,
        "base": {"ref": "main", "sha": "0" * 40},
        "head": {"ref": "shorter-prompt", "sha": "1" * 40, "repo": {"full_name": "acme/demo", "fork": False}},
    },
    "repository": {"full_name": "acme/demo", "default_branch": "main"},
}

WORKFLOW = """\
on: pull_request
permissions: {}
jobs:
  gate:
    runs-on: ubuntu-latest
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2
        with:
          persist-credentials: false
      - id: gate
        uses: ./
        with:
          working-directory: desk
      - id: after
        if: always()
        env:
          GATE: ${{ toJSON(steps.gate) }}
        run: |
          echo "gate=$(jq -c . <<<"$GATE")"
          echo "report=$(jq -c .verdict.status desk/evalgate-report/results.json)"
"""


@dataclass(frozen=True, slots=True)
class Job:
    """What act says of a workflow run."""

    code: int
    result: str
    steps: dict[str, str]
    """Step id → its result."""
    said: dict[str, Any]
    """What the steps printed as `name=JSON`."""
    lines: list[dict[str, Any]]

    @property
    def log(self) -> str:
        return "\n".join(str(line.get("msg", line)).rstrip() for line in self.lines)


Act: TypeAlias = Callable[..., Job]


@pytest.fixture
def act(docker: None) -> Act:
    """Run the workflows of a repository as GitHub would on a pull request."""
    if call("docker", "image", "inspect", RUNNER).code:
        pytest.skip(f"there is no image {RUNNER} to run jobs in")

    def run(repository: Path, *more: str) -> Job:
        (repository.parent / "event.json").write_text(json.dumps(EVENT), "utf-8")
        job = (
            "-P",
            f"ubuntu-latest={RUNNER}",
            "--pull=false",
            "--rm",
            "--json",
            "-s",
            "GITHUB_TOKEN=ghs_dummy",
        )
        ended = call(ACT, "pull_request", *job, "-e", "../event.json", *more, cwd=repository)
        return _read(ended.code, f"{ended.out}\n{ended.err}".splitlines())

    return run


def _read(code: int, lines: Sequence[str]) -> Job:
    read = list(_objects(lines))
    results = [line["jobResult"] for line in read if "jobResult" in line]
    steps = {
        line["stepID"][0]: line["stepResult"] for line in read if {"stepID", "stepResult"} <= line.keys()
    }
    printed = [line["msg"].strip().partition("=") for line in read if line.get("raw_output")]
    said = {name: json.loads(value) for name, _, value in printed if name in {"gate", "report"}}
    return Job(code, results[-1] if results else "none", steps, said, read)


def _objects(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            yield {"msg": line}


def repository(folder: Path, *, spoilt: bool) -> Path:
    """The action and the sample agent in one repository, with nothing but what the image is built from."""
    folder.mkdir()
    for name in ("Dockerfile", ".dockerignore", "action.yml", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "evalgate", folder / "evalgate", ignore=shutil.ignore_patterns("__pycache__"))
    copy_of_sample(folder / "desk", spoilt=spoilt)
    return folder


def commit(folder: Path) -> Path:
    """Make it a repository with one commit."""
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "safe.directory=*")
    for command in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "All of it")):
        done = call("git", *who, *command, cwd=folder)
        assert done.code == 0, done.log
    return folder


def add_workflow(folder: Path, text: str) -> None:
    """The only workflow of the repository."""
    place = folder / ".github/workflows/gate.yml"
    place.parent.mkdir(parents=True)
    place.write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("spoilt", "code", "result", "verdict"), [(False, 0, "success", "pass"), (True, 1, "failure", "fail")]
)
def test_a_pull_request_is_as_green_as_its_agent(
    act: Act, tmp_path: Path, spoilt: bool, code: int, result: str, verdict: str
) -> None:
    folder = repository(tmp_path / "repository", spoilt=spoilt)
    add_workflow(folder, WORKFLOW)

    job = act(commit(folder))

    assert (job.code, job.result) == (code, result), job.log
    assert job.steps["gate"] == result
    assert job.steps["after"] == "success"
    gate = job.said["gate"]
    assert gate["outcome"] == result
    assert (gate["outputs"]["verdict"], gate["outputs"]["exit-code"]) == (verdict, str(code))
    assert gate["outputs"]["results"] == "desk/evalgate-report/results.json"
    assert job.said["report"] == verdict
    assert "tool_trajectory_avg_score" in "".join(_summaries(job))


def _summaries(job: Job) -> Iterator[str]:
    return (line["content"] for line in job.lines if line.get("command") == "summary")


@pytest.mark.parametrize(("spoilt", "result"), [(False, "success"), (True, "failure")])
def test_the_workflow_that_users_copy_runs_as_it_is(
    act: Act, tmp_path: Path, spoilt: bool, result: str
) -> None:
    ours = repository(tmp_path / "evalgate", spoilt=False)
    theirs = copy_of_sample(tmp_path / "theirs", spoilt=spoilt)
    add_workflow(theirs, (ROOT / "samples/workflows/evalgate.yml").read_text("utf-8"))

    job = act(commit(theirs), *_local("org/evalgate@v1", ours), *_local_upload(theirs))

    assert job.result == result, job.log
    assert "kept evalgate-report/: comment.md gl-code-quality-report.json junit.xml results.json" in job.log


def test_our_own_workflow_proves_the_action_on_a_good_and_a_bad_agent(act: Act, tmp_path: Path) -> None:
    folder = repository(tmp_path / "evalgate", spoilt=False)
    (folder / "samples").mkdir()
    (folder / "desk").rename(folder / "samples/order_desk")
    add_workflow(folder, (ROOT / ".github/workflows/ci.yml").read_text("utf-8"))

    job = act(commit(folder), "-j", "action", *_local_upload(folder))

    assert job.result == "success", job.log
    assert (job.steps["good"], job.steps["bad"]) == ("success", "failure")


def _local(action: str, folder: Path) -> tuple[str, str]:
    return "--local-repository", f"{action}={folder}"


def _local_upload(folder: Path) -> tuple[str, str]:
    """The stand-in for upload-artifact, at the commit that the repository's workflow names."""
    workflow = (folder / ".github/workflows/gate.yml").read_text("utf-8")
    version = workflow.partition("actions/upload-artifact@")[2].split()[0]
    return _local(f"actions/upload-artifact@{version}", SHIMS / "upload-artifact")

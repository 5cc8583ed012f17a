"""The action with the mounts, the user and the environment of GitHub's own runner."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from tests.e2e import ROOT
from tests.e2e.checkouts import commit, git
from tests.e2e.conftest import Command
from tests.e2e.containers import Ended, copy_of_sample, foreign_files, hand_over, run_like_github
from tests.e2e.workspaces import workspace

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("image")]

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
SECRET = "ghs_canary"

Gate: TypeAlias = Callable[..., Ended]


@pytest.fixture
def gate(tools: Path, tmp_path: Path) -> Gate:
    """Run the action on a workspace, as a step whose `with` and `env` are given."""

    def run(folder: Path, inputs: Mapping[str, str], **env: str) -> Ended:
        declared = {name: declaration["default"] for name, declaration in ACTION["inputs"].items()}
        script = tools / "container/run_like_github.sh"
        arguments = ACTION["runs"]["args"]
        return run_like_github(
            script, folder, tmp_path / "runner", *arguments, inputs={**declared, **inputs}, env=env
        )

    return run


def test_an_agent_that_is_good_enough(gate: Gate, tmp_path: Path) -> None:
    folder = copy_of_sample(tmp_path / "desk")

    ended = gate(folder, {})

    assert ended.code == 0, ended.log
    assert ended.outputs == {
        "verdict": "pass",
        "exit-code": "0",
        "cases": "4",
        "passed": "4",
        "failed": "0",
        "errored": "0",
        "not-evaluated": "0",
        "results": "evalgate-report/results.json",
        "junit": "evalgate-report/junit.xml",
        "comment": "evalgate-report/comment.md",
        "html": "",
    }
    assert list(ended.outputs) == list(ACTION["outputs"])
    assert ended.summary.strip() == (folder / "evalgate-report/comment.md").read_text("utf-8").strip()
    assert foreign_files(folder) == []


def test_an_agent_that_got_worse(gate: Gate, tmp_path: Path) -> None:
    folder = copy_of_sample(tmp_path / "desk", spoilt=True)

    ended = gate(folder, {})

    assert ended.code == 1, ended.log
    assert (ended.outputs["verdict"], ended.outputs["exit-code"]) == ("fail", "1")
    assert int(ended.outputs["failed"]) > 0
    assert "refund" in ended.summary
    assert foreign_files(folder) == []


def test_paths_in_the_outputs_are_relative_to_the_workspace(gate: Gate, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    copy_of_sample(repository / "agents desk")
    hand_over(repository)

    ended = gate(
        repository,
        {
            "working-directory": "agents desk",
            "out": "reports/now",
            "eval-sets": "evals/refunds.evalset.json\n",
        },
    )

    assert ended.code == 0, ended.log
    assert ended.outputs["results"] == "agents desk/reports/now/results.json"
    assert all((repository / ended.outputs[name]).is_file() for name in ("results", "junit", "comment"))
    assert foreign_files(repository) == []


@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        ({"runs": "many"}, 2, "many"),
        ({"thresholds": "absent.yaml"}, 2, "absent.yaml"),
        ({"treshold": "evalgate.yaml"}, 2, "thresholds"),
        ({"setup": 'echo "a b\\" && exit 5'}, 3, "exit"),
        ({"setup": "exit 9"}, 3, "exit code 9"),
    ],
)
def test_no_run_is_an_error_in_the_outputs_too(
    gate: Gate, tmp_path: Path, inputs: Mapping[str, str], code: int, said: str
) -> None:
    folder = copy_of_sample(tmp_path / "desk")

    ended = gate(folder, inputs)

    assert ended.code == code, ended.log
    assert said in ended.err
    assert "Traceback" not in ended.log
    assert (ended.outputs["verdict"], ended.outputs["exit-code"]) == ("error", str(code))
    assert foreign_files(folder) == []


def test_a_workflow_may_replace_the_arguments(tools: Path, tmp_path: Path) -> None:
    folder = copy_of_sample(tmp_path / "desk")

    ended = run_like_github(
        tools / "container/run_like_github.sh",
        folder,
        tmp_path / "runner",
        "run",
        "--out=elsewhere",
        inputs={"out": "ignored"},
    )

    assert ended.code == 0, ended.log
    assert ended.outputs["results"] == "elsewhere/results.json"


def test_the_rules_of_a_pull_request_are_those_of_its_base(gate: Gate, tmp_path: Path) -> None:
    """The gate is root and the checkout the runner's, which git by itself refuses to read."""
    folder = commit(copy_of_sample(tmp_path / "desk", spoilt=True))
    git(folder, "checkout", "-q", "-b", "change")
    rules = folder / "evalgate.yaml"
    rules.write_text(
        rules.read_text("utf-8").replace("1.0", "0.0").replace("score: 0.8", "score: 0.0"), "utf-8"
    )
    git(folder, "commit", "-q", "-a", "-m", "Soften")
    git(folder, "checkout", "-q", "--detach", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "Merge", "change")
    hand_over(folder)

    ended = gate(folder, {}, GITHUB_SHA=git(folder, "rev-parse", "HEAD"), GITHUB_REF="refs/pull/7/merge")

    assert ended.code == 1, ended.log
    assert "This change edits evalgate.yaml, but the gate goes by the version of the base branch" in ended.out
    assert foreign_files(folder) == []


def test_the_agent_sees_nothing_of_the_gate(gate: Gate, tmp_path: Path) -> None:
    folder = workspace(tmp_path / "repo", "nosy", ("hello", "hi"))

    ended = gate(
        folder,
        {"env": "WANTED", "agent": "python:agent.py:answer"},
        GITHUB_TOKEN=SECRET,
        ACTIONS_ID_TOKEN_REQUEST_TOKEN=SECRET,
        UNWANTED=SECRET,
        WANTED="yes",
    )

    assert ended.code == 1, ended.log
    seen = json.loads((folder / "seen.json").read_text("utf-8"))
    assert seen["environ"]["WANTED"] == "yes"
    assert seen["uid"] == folder.stat().st_uid
    assert seen["groups"] in ([], [folder.stat().st_gid])
    assert seen["docker"] is False
    assert [
        name for name in seen["environ"] if name.startswith(("GITHUB_", "ACTIONS_", "INPUT_", "RUNNER_"))
    ] == []
    everything = json.dumps(seen)
    for hidden in (SECRET, "INPUT_", "/github/file_commands", "fake.runtime.token"):
        assert hidden not in everything
    assert foreign_files(folder) == []


def test_the_agent_cannot_speak_to_the_runner(
    gate: Gate, runner_commands: Callable[[Sequence[str]], list[Command]], tmp_path: Path
) -> None:
    folder = workspace(tmp_path / "repo", "nosy", ("hello", "hi"), ("please fail", "hi"))

    ended = gate(folder, {})

    lines = [*ended.out.splitlines(), *ended.err.splitlines()]
    allowed = {"error", "warning", "notice", "group", "endgroup"}
    assert {name for name, _, _ in runner_commands(lines)} <= allowed, ended.log
    assert not [data for _, _, data in runner_commands(lines) if data == "forged"]
    assert (ended.outputs["verdict"], ended.outputs["failed"]) != ("pass", "0")
    assert ended.outputs["exit-code"] == str(ended.code) == "1"


def test_the_setup_command_cannot_speak_to_the_runner(
    gate: Gate, runner_commands: Callable[[Sequence[str]], list[Command]], tmp_path: Path
) -> None:
    folder = copy_of_sample(tmp_path / "desk")
    shout = "echo '::set-output name=verdict::pass'; echo 'so ##[set-output name=verdict;]pass'; env; exit 9"

    ended = gate(folder, {"setup": shout}, GITHUB_TOKEN=SECRET)

    assert "set-output" in ended.err
    assert SECRET not in ended.log
    assert runner_commands([*ended.out.splitlines(), *ended.err.splitlines()]) == []
    assert (ended.code, ended.outputs["verdict"]) == (3, "error")

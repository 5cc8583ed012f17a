"""The two workflows for pull requests from forks, run by `act` against a GitHub that keeps comments.

Exercised: both workflow files as they are shipped, the released action and its image, and every request to GitHub's
API. Not exercised: GitHub's own download-artifact (a stand-in copies the files), and that GitHub gives the first
workflow no secret and the second one a token that can write (the tests hand them out so).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evalgate.datasets.results_io import dump_record
from tests.e2e.act import PULL_REQUEST, Act, Workflow, github, sample, shims
from tests.e2e.checkouts import commit, sample_with
from tests.github.server import FakeGitHub
from tests.github.world import HEAD_SHA, PULL, REPOSITORY
from tests.situations import hostile

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.usefixtures("act_alone")]

UNTRUSTED, TRUSTED = "41", "42"
VICTIM = 8
FORK = {
    **PULL_REQUEST,
    "pull_request": {
        **PULL_REQUEST["pull_request"],
        "head": {"ref": "change", "sha": HEAD_SHA, "repo": {"full_name": "eve/demo", "fork": True}},
    },
}
COMPLETED = {
    "action": "completed",
    "repository": {"id": 1, "full_name": REPOSITORY, "default_branch": "main"},
    "workflow_run": {
        "id": int(UNTRUSTED),
        "event": "pull_request",
        "head_sha": HEAD_SHA,
        "head_branch": "change",
        "head_repository": {"full_name": "eve/demo"},
        "pull_requests": [],
    },
}


def world_of(hub: FakeGitHub) -> None:
    """The pull request from a fork, and another one that it would like to speak under."""
    hub.world.pulls[PULL] = {"sha": HEAD_SHA, "repository": "eve/demo"}
    hub.world.pulls[VICTIM] = {"sha": "6e" * 20}


def post(act: Act, folder: Path, hub: FakeGitHub) -> Workflow:
    """Run the trusted workflow in a repository that holds nothing else."""
    text = sample("evalgate-fork-comment")
    base = folder / "base"
    (base / ".github/workflows").mkdir(parents=True)
    (base / ".github/workflows/comment.yml").write_text(text, "utf-8")
    commit(base)
    environ = ("--env", f"GITHUB_RUN_ID={TRUSTED}", "--env", f"GITHUB_API_URL={hub.url}")
    return act.run(base, "workflow_run", COMPLETED, *environ, *shims(text), token="ghs_writer")


def test_a_fork_is_gated_without_secrets_and_reported_with_a_token(act: Act, tmp_path: Path) -> None:
    text = sample("evalgate-fork-run")
    theirs = sample_with(tmp_path / "theirs", text, spoilt=True)

    with github() as (hub, _):
        world_of(hub)
        untrusted = act.run(
            theirs, "pull_request", FORK, "--env", f"GITHUB_RUN_ID={UNTRUSTED}", *shims(text), token=""
        )
        asked_before = len(hub.exchanges)
        trusted = post(act, tmp_path, hub)

    assert untrusted.results == {"evalgate": "failure"}, untrusted.log
    assert asked_before == 0
    assert trusted.results == {"comment": "success"}, trusted.log
    (body,) = hub.world.comment_bodies(PULL)
    assert "Gate closed" in body
    assert "Reported by a run of the pull request's own code" in body
    assert hub.world.comment_bodies(VICTIM) == []


def plant(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """An artifact that the untrusted run could have uploaded, whatever its workflow file says."""
    for name, content in files.items():
        file = folder / "artifacts" / UNTRUSTED / "evalgate-record" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


def aimed(record: str, **more: object) -> str:
    """A record that names another pull request, commit and repository wherever one might be looked for."""
    wish = {"pull_request": VICTIM, "number": VICTIM, "head_sha": "6e" * 20, "repository": "eve/demo", **more}
    found: dict[str, Any] = json.loads(record)
    return json.dumps({**found, **wish})


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(dump_record(hostile()), id="as it was written"),
        pytest.param(aimed(dump_record(hostile())), id="aimed at somebody else"),
    ],
)
def test_a_hostile_artifact_speaks_under_no_other_pull_request_and_runs_nothing(
    act: Act, tmp_path: Path, record: str
) -> None:
    plant(
        tmp_path,
        {
            "results.json": record,
            "event.json": json.dumps(PULL_REQUEST).replace(f": {PULL}", f": {VICTIM}"),
            "evalgate/__init__.py": "open('/tmp/owned', 'w')",
            "click.py": "raise SystemExit('owned')",
            ".git/config": "[core]\n\tfsmonitor = echo owned\n",
        },
    )

    with github() as (hub, _):
        world_of(hub)
        trusted = post(act, tmp_path, hub)

    assert trusted.results == {"comment": "success"}, trusted.log
    (body,) = hub.world.comment_bodies(PULL)
    assert hub.world.comment_bodies(VICTIM) == []
    assert {each.method for each in hub.exchanges} <= {"GET", "POST"}
    assert all(each.path.startswith(f"/repos/{REPOSITORY}") for each in hub.exchanges)
    assert body.count("<!--") == body.count("<!-- evalgate:")
    assert "ghs_writer" not in trusted.log + body
    assert "owned" not in trusted.log

"""The workflow that starts a gate again, run by `act`: who may ask, and for which run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.act import PULL_REQUEST, Act, github, sample
from tests.e2e.checkouts import add_workflow, commit
from tests.github.world import HEAD_SHA, PULL, Run

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.usefixtures("act_alone")]

REPOSITORY = PULL_REQUEST["repository"]


def comment(body: str, person: str, **more: object) -> tuple[str, Mapping[str, Any]]:
    """A comment under the pull request."""
    issue = {"number": PULL, "pull_request": {"url": "https://api.github.com/x"}, **more}
    sender = {"sender": {"login": person}, "repository": REPOSITORY}
    return "issue_comment", {"action": "created", "issue": issue, "comment": {"body": body}, **sender}


def button(app: str, identifier: str = "evalgate-run-again") -> tuple[str, Mapping[str, Any]]:
    """A press on the button of a check run."""
    check = {"name": "evalgate", "head_sha": HEAD_SHA, "app": {"slug": app}}
    pressed = {"action": "requested_action", "requested_action": {"identifier": identifier}}
    return "check_run", {**pressed, "check_run": check, "sender": {"login": "mona"}, "repository": REPOSITORY}


@pytest.mark.parametrize(
    ("event", "conclusion", "reruns", "result"),
    [
        (comment("/evalgate", "mona"), "failure", [33], "success"),
        (comment("/evalgate", "eve"), "failure", [], "failure"),
        (comment("/evalgate", "mona"), "action_required", [], "failure"),
        (comment("/evalgate $(id)", "mona"), "failure", [], None),
        (button("our-gate"), "failure", [33], "success"),
        (button("their-gate"), "failure", [], None),
    ],
)
def test_a_person_who_may_write_starts_the_newest_run_of_the_commit_again(
    act: Act,
    tmp_path: Path,
    event: tuple[str, Mapping[str, Any]],
    conclusion: str,
    reruns: list[int],
    result: str | None,
) -> None:
    folder = tmp_path / "theirs"
    add_workflow(folder, sample("evalgate-again"), "again")
    commit(folder)

    with github() as (hub, options):
        hub.world.permissions["mona"] = "write"
        hub.world.runs += [Run(32, "pull_request", "change"), Run(33, "pull_request", "change", conclusion)]
        hub.world.runs += [Run(34, "pull_request", "change", sha="6e" * 20), Run(35, "push", "change")]
        run = act.run(folder, *event, *options, "--var", "EVALGATE_APP=our-gate", token="ghs_writer")

    assert hub.world.reruns == reruns, run.log
    assert run.results.get("again") in {result, "skipped" if result is None else result}, run.log

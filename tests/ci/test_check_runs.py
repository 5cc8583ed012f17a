"""Check runs, posted to a real server."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.ci.check_runs import Check, build_outputs
from evalgate.ci.github_pull_request import post_check, post_pull_request
from evalgate.ci.posting import Annotation, PostContent, PostNotice, PostOptions, PostResult
from tests.ci.conftest import account_on
from tests.ci.hosts import QUICK
from tests.github.faults import Fault
from tests.github.server import FakeGitHub
from tests.github.world import HEAD_SHA, PULL, REPOSITORY, Grant

NOTE = Annotation("evals/a.evalset.json", 12, "expected `a`, got `b`", "case-1")


def _check(count: int) -> Check:
    notes = tuple(replace(NOTE, line=number + 1) for number in range(count))
    return Check("evalgate", "failure", "1 case got worse", "# Report", notes)


@pytest.mark.parametrize(("count", "requests"), [(0, 1), (1, 1), (50, 1), (51, 2), (120, 3)])
def test_annotations_are_sent_in_batches_of_fifty(github: FakeGitHub, count: int, requests: int) -> None:
    outcome = post_check(account_on(github), HEAD_SHA, _check(count), timeouts=QUICK)
    (number,) = github.world.check_runs
    assert outcome == PostResult("posted", "", f"https://github.com/acme/demo/runs/{number}")
    run = github.world.check_runs[number]
    assert (run["status"], run["conclusion"], run["head_sha"]) == ("completed", "failure", HEAD_SHA)
    assert [note["start_line"] for note in run["annotations"]] == list(range(1, count + 1))
    assert len(github.exchanges) == requests


def test_an_annotation_has_a_place_a_message_and_a_title(github: FakeGitHub) -> None:
    post_check(account_on(github), HEAD_SHA, _check(1), timeouts=QUICK)
    (run,) = github.world.check_runs.values()
    assert run["annotations"] == [
        {
            "path": "evals/a.evalset.json",
            "start_line": 1,
            "end_line": 1,
            "annotation_level": "failure",
            "message": "expected `a`, got `b`",
            "title": "case-1",
        }
    ]
    assert (run["output"]["title"], run["output"]["summary"]) == ("1 case got worse", "# Report")


@pytest.mark.parametrize(
    ("author", "buttons"), [("github-actions[bot]", []), ("our-gate[bot]", ["evalgate-run-again"])]
)
def test_only_the_check_run_of_an_app_has_a_button(
    github: FakeGitHub, tmp_path: Path, author: str, buttons: list[str]
) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": PULL, "head": {"sha": HEAD_SHA}}}), "utf-8")
    environ = {
        "GITHUB_TOKEN": "ghs_writer",
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_API_URL": github.url,
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_RUN_ID": "31",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(event),
    }
    content = PostContent("fail", "1 case got worse", lambda limit: "# Report"[:limit])
    options = PostOptions(check=True, author=author)
    notices: list[PostNotice] = []
    post_pull_request(content, options, notices.append, environ=environ, timeouts=QUICK)
    (notice,) = notices
    (run,) = github.world.check_runs.values()
    assert notice.sentence.startswith("The check run is posted")
    assert [each["identifier"] for each in run.get("actions", [])] == buttons
    assert f"[run 31](https://github.com/{REPOSITORY}/actions/runs/31)" in run["output"]["summary"]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=502),
        Fault("PATCH", status=500),
        Fault(cut="before"),
        Fault("POST", cut="after"),
        Fault("POST", cut="halfway"),
        Fault("PATCH", cut="after"),
        Fault("PATCH", body=b"<html>502 Bad Gateway</html>"),
    ],
    ids=repr,
)
def test_a_transient_fault_leaves_one_complete_check_run(github: FakeGitHub, fault: Fault) -> None:
    github.faults.append(fault)
    outcome = post_check(account_on(github), HEAD_SHA, _check(60), timeouts=QUICK)
    assert outcome.kind == "posted"
    (run,) = github.world.check_runs.values()
    assert len(run["annotations"]) == 60
    assert (run["status"], run["conclusion"]) == ("completed", "failure")


def test_a_check_run_whose_answer_was_lost_is_not_created_again(github: FakeGitHub) -> None:
    # The check run of another job has the same name, is newer and hides ours in GitHub's default list.
    theirs = {"name": "evalgate", "head_sha": HEAD_SHA, "annotations": [], "external_id": "another job's"}
    lose_the_answer = Fault("POST", "check-runs", cut="after", times=2)
    github.faults += [lose_the_answer, Fault("GET", "check-runs", status=502, times=3)]
    github.world.check_runs[5000] = dict(theirs)
    assert post_check(account_on(github), HEAD_SHA, _check(1), timeouts=QUICK).kind == "posted"
    assert [run["external_id"] for run in github.world.check_runs.values() if run["annotations"]] == [
        next(each.body["external_id"] for each in github.exchanges if each.method == "POST")
    ]
    assert lose_the_answer.times == 1


def test_a_server_that_fails_each_time_is_asked_five_times_to_create(github: FakeGitHub) -> None:
    refusing = Fault("POST", "check-runs", status=502, times=999)
    github.faults.append(refusing)
    outcome = post_check(account_on(github), HEAD_SHA, _check(1), timeouts=QUICK)
    assert outcome == PostResult("failed", "GitHub answered 502: Server Error (given up after 5 attempts)")
    assert 999 - refusing.times == 5


def test_a_token_without_permission_is_skipped(github: FakeGitHub) -> None:
    github.world.grants["reader"] = Grant(writes=frozenset({"issues"}))
    outcome = post_check(account_on(github, "reader"), HEAD_SHA, _check(1), timeouts=QUICK)
    assert outcome.kind == "skipped"
    assert outcome.reason == (
        "GitHub answered 403: Resource not accessible by integration (the token may not do this: the job "
        "needs `permissions: checks: write`; in a pull request from a fork it may only read)"
    )


def test_a_lasting_fault_is_given_up(github: FakeGitHub) -> None:
    github.faults.append(Fault(status=503, times=999))
    outcome = post_check(account_on(github), HEAD_SHA, _check(1), timeouts=replace(QUICK, total_s=1.5))
    assert outcome.kind == "failed"
    assert re.fullmatch(
        r"GitHub answered 503: Server Error \(given up (at once|after [12] s)\)", outcome.reason
    )


@given(st.text(), st.text(), st.text(), st.text(), st.integers())
def test_no_text_makes_a_request_that_github_refuses(
    title: str, summary: str, path: str, message: str, line: int
) -> None:
    note = Annotation(path * 300, line, message * 3000, title * 60)
    (made,) = build_outputs(Check("x", "failure", title * 60, summary * 30_000, (note,)))
    annotation: dict[str, Any] = made["annotations"][0]
    assert 0 < len(made["title"]) <= 255
    assert 0 < len(made["summary"]) <= 65_535
    assert 0 < len(annotation["message"].encode()) <= 65_536
    assert len(annotation.get("title", "")) <= 255
    assert annotation["path"]
    assert annotation["start_line"] >= 1

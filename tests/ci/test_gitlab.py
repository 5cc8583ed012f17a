"""A record at the merge request, through a real server."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from evalgate.ci.comment_sections import read_sections
from evalgate.ci.posting import PostNotice, PostOptions
from evalgate.cli.comment import post_stored_record
from evalgate.core.types import Record
from evalgate.datasets.results_io import dump_record
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.runner.publish import post_record
from tests.ci.conftest import QUICK
from tests.gitlab.quickactions import quick_actions
from tests.gitlab.server import HOME, FakeGitLab, Member
from tests.situations import GOLDEN, green, hostile, huge, regression


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    with FakeGitLab().running() as running:
        yield running


def post_report(record: Record, options: PostOptions, environ: Mapping[str, str]) -> list[PostNotice]:
    return list(post_record(record, options, CommentReport(), str, environ=environ, timeouts=QUICK))


def test_the_note_is_the_report(gitlab: FakeGitLab) -> None:
    (told,) = post_report(regression(), PostOptions(comment=True), gitlab.environ())
    assert told == PostNotice("info", f"The note is posted: {HOME}/-/merge_requests/7#note_1001")
    (section,) = read_sections(gitlab.bodies()[0]).values()
    assert (section.key, section.run, section.attempt) == ("", 900, 12345678901)
    assert section.text.startswith("### ❌ Gate closed: ")


def test_a_job_that_is_tried_again_reports_anew_and_an_older_pipeline_does_not(gitlab: FakeGitLab) -> None:
    posting = PostOptions(comment=True)
    post_report(regression(), posting, gitlab.environ())
    post_report(green(), posting, gitlab.environ(CI_JOB_ID="12345678902"))
    (told,) = post_report(
        regression(), posting, gitlab.environ(CI_PIPELINE_ID="899", CI_JOB_ID="99999999999")
    )
    assert told.sentence == ("The note was not posted: a newer run has already reported. The verdict stands.")
    assert "Gate open" in gitlab.bodies()[0]


def test_legs_of_a_matrix_share_the_note_of_their_gate(gitlab: FakeGitLab) -> None:
    for leg, record in {"gpt": green(), "claude": regression()}.items():
        post_report(record, PostOptions(comment=True, name="support", section=leg), gitlab.environ())
    post_report(huge(3000), PostOptions(comment=True, name="billing"), gitlab.environ())
    assert [list(read_sections(body)) for body in gitlab.bodies()] == [["claude", "gpt"], [""]]


@pytest.mark.parametrize(
    ("job_id", "begins", "gate"),
    [
        ("12345678902", "The note is updated: ", "Gate open"),
        (
            "12345678900",
            "The note was not posted: another job of this run reported in its place",
            "Gate closed",
        ),
    ],
    ids=["a later leg", "an earlier leg"],
)
def test_legs_without_a_section_are_told(gitlab: FakeGitLab, job_id: str, begins: str, gate: str) -> None:
    post_report(regression(), PostOptions(comment=True), gitlab.environ(CI_JOB_NAME="gate: [gpt]"))
    leg = gitlab.environ(CI_JOB_ID=job_id, CI_JOB_NAME="gate: [claude]")
    (told,) = post_report(green(), PostOptions(comment=True), leg)
    assert told.level == "warning"
    assert told.sentence.startswith(begins)
    assert 'a section of its own, for example `--section "$CI_JOB_NAME"`' in told.sentence
    assert gate in gitlab.bodies()[0]


@pytest.mark.parametrize(
    ("more", "level", "reason"),
    [
        ({"GITLAB_TOKEN": "reader"}, "notice", "403"),
        ({"GITLAB_TOKEN": ""}, "notice", "there is no token"),
        ({"GITLAB_TOKEN": "gone"}, "warning", "401"),
        ({"EVALGATE_GITLAB_TOKEN": "gone"}, "warning", "401"),
        ({"CI_MERGE_REQUEST_IID": ""}, "notice", "no merge request"),
    ],
)
def test_what_cannot_be_posted_is_told(
    gitlab: FakeGitLab, more: dict[str, str], level: str, reason: str
) -> None:
    gitlab.members["reader"] = Member("reader", writes=False)
    (told,) = post_report(regression(), PostOptions(comment=True), gitlab.environ(**more))
    assert told.level == level
    assert reason in told.sentence
    assert told.sentence.endswith("The verdict stands.")


def test_the_variable_that_is_named_holds_the_token(gitlab: FakeGitLab) -> None:
    environ = gitlab.environ(GITLAB_TOKEN="gone", BOT="glpat-writer")
    (told,) = post_report(green(), PostOptions(comment=True, token_env="BOT"), environ)
    assert told.level == "info"


def test_check_runs_are_githubs(gitlab: FakeGitLab) -> None:
    (told,) = post_report(green(), PostOptions(check=True), gitlab.environ())
    assert told.level == "notice"
    assert "Code Quality" in told.sentence


@pytest.mark.parametrize("situation", GOLDEN.values(), ids=list(GOLDEN))
def test_no_report_sets_off_a_quick_action(gitlab: FakeGitLab, situation: object) -> None:
    assert callable(situation)
    record = situation()
    post_report(record, PostOptions(comment=True), gitlab.environ())
    assert gitlab.executed == []
    assert quick_actions(CommentReport().render(record)) == []
    assert not re.search("(?m)^/", gitlab.bodies()[0])


def test_the_command_posts_a_stored_record_and_never_fails(gitlab: FakeGitLab, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(dump_record(hostile()), encoding="utf-8")
    posting = PostOptions(comment=True)
    (told,) = post_stored_record(
        "results.json", posting, folder=tmp_path, environ=gitlab.environ(), timeouts=QUICK
    )
    assert told.level == "info"
    assert "Reported by a run of the pull request's own code" in gitlab.bodies()[0]
    done = subprocess.run(
        [sys.executable, "-m", "evalgate", "comment", "results.json"],
        cwd=tmp_path,
        env={**os.environ, **gitlab.environ(GITLAB_TOKEN="gone"), "GITHUB_ACTIONS": ""},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "The note was not posted: GitLab answered 401" in done.stderr
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["schema_version"]

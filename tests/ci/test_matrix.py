"""Jobs of one run that post to one comment under the same key: a matrix without `section`."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from evalgate.ci.comment_sections import CommentSection, read_sections, render_body
from evalgate.ci.posting import PostOptions, PostResult
from tests.ci.conftest import post
from tests.ci.hosts import QUICK
from tests.ci.test_github_pull_request import environ_of, post_report
from tests.github.faults import Fault
from tests.github.server import FakeGitHub
from tests.situations import green, regression

ADVICE = "give each job a section of its own, for example `section: ${{ matrix.x }}`"
NOTE = "> **Another job of this run reported here, too; only the last report is shown.**"


def _text(github: FakeGitHub) -> str:
    (body,) = github.world.comment_bodies()
    (section,) = read_sections(body).values()
    return section.text


@pytest.mark.parametrize("job", ["", "b"], ids=["unnamed", "named"])
def test_a_job_that_was_overwritten_gives_way(github: FakeGitHub, job: str) -> None:
    comment = github.world.add_comment(render_body("main", [CommentSection("", "of the last run", 1, 1)]))
    theirs = render_body("main", [CommentSection("", "of a", 2, 1, "a" if job else "")])

    def overwrite() -> None:
        github.world.edit_comment(comment, theirs)

    github.faults += [Fault("GET"), Fault("GET", then=overwrite)]
    result = post(github, "of b", run=2, job=job)
    assert (result.kind, result.reason) == (
        "failed",
        f"another job of this run replaced it with its own report: {ADVICE}",
    )
    assert _text(github) == "of a"
    assert github.count("PATCH") == 1


def test_a_later_job_replaces_the_report_and_says_so(github: FakeGitHub) -> None:
    post(github, "of a", run=2, job="a")
    result = post(github, "of b", run=2, job="b", shorter=lambda limit: "of b"[:limit])
    assert (result.kind, result.needs_attention) == ("updated", True)
    assert result.reason == f"it replaces the report of another job of this run: {ADVICE}"
    assert _text(github).startswith(NOTE)
    assert _text(github).endswith("\n\nof b")


@pytest.mark.parametrize(("run", "attempt"), [(2, 0), (1, 1)], ids=["another attempt", "another run"])
def test_a_later_attempt_or_run_replaces_without_a_notice(github: FakeGitHub, run: int, attempt: int) -> None:
    github.world.add_comment(render_body("main", [CommentSection("", "of a", run, attempt, "a")]))
    result = post(github, "of b", run=2, job="b")
    assert (result.kind, result.needs_attention, result.reason) == ("updated", False, "")
    assert _text(github) == "of b"


def test_another_step_of_the_same_job_replaces_without_a_notice(github: FakeGitHub) -> None:
    post(github, "first", job="a")
    result = post(github, "second", job="a")
    assert (result.kind, result.needs_attention) == ("updated", False)
    assert _text(github) == "second"


def test_ten_jobs_end_quickly_with_one_report(github: FakeGitHub) -> None:
    def job(number: int) -> PostResult:
        return post(github, f"of {number}", job=f"job {number}", timeouts=replace(QUICK, total_s=120.0))

    with ThreadPoolExecutor(10) as pool:
        results = list(pool.map(job, range(10)))
    winner = _text(github).rpartition("of ")[2]
    assert winner in {str(number) for number in range(10)}
    silent = [each for each in results if ADVICE not in each.reason]
    assert len(silent) <= 1
    assert {each.kind for each in results} <= {"posted", "updated", "failed"}
    writes = github.count("POST") + github.count("PATCH")
    assert writes <= 20, "each job writes once, and once more where a list was old"


@pytest.mark.parametrize(
    ("other", "level"),
    [
        ({"RUNNER_NAME": "GitHub Actions 2"}, "warning"),
        ({"ACTIONS_ORCHESTRATION_ID": "1f0e.gate.b"}, "warning"),
        ({"GITHUB_JOB": "other"}, "warning"),
        ({}, "info"),
    ],
    ids=["another leg", "another leg on the same runner", "another job", "the same job"],
)
def test_legs_of_a_matrix_are_told_apart(
    github: FakeGitHub, tmp_path: Path, other: dict[str, str], level: str
) -> None:
    leg = {"RUNNER_NAME": "GitHub Actions 1", "ACTIONS_ORCHESTRATION_ID": "1f0e.gate.a"}
    environ = environ_of(github, tmp_path, GITHUB_JOB="gate", **leg)
    post_report(green(), PostOptions(comment=True), environ)
    (notice,) = post_report(regression(), PostOptions(comment=True), {**environ, **other})
    assert notice.level == level
    assert (ADVICE in notice.sentence) == (level == "warning")

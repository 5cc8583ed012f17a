"""One sticky comment, posted to a real server."""

import logging
import re
import subprocess
import sys
import time
from dataclasses import replace
from typing import Literal

import pytest

from evalgate.ci.comment_sections import CommentSection, format_marker, read_sections
from evalgate.ci.github_actions import HeadCommit, PullRequest
from evalgate.ci.github_client import Account
from evalgate.ci.github_pull_request import post_comment
from evalgate.ci.posting import NoPullRequest, PostResult
from evalgate.core.extras import describe_install
from tests.ci.conftest import QUICK, TOKEN, account_on, post
from tests.github.faults import Fault, limit_used_up, slow_down
from tests.github.server import FakeGitHub
from tests.github.world import HEAD_SHA, PULL, REPOSITORY, Grant

BOT = Grant()
SOMEBODY = Grant(login="mallory", kind="User")
OLD = f"{format_marker('main')}\n\nold"


def texts(github: FakeGitHub) -> list[dict[str, str]]:
    """Key → text of every comment."""
    return [
        {key: section.text for key, section in read_sections(body).items()}
        for body in github.world.comment_bodies()
    ]


def test_first_it_is_posted_then_updated_then_left_alone(github: FakeGitHub) -> None:
    assert post(github, "one").kind == "posted"
    updated = post(github, "two", run=2)
    assert updated == PostResult(
        "updated", "", f"https://github.com/{REPOSITORY}/pull/{PULL}#issuecomment-1001"
    )
    writes = github.count("PATCH")
    assert post(github, "two", run=2).kind == "unchanged"
    assert texts(github) == [{"": "two"}]
    assert github.count("PATCH") == writes


def test_the_same_run_may_correct_itself(github: FakeGitHub) -> None:
    post(github, "one")
    assert post(github, "two").kind == "updated"
    assert texts(github) == [{"": "two"}]


def test_a_newer_run_is_never_overwritten(github: FakeGitHub) -> None:
    post(github, "new", run=9)
    assert post(github, "old", run=8).reason == "a newer run has already reported"
    assert texts(github) == [{"": "new"}]


def test_gates_have_comments_of_their_own(github: FakeGitHub) -> None:
    for gate in ("main", "nightly", "main/é -->"):
        assert post(github, gate, gate=gate).kind == "posted"
    assert post(github, "again", gate="nightly", run=2).kind == "updated"
    assert texts(github) == [{"": "main"}, {"": "again"}, {"": "main/é -->"}]


def test_jobs_own_sections_of_one_comment(github: FakeGitHub) -> None:
    for key in ("linux", "mac", "linux"):
        post(github, f"on {key}", key=key, shared=True)
    assert texts(github) == [{"linux": "on linux", "mac": "on mac"}]


def test_the_comment_is_found_on_any_page(github: FakeGitHub) -> None:
    github.page_size = 10
    for number in range(35):
        github.world.add_comment(f"chat {number}", SOMEBODY)
    github.world.add_comment(OLD)
    assert post(github).kind == "updated"
    assert len(github.world.comments) == 36


@pytest.mark.parametrize(
    "body", [OLD, f"I quote:\n{OLD}", f"> {OLD}"], ids=["marker first", "marker later", "quoted"]
)
def test_a_comment_of_somebody_else_is_never_touched(github: FakeGitHub, body: str) -> None:
    theirs = github.world.add_comment(body, SOMEBODY)
    assert post(github).kind == "posted"
    assert post(github, "more", run=2).kind == "updated"
    assert theirs.edits == 0
    assert len(github.world.comment_bodies()) == 2


def test_duplicates_are_merged_into_the_oldest_and_removed(github: FakeGitHub) -> None:
    post(github, "on linux", key="linux")
    kept = github.world.comment_bodies()[0]
    github.world.add_comment(kept.replace("linux", "mac"))
    github.world.add_comment(kept.replace("on linux", "on linux, later").replace("run=1", "run=2"))
    theirs = github.world.add_comment(kept, SOMEBODY)
    post(github, "on windows", key="windows", run=2)
    expected = {"linux": "on linux, later", "mac": "on mac", "windows": "on windows"}
    assert texts(github) == [expected, {"linux": "on linux"}]
    assert theirs.edits == 0


def test_a_deleted_comment_is_posted_again(github: FakeGitHub) -> None:
    post(github, "one")
    github.world.edit_comment(next(iter(github.world.comments.values())), None)
    assert post(github, "two", run=2).kind == "posted"
    assert texts(github) == [{"": "two"}]


def test_a_comment_that_is_deleted_meanwhile_is_posted_again(github: FakeGitHub) -> None:
    post(github, "one")
    comment = next(iter(github.world.comments.values()))
    github.faults.append(Fault("PATCH", then=lambda: github.world.edit_comment(comment, None)))
    assert post(github, "two", run=2).kind == "posted"
    assert texts(github) == [{"": "two"}]


def test_a_list_that_is_a_moment_old_makes_no_duplicate(github: FakeGitHub) -> None:
    github.world.lag_s = 0.15
    assert post(github, "one").kind == "posted"
    assert texts(github) == [{"": "one"}]
    post(github, "two", run=2)
    assert texts(github) == [{"": "two"}]


def test_the_comment_of_an_app_is_found_by_what_it_posts(github: FakeGitHub) -> None:
    github.world.grants["app"] = Grant(login="our-gate[bot]")
    first = post(github, "one", token="app")
    assert first.kind == "posted"
    assert first.reason == (
        "the token belongs to our-gate[bot]: set this account as the comment's author to have it found at once"
    )
    post(github, "two", token="app", run=2)
    assert texts(github) == [{"": "two"}]
    assert post(github, "three", token="app", run=3, author="Our-Gate[bot]").kind == "updated"


def test_what_is_too_long_is_shortened(github: FakeGitHub) -> None:
    assert post(github, "a line\n" * 20_000).kind == "posted"
    body = github.world.comment_bodies()[0]
    assert 60_000 < len(body) <= 65_536
    assert "shortened" in body


def test_a_stricter_limit_than_documented_is_met(github: FakeGitHub) -> None:
    refusal = Fault("POST", status=422, message="body is too long (maximum is 50000 characters)", times=2)
    github.faults.append(refusal)
    assert post(github, "a line\n" * 20_000).kind == "posted"
    assert len(github.world.comment_bodies()[0]) < 50_000


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=502, times=3),
        Fault(status=503, method="GET"),
        Fault(status=429, headers={"Retry-After": "0"}, message="too many"),
        slow_down("0"),
        slow_down("1", status=429),
        Fault(cut="before"),
        Fault(cut="after"),
        Fault(cut="halfway"),
        Fault("POST", cut="after"),
        Fault("POST", cut="halfway"),
        Fault(body=b"<html>bad gateway</html>"),
        Fault(body=b'[{"id": 1}]'),
        Fault("POST", body=b"\xff\xfe"),
        Fault("GET", delay_s=1.3),
    ],
    ids=repr,
)
def test_a_fault_that_passes_leaves_one_comment(fault: Fault) -> None:
    patience = replace(QUICK, request_s=1) if fault.delay_s else QUICK
    with FakeGitHub(faults=[replace(fault)]).running() as github:
        assert post(github, patience=patience).kind in {"posted", "updated", "unchanged"}
        assert texts(github) == [{"": "All good."}]


FORBIDDEN = "the token may not do this; in a pull request from a fork it may only read"


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (
            Fault("POST", status=403, message="Resource not accessible by integration"),
            PostResult(
                "skipped", f"GitHub answered 403: Resource not accessible by integration ({FORBIDDEN})"
            ),
        ),
        (
            Fault("POST", status=403, message="Unable to create comment because issue is locked."),
            PostResult(
                "skipped",
                f"GitHub answered 403: Unable to create comment because issue is locked. ({FORBIDDEN})",
            ),
        ),
        (
            Fault(status=404, message="Not Found"),
            PostResult(
                "failed",
                "GitHub answered 404: Not Found (is it there, and may the token see it?)",
            ),
        ),
        (
            Fault(status=401, message="Bad credentials"),
            PostResult("failed", "GitHub answered 401: Bad credentials (the token is wrong or has expired)"),
        ),
        (Fault("POST", status=422, message="No."), PostResult("failed", "GitHub answered 422: No.")),
        (
            limit_used_up(),
            PostResult(
                "failed",
                "GitHub answered 403: API rate limit exceeded for installation ID 1. "
                "(given up at once: the next attempt may be made in more than an hour)",
            ),
        ),
        (
            slow_down("600"),
            PostResult(
                "failed",
                "GitHub answered 403: You have exceeded a secondary rate limit. "
                "Please wait a few minutes before you try again. "
                "(given up at once: the next attempt may be made in 600 s)",
            ),
        ),
        (
            Fault("POST", status=422, message="body is too long", times=99),
            PostResult("failed", "GitHub accepts no comment, however short"),
        ),
        (
            Fault(status=403, message=f"no {TOKEN} \x1b[31m::set-output name=x::y"),
            PostResult("skipped", f"GitHub answered 403: no *** ::set-output name=x::y ({FORBIDDEN})"),
        ),
    ],
    ids=lambda value: value.message[:20] if isinstance(value, Fault) else "",
)
def test_a_fault_that_lasts_is_told(fault: Fault, outcome: PostResult) -> None:
    with FakeGitHub(faults=[replace(fault)]).running() as github:
        began = time.monotonic()
        assert post(github) == outcome
        assert time.monotonic() - began < QUICK.total_s, "nobody waits for what will not be in time"
        assert github.world.comment_bodies() == []


@pytest.mark.parametrize("cut", ["before", "halfway"])
def test_a_github_that_never_answers_is_given_up(
    github: FakeGitHub, cut: Literal["before", "halfway"]
) -> None:
    github.faults.append(Fault(cut=cut, times=10_000))
    outcome = post(github, patience=replace(QUICK, total_s=1.5))
    assert outcome.kind == "failed"
    assert outcome.reason.startswith("GitHub cannot be reached (")
    assert re.search(r"\(given up (at once|after [12] s)\)$", outcome.reason)


def test_an_answer_that_never_ends_is_not_waited_for(github: FakeGitHub) -> None:
    github.faults.append(Fault("GET", body=b" " * 5000, drip_s=0.01))
    outcome = post(github, patience=replace(QUICK, total_s=0.3))
    assert outcome == PostResult("failed", "GitHub did not answer within 0.6 s")


def test_nobody_listens() -> None:
    account = Account(TOKEN, REPOSITORY, "http://127.0.0.1:9/")
    outcome = post_comment(
        account, PullRequest(7), "main", CommentSection("", "x"), timeouts=replace(QUICK, total_s=1.5)
    )
    assert outcome.kind == "failed"
    assert outcome.reason.startswith("GitHub cannot be reached (ConnectionError) (given up a")


@pytest.mark.parametrize(
    ("account", "outcome"),
    [
        (Account("", REPOSITORY), PostResult("skipped", "there is no token")),
        (Account("t", "../x"), PostResult("failed", "GITHUB_REPOSITORY is not `owner/name`")),
        (Account("t", ""), PostResult("failed", "GITHUB_REPOSITORY is not `owner/name`")),
    ],
)
def test_an_account_that_cannot_post(account: Account, outcome: PostResult) -> None:
    assert post_comment(account, PullRequest(7), "main", CommentSection("", "x"), timeouts=QUICK) == outcome


def test_a_read_only_token_is_told_and_harmless(github: FakeGitHub) -> None:
    github.world.grants["fork"] = Grant(writes=frozenset())
    outcome = post(github, token="fork")
    assert outcome.kind == "skipped"
    assert "Resource not accessible by integration" in outcome.reason


def test_the_pull_request_of_a_commit_is_found(github: FakeGitHub) -> None:
    found = post_comment(
        account_on(github), HeadCommit(HEAD_SHA), "main", CommentSection("", "x"), timeouts=QUICK
    )
    assert found.kind == "posted"
    missing = post_comment(
        account_on(github), HeadCommit("0" * 40), "main", CommentSection("", "x"), timeouts=QUICK
    )
    assert missing == PostResult("skipped", "no open pull request has this commit as its newest")


@pytest.mark.parametrize(
    ("head", "number"),
    [
        (HeadCommit(HEAD_SHA, "eve/demo", "change"), 9),
        (HeadCommit(HEAD_SHA, REPOSITORY, "change"), PULL),
        (HeadCommit(HEAD_SHA, REPOSITORY, "other"), None),
        (HeadCommit(HEAD_SHA, "mallory/demo", "change"), None),
    ],
)
def test_a_commit_that_two_people_push_is_told_by_where_it_was_pushed(
    github: FakeGitHub, head: HeadCommit, number: int | None
) -> None:
    github.world.pulls[9] = {"sha": HEAD_SHA, "repository": "eve/demo"}
    post_comment(account_on(github), head, "main", CommentSection("", "x"), timeouts=QUICK)
    told = [each for each in (PULL, 9) if github.world.comment_bodies(each)]
    assert told == ([] if number is None else [number])


@pytest.mark.parametrize(
    ("head", "numbers"),
    [(HeadCommit(HEAD_SHA, REPOSITORY, "change"), [PULL, 8]), (HeadCommit(HEAD_SHA), [PULL])],
    ids=["of a branch", "of nobody knows where"],
)
def test_two_pull_requests_from_one_branch_get_their_own_comments(
    github: FakeGitHub, head: HeadCommit, numbers: list[int]
) -> None:
    github.world.pulls[8] = {"sha": HEAD_SHA}
    for text in ("one", "two"):
        outcome = post_comment(account_on(github), head, "main", CommentSection("", text), timeouts=QUICK)
        assert len(outcome.url.split()) == len(numbers)
    told = [each for each in (PULL, 8) if github.world.comment_bodies(each)]
    assert told == numbers
    assert all("two" in body for each in told for body in github.world.comment_bodies(each))


def test_without_a_pull_request_nothing_is_asked(github: FakeGitHub) -> None:
    subject = NoPullRequest("a push")
    outcome = post_comment(account_on(github), subject, "main", CommentSection("", "x"), timeouts=QUICK)
    assert outcome == PostResult("skipped", "a push")
    assert github.exchanges == []


def test_an_enterprise_server_is_reached_by_its_url() -> None:
    with FakeGitHub(prefix="/api/v3", page_size=2).running() as github:
        for number in range(5):
            github.world.add_comment(f"chat {number}", SOMEBODY)
        environ = {"GITHUB_REPOSITORY": REPOSITORY, "GITHUB_API_URL": github.url}
        outcome = post_comment(
            Account.from_environment(environ, TOKEN),
            PullRequest(PULL),
            "main",
            CommentSection("", "x"),
            timeouts=QUICK,
        )
        assert outcome.kind == "posted"


def test_the_token_is_in_no_log_and_no_text(github: FakeGitHub, caplog: pytest.LogCaptureFixture) -> None:
    token = "ghs_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with caplog.at_level(logging.DEBUG):
        outcome = post(github, token=token)
    assert outcome.kind == "failed"
    assert token not in f"{outcome} {caplog.text} {account_on(github, token)!r}"


def test_only_posting_loads_the_client() -> None:
    code = "import sys, evalgate.ci.github_pull_request; sys.exit('github' in sys.modules or 'requests' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_client_it_is_told(github: FakeGitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "github", None)
    assert post(github) == PostResult("failed", f"this needs PyGithub: {describe_install('github')}")

"""Posting a comment to GitHub: its errors, tokens and events. What GitLab keeps too is in test_sticky_comment."""

import re
import time
from dataclasses import replace
from typing import Literal

import pytest

from evalgate.ci.comment_sections import CommentSection, format_marker, read_sections
from evalgate.ci.github_client import Account
from evalgate.ci.github_event import HeadCommit, PullRequest
from evalgate.ci.github_pull_request import post_comment
from evalgate.ci.posting import NoPullRequest, PostResult
from tests.ci.conftest import TOKEN, account_on, post
from tests.ci.hosts import QUICK
from tests.github.faults import Fault, limit_used_up, slow_down
from tests.github.server import FakeGitHub
from tests.github.world import HEAD_SHA, PULL, REPOSITORY, Grant

BOT = Grant()
OTHER_USER = Grant(login="mallory", kind="User")
OLD = f"{format_marker('main')}\n\nold"


def texts(github: FakeGitHub) -> list[dict[str, str]]:
    """Key → text of every comment."""
    return [
        {key: section.text for key, section in read_sections(body).items()}
        for body in github.world.comment_bodies()
    ]


def test_an_outdated_list_makes_no_duplicate(github: FakeGitHub) -> None:
    github.world.lag_s = 0.15
    assert post(github, "one").kind == "posted"
    assert texts(github) == [{"": "one"}]
    post(github, "two", run=2)
    assert texts(github) == [{"": "two"}]


def test_an_app_finds_its_comment_after_it_has_posted(github: FakeGitHub) -> None:
    github.world.grants["app"] = Grant(login="our-gate[bot]")
    first = post(github, "one", token="app")
    assert first.kind == "posted"
    assert first.reason == (
        "the token belongs to our-gate[bot]: set this account as the comment's author to have it found at once"
    )
    post(github, "two", token="app", run=2)
    assert texts(github) == [{"": "two"}]
    assert post(github, "three", token="app", run=3, author="Our-Gate[bot]").kind == "updated"


def test_a_stricter_limit_than_documented_is_kept(github: FakeGitHub) -> None:
    refusal = Fault("POST", status=422, message="body is too long (maximum is 50000 characters)", times=2)
    github.faults.append(refusal)
    assert post(github, "a line\n" * 20_000).kind == "posted"
    assert len(github.world.comment_bodies()[0]) < 50_000


@pytest.mark.parametrize("fault", [slow_down("0"), slow_down("1", status=429)], ids=repr)
def test_a_secondary_rate_limit_is_waited_for(github: FakeGitHub, fault: Fault) -> None:
    github.faults.append(replace(fault))
    assert post(github).kind == "posted"


FORBIDDEN = "the token may not do this; in a pull request from a fork it may only read"


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        (
            Fault("POST", status=403, message="Resource not accessible by integration"),
            PostResult(
                "skipped",
                "GitHub answered 403: Resource not accessible by integration (the token may not do this: the "
                "job needs `permissions: pull-requests: write`; in a pull request from a fork it may only read)",
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
def test_a_lasting_fault_is_reported(fault: Fault, result: PostResult) -> None:
    with FakeGitHub(faults=[replace(fault)]).running() as github:
        began = time.monotonic()
        assert post(github) == result
        assert time.monotonic() - began < QUICK.total_s, "a wait that exceeds the time limit is not begun"
        assert github.world.comment_bodies() == []


@pytest.mark.parametrize("cut", ["before", "halfway"])
def test_a_server_that_never_answers_is_given_up(
    github: FakeGitHub, cut: Literal["before", "halfway"]
) -> None:
    github.faults.append(Fault(cut=cut, times=10_000))
    result = post(github, timeouts=replace(QUICK, total_s=1.5))
    assert result.kind == "failed"
    assert result.reason.startswith("GitHub cannot be reached (")
    assert re.search(r"\(given up (at once|after [12] s)\)$", result.reason)


def test_an_endless_answer_ends_with_the_time_limit(github: FakeGitHub) -> None:
    github.faults.append(Fault("GET", body=b" " * 5000, drip_s=0.01))
    result = post(github, timeouts=replace(QUICK, total_s=0.3))
    assert result == PostResult("failed", "GitHub did not answer within 0.6 s")


def test_an_unreachable_server_is_reported() -> None:
    account = Account(TOKEN, REPOSITORY, "http://127.0.0.1:9/")
    result = post_comment(
        account, PullRequest(7), "main", CommentSection("", "x"), timeouts=replace(QUICK, total_s=1.5)
    )
    assert result.kind == "failed"
    assert result.reason.startswith("GitHub cannot be reached (ConnectionError) (given up a")


@pytest.mark.parametrize(
    ("account", "result"),
    [
        (Account("", REPOSITORY), PostResult("skipped", "there is no token")),
        (Account("t", "../x"), PostResult("failed", "GITHUB_REPOSITORY is not `owner/name`")),
        (Account("t", ""), PostResult("failed", "GITHUB_REPOSITORY is not `owner/name`")),
    ],
)
def test_an_unusable_account_is_reported(account: Account, result: PostResult) -> None:
    assert post_comment(account, PullRequest(7), "main", CommentSection("", "x"), timeouts=QUICK) == result


def test_a_read_only_token_is_skipped(github: FakeGitHub) -> None:
    github.world.grants["fork"] = Grant(writes=frozenset())
    result = post(github, token="fork")
    assert result.kind == "skipped"
    assert "Resource not accessible by integration" in result.reason


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
def test_the_branch_tells_apart_pull_requests_with_the_same_commit(
    github: FakeGitHub, head: HeadCommit, number: int | None
) -> None:
    github.world.pulls[9] = {"sha": HEAD_SHA, "repository": "eve/demo"}
    post_comment(account_on(github), head, "main", CommentSection("", "x"), timeouts=QUICK)
    commented = [each for each in (PULL, 9) if github.world.comment_bodies(each)]
    assert commented == ([] if number is None else [number])


@pytest.mark.parametrize(
    ("head", "numbers"),
    [(HeadCommit(HEAD_SHA, REPOSITORY, "change"), [PULL, 8]), (HeadCommit(HEAD_SHA), [PULL])],
    ids=["of a branch", "of an unknown branch"],
)
def test_two_pull_requests_from_one_branch_each_get_a_comment(
    github: FakeGitHub, head: HeadCommit, numbers: list[int]
) -> None:
    github.world.pulls[8] = {"sha": HEAD_SHA}
    for text in ("one", "two"):
        result = post_comment(account_on(github), head, "main", CommentSection("", text), timeouts=QUICK)
        assert len(result.url.split()) == len(numbers)
    commented = [each for each in (PULL, 8) if github.world.comment_bodies(each)]
    assert commented == numbers
    assert all("two" in body for each in commented for body in github.world.comment_bodies(each))


def test_without_a_pull_request_no_request_is_sent(github: FakeGitHub) -> None:
    subject = NoPullRequest("a push")
    result = post_comment(account_on(github), subject, "main", CommentSection("", "x"), timeouts=QUICK)
    assert result == PostResult("skipped", "a push")
    assert github.exchanges == []


def test_an_enterprise_server_is_reached_by_its_url() -> None:
    with FakeGitHub(prefix="/api/v3", page_size=2).running() as github:
        for number in range(5):
            github.world.add_comment(f"chat {number}", OTHER_USER)
        environ = {"GITHUB_REPOSITORY": REPOSITORY, "GITHUB_API_URL": github.url}
        result = post_comment(
            Account.from_environment(environ, TOKEN),
            PullRequest(PULL),
            "main",
            CommentSection("", "x"),
            timeouts=QUICK,
        )
        assert result.kind == "posted"

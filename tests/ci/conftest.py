"""A GitHub, and an impatient way to post to it."""

import importlib
import time
from collections.abc import Callable, Iterator

import pytest

from evalgate.ci.comment_sections import CommentSection
from evalgate.ci.github_actions import PullRequest
from evalgate.ci.github_client import Account
from evalgate.ci.github_pull_request import post_comment
from evalgate.ci.posting import ACTIONS_BOT, PostResult, PostTimeouts
from tests.github.server import FakeGitHub
from tests.github.world import PULL, REPOSITORY

for client in ("github", "gitlab"):
    importlib.import_module(client)  # takes seconds on a busy machine, which are no post's

QUICK = PostTimeouts(
    total_s=50.0, request_s=20, settle_s=0.3, pause_s=0.02, longest_pause_s=0.2, between_writes_s=0.0
)


def patience_of_many(jobs: int, post_one: Callable[[], object]) -> PostTimeouts:
    """For so many jobs that post at the same time, each in a thread of this process.

    What settles must outlast what any of them takes from reading to writing, on whatever machine this is.
    """
    post_one()  # what is done but once is done
    began = time.monotonic()
    post_one()
    took_s = time.monotonic() - began
    settle_s = max(3.0, 2 * jobs * took_s)
    return PostTimeouts(
        total_s=40 * settle_s,
        request_s=120,
        settle_s=settle_s,
        pause_s=0.1,
        longest_pause_s=settle_s / 2,
        between_writes_s=0.0,
    )


TOKEN = "ghs_writer"


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    """A running GitHub; the test fails when somebody breaks its contract."""
    with FakeGitHub().running() as running:
        yield running


def account_on(github: FakeGitHub, token: str = TOKEN) -> Account:
    return Account(token, REPOSITORY, github.url)


def post(
    github: FakeGitHub,
    text: str = "All good.",
    *,
    gate: str = "main",
    key: str = "",
    run: int = 1,
    job: str = "",
    token: str = TOKEN,
    patience: PostTimeouts = QUICK,
    shared: bool = False,
    author: str = ACTIONS_BOT,
    shorter: Callable[[int], str] | None = None,
) -> PostResult:
    return post_comment(
        account_on(github, token),
        PullRequest(PULL),
        gate,
        CommentSection(key, text, run, 1, job),
        shared=shared,
        timeouts=patience,
        author=author,
        shorter=shorter,
    )

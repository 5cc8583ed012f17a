"""A running fake GitHub, and a function that posts to it with short timeouts."""

import importlib
import time
from collections.abc import Callable, Iterator

import pytest

from evalgate.ci.comment_sections import CommentSection
from evalgate.ci.github_client import Account
from evalgate.ci.github_event import PullRequest
from evalgate.ci.github_pull_request import post_comment
from evalgate.ci.posting import ACTIONS_BOT, PostResult, PostTimeouts
from tests.ci.hosts import QUICK
from tests.github.server import FakeGitHub
from tests.github.world import PULL, REPOSITORY

for client in ("github", "gitlab"):
    importlib.import_module(
        client
    )  # takes seconds on a busy machine, which would count as the time of a post


def measure_timeouts(jobs: int, post_one: Callable[[], object]) -> PostTimeouts:
    """Return timeouts for `jobs` jobs that post at the same time, each in a thread of this process.

    `settle_s` must be longer than the time that any job needs from reading to writing, on this machine.
    """
    post_one()  # the first one also loads and caches
    began = time.monotonic()
    post_one()
    duration_s = time.monotonic() - began
    settle_s = max(3.0, 2 * jobs * duration_s)
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
    """Yield a running fake GitHub. Fail the test if a client violates its API description."""
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
    timeouts: PostTimeouts = QUICK,
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
        timeouts=timeouts,
        author=author,
        shorter=shorter,
    )

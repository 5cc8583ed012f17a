"""A GitHub, and an impatient way to post to it."""

from collections.abc import Callable, Iterator

import pytest

from evalgate.posting import ACTIONS_BOT, Account, Outcome, Patience, PullRequest, Section, post_comment
from tests.github.server import FakeGitHub
from tests.github.world import PULL, REPOSITORY

QUICK = Patience(
    total_s=4.0, request_s=1, settle_s=0.3, pause_s=0.02, longest_pause_s=0.2, between_writes_s=0.0
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
    token: str = TOKEN,
    patience: Patience = QUICK,
    shared: bool = False,
    author: str = ACTIONS_BOT,
    shorter: Callable[[int], str] | None = None,
) -> Outcome:
    return post_comment(
        account_on(github, token),
        PullRequest(PULL),
        gate,
        Section(key, text, run, 1),
        shared=shared,
        patience=patience,
        author=author,
        shorter=shorter,
    )

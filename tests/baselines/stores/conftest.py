"""A fake GitHub that stores baselines."""

import importlib
from collections.abc import Iterator

import pytest

from tests.github.server import FakeGitHub

importlib.import_module("github")  # takes seconds, which would count as time of the baseline


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    """Yield a running fake GitHub. Fail if a request violates its API, or sends a token to the artifact storage."""
    with FakeGitHub().running() as running:
        yield running

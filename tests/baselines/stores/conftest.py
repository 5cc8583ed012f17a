"""A fake GitHub that stores baselines."""

import importlib
from collections.abc import Iterator

import pytest

from tests.github.server import FakeGitHub

importlib.import_module("github")  # takes seconds on a busy machine, which are no baseline's


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    """A running GitHub; the test fails when somebody breaks its contract, or sends a token where none belongs."""
    with FakeGitHub().running() as running:
        yield running

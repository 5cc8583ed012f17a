"""A GitHub that keeps baselines."""

from collections.abc import Iterator

import pytest

from tests.github.server import FakeGitHub


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    """A running GitHub; the test fails when somebody breaks its contract, or sends a token where none belongs."""
    with FakeGitHub().running() as running:
        yield running

"""Interpreters that have a framework."""

import pytest

from tests.frameworks.frameworks import ADK_NOW
from tests.frameworks.venvs import python_with


@pytest.fixture(scope="session", params=["2.3.0", ADK_NOW])
def adk(request: pytest.FixtureRequest) -> str:
    """An interpreter with Google ADK and its evaluation, in the release that its scores are known of and now."""
    return python_with(f"adk-{request.param}")

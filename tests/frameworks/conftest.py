"""Fixtures: interpreters with a framework."""

import pytest

from tests.frameworks.frameworks import ADK_NOW
from tests.frameworks.venvs import python_with


@pytest.fixture(scope="session", params=["2.3.0", ADK_NOW])
def adk(request: pytest.FixtureRequest) -> str:
    """Return an interpreter with Google ADK: release 2.3.0, which has reference scores, and the newest release."""
    return python_with(f"adk-{request.param}")

"""`get_agent_async` of Google ADK, in the forms of its releases and its documentation."""

import asyncio
from pathlib import Path

import pytest

from evalgate.agents.host.adk_entry import find_adk_agent

STAND_IN = """
class BaseAgent:
    name = "made"
BaseAgent.__module__ = "google.adk.agents"
"""


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("pair", "async def get_agent_async():\n    return BaseAgent(), None\n"),
        ("bare", "async def get_agent_async():\n    return BaseAgent()\n"),
        ("plain", "def get_agent_async():\n    return BaseAgent()\n"),
    ],
)
def test_factory_of_adk_is_called(name: str, body: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}_agent.py"
    file.write_text(STAND_IN + body)
    loop = asyncio.new_event_loop()
    try:
        found = find_adk_agent(str(file), None, loop)
    finally:
        loop.close()

    assert getattr(found, "name", None) == "made"

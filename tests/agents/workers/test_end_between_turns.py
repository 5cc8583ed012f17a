"""A worker that ends while no conversation waits for an answer."""

import asyncio
import os
from pathlib import Path

import pytest

from evalgate.agents.adapters.python import build_python_agent
from evalgate.core.protocols import SessionLostError
from evalgate.core.types import EvalCase, UserMessage

AGENT = """\
import os, threading, time

def answer(text):
    threading.Thread(target=end, daemon=True).start()
    return "fine"

def end():
    while not os.path.exists("end"):
        time.sleep(0.01)
    os._exit(3)
"""


async def test_the_process_did_not_answer_when_it_ended(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    agent = build_python_agent(entry="agent.py:answer", cwd=tmp_path, env=dict(os.environ), timeout=60)
    async with agent, agent.open_session(EvalCase("c"), 1, alone=False) as session:
        assert (await session.run_turn(UserMessage("one"))).response == "fine"
        (tmp_path / "end").touch()
        await asyncio.sleep(0.3)
        with pytest.raises(SessionLostError, match="ended with exit code 3") as caught:
            await session.run_turn(UserMessage("two"))
    assert "0 cases" not in caught.value.failure.message

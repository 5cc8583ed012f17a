"""Sessions of the agent host, without a process."""

import asyncio
from typing import Any

import pytest

from evalgate.agents.host import conversations
from evalgate.agents.host.conversations import SessionManager
from evalgate.agents.host.threads import DaemonThreadPool


class Hanging:
    """An agent that can be cancelled."""

    asynchronous = True
    renew = None
    capture = False

    async def answer(self, text: str, session: object) -> str:
        await asyncio.Event().wait()
        return text


class Heard:
    """The gate's end."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)


async def test_a_turn_that_ended_in_time_is_not_said_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is looked after so late that the time to end is over in the moment when the turn has ended."""
    monkeypatch.setattr(conversations, "CANCEL_WAIT_S", 0.0)
    host: Any = Hanging()
    heard: Any = Heard()
    talks = SessionManager(asyncio.get_running_loop(), host, heard, DaemonThreadPool(1))
    for kind in ("start", "turn"):
        talks.handle_message({"type": kind, "session": "1", "text": "hi"})
    await asyncio.sleep(0)
    talks.handle_message({"type": "cancel", "session": "1"})
    for _ in range(10):
        await asyncio.sleep(0)
    assert heard.messages == [{"type": "cancelled", "session": "1"}]

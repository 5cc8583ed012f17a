"""Sessions of the agent host, without a process."""

import asyncio
from typing import Any

import pytest

from evalgate.agents.host import channel, conversations
from evalgate.agents.host.conversations import SessionManager
from evalgate.agents.host.threads import DaemonThreadPool
from evalgate.agents.workers import protocol, worker


class Hanging:
    """An agent that can be cancelled."""

    asynchronous = True
    create_next_agent = None
    capture = False

    async def run_turn(self, text: str, session: object) -> str:
        await asyncio.Event().wait()
        return text


class MessageLog:
    """The gate's end of the channel."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)


async def test_turn_that_ended_in_time_is_not_reported_as_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit of the cancel is over in the same iteration of the event loop in which the turn ends."""
    monkeypatch.setattr(conversations, "CANCEL_WAIT_S", 0.0)
    host: Any = Hanging()
    log: Any = MessageLog()
    sessions = SessionManager(asyncio.get_running_loop(), host, log, DaemonThreadPool(1))
    for kind in ("start", "turn"):
        sessions.handle_message({"type": kind, "session": "1", "text": "hi"})
    await asyncio.sleep(0)
    sessions.handle_message({"type": "cancel", "session": "1"})
    for _ in range(10):
        await asyncio.sleep(0)
    assert log.messages == [{"type": "cancelled", "session": "1"}]


def test_the_host_has_the_gate_s_numbers_although_it_imports_nothing_of_it() -> None:
    assert conversations.PROTOCOL_VERSION == worker.PROTOCOL_VERSION
    assert channel.MAX_ANSWER_BYTES == protocol.MAX_ANSWER_BYTES

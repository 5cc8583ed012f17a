"""A conversation with an agent: where it ends, and what is known of it then."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import pytest

from evalgate.core.protocols import Agent, SessionResult
from evalgate.core.types import Reply, SessionInput, UserMessage
from evalgate.runner.chat import Chat, ChatError


class FakeAgent:
    """An agent whose sessions give the same replies and count their turns in the state."""

    def __init__(self, *replies: str) -> None:
        self._replies = replies
        self.open = 0
        self.turns = 0

    @asynccontextmanager
    async def _open(self) -> Any:
        self.open += 1
        self.turns, self._rest = 0, iter(self._replies)
        try:
            yield self
        finally:
            self.open -= 1

    def forget_last_reply(self) -> None:
        self._replies = self._replies[:-1]

    def open_session(self, *_: object, alone: bool) -> AbstractAsyncContextManager[Any]:
        del alone
        return self._open()

    async def run_turn(self, _message: UserMessage) -> Reply | None:
        self.turns += 1
        text = next(self._rest, None)
        return None if text is None else Reply(text)

    @property
    def interim_result(self) -> SessionResult:
        return SessionResult(final_state={"turns": self.turns})

    _rest: Iterator[str]


async def test_a_recording_that_ends_ends_the_conversation() -> None:
    agent = FakeAgent("Hello")
    chat = Chat(cast("Agent", agent), SessionInput())
    await chat.send_message("Hi")
    with pytest.raises(ChatError, match="the recording ends before this turn"):
        await chat.send_message("And?")
    assert (chat.is_cut_off, agent.open, len(chat.turns)) == (True, 0, 1)


async def test_another_conversation_begins_without_the_state_of_the_last() -> None:
    chat = Chat(cast("Agent", FakeAgent("Hello")), SessionInput())
    await chat.send_message("Hi")
    assert chat.state == {"turns": 1}
    await chat.begin_again()
    assert not chat.state
    assert not chat.turns


async def test_a_repeat_that_fails_keeps_the_state_of_the_turns_that_stay() -> None:
    agent = FakeAgent("Hello", "Yes")
    chat = Chat(cast("Agent", agent), SessionInput())
    for text in ("Hi", "And?"):
        await chat.send_message(text)
    agent.forget_last_reply()
    with pytest.raises(ChatError, match="your earlier message 2, sent again, got none"):
        await chat.repeat_turns()
    assert (chat.is_cut_off, len(chat.turns), chat.state) == (True, 2, {"turns": 2})

"""Protocols of dialects (wire formats) and their conversations, with helpers that all dialects share."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from evalgate.agents.http.errors import build_unsupported_error
from evalgate.core.frozen import frozen
from evalgate.core.types import EvalCase, JsonObject, Reply, Usage, UserMessage


@frozen
class TurnAnswer:
    """Answer of the agent in one turn."""

    reply: Reply
    usage: Usage | None = None
    """Usage of this turn, without earlier turns; None if the server does not report it."""
    state: JsonObject | None = None
    """State of the session after the turn; None if the format does not report it."""


class RemoteConversation(Protocol):
    """One conversation with the agent's server, in one dialect."""

    async def ask_agent(self, message: UserMessage) -> TurnAnswer:
        """Send one message and return the answer.

        Raises:
            AgentError: there is no usable answer, or the dialect cannot express the message.
        """
        ...

    async def end_conversation(self) -> None:
        """Release the conversation on the server, within a few seconds.

        Raises:
            AgentError: the request failed.
            TimeoutError: the request took too long.
        """
        ...


class Dialect(Protocol):
    """A wire format between evalgate and the agent's server, with its options."""

    def open_conversation(self, case: EvalCase) -> RemoteConversation:
        """Return a new conversation for a case; nothing is sent yet."""
        ...


class TurnTimer(Protocol):
    """Timer that ends a turn after its time limit, such as an `asyncio.Timeout`."""

    def when(self) -> float | None:
        """Return the event loop's time at which the turn ends; None: the turn has no time limit."""
        ...

    def reschedule(self, when: float | None, /) -> None:
        """Set the event loop's time at which the turn ends; None: the turn has no time limit."""
        ...


turn_timer: ContextVar[TurnTimer | None] = ContextVar("turn_timer", default=None)
"""Timer of the turn that the calling task runs; None without a time limit."""


@contextmanager
def pause_turn_timer() -> Iterator[None]:
    """Stop the turn's timer within the `with` block: this time does not count towards the time limit."""
    timer, clock = turn_timer.get(), asyncio.get_running_loop().time
    if timer is None or (when := timer.when()) is None:
        yield
        return
    # The rest of the time limit is kept, because a turn may be paused several times.
    left = when - clock()
    timer.reschedule(None)
    try:
        yield
    finally:
        timer.reschedule(clock() + left)


@frozen
class Attachment:
    """Attached file: its content in `base64`, or its address in `uri`. The other field is empty."""

    mime_type: str
    base64: str = ""
    uri: str = ""


def read_attachments(message: UserMessage) -> list[Attachment]:
    """Return the attachments of a message.

    Raises:
        AgentError: an attachment is neither inline data nor a reference to a file.
    """
    return [_read_attachment(part) for part in message.attachments]


def _read_attachment(part: JsonObject) -> Attachment:
    inline = part.get("inline_data") or part.get("inlineData")
    if isinstance(inline, dict):
        return Attachment(_read_mime_type(inline), base64=str(inline.get("data") or ""))
    file = part.get("file_data") or part.get("fileData")
    if isinstance(file, dict):
        return Attachment(_read_mime_type(file), uri=str(file.get("file_uri") or file.get("fileUri") or ""))
    raise build_unsupported_error(
        f"the case attaches a part that cannot be sent: {', '.join(sorted(part))[:80]}"
    )


def _read_mime_type(found: JsonObject) -> str:
    return str(found.get("mime_type") or found.get("mimeType") or "application/octet-stream")

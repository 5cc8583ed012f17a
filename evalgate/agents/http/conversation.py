"""The protocol of a wire format: it opens conversations in which one message gets one answer."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol
from urllib.parse import urlsplit

from evalgate.core.frozen import frozen
from evalgate.core.protocols import AgentError
from evalgate.core.types import EvalCase, Failure, JsonObject, Reply, Usage, UserMessage


def is_http_url(text: str) -> bool:
    """Whether a text is an `http://` or `https://` address that something may listen at."""
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an IPv6 address, a port that is none
        return False
    return is_one and not any(map(str.isspace, text))


def append_path(url: str, path: str) -> str:
    """`path` added to that of `url`, whose query, if it has one, stays at the end."""
    parts = urlsplit(url)
    return parts._replace(path=parts.path.rstrip("/") + path).geturl()


@frozen
class TurnAnswer:
    """What the agent did in one turn."""

    reply: Reply
    usage: Usage | None = None
    """Of this turn alone."""
    state: JsonObject | None = None
    """The session's state as it is now, where the format tells."""


class RemoteConversation(Protocol):
    """One conversation over the wire."""

    async def ask_agent(self, message: UserMessage) -> TurnAnswer:
        """The answer to one message.

        Raises:
            AgentError: there is none.
        """
        ...

    async def end_conversation(self) -> None:
        """The conversation is over: let the server forget it. Takes a few seconds at most.

        Raises:
            AgentError: the server cannot be told.
            TimeoutError: it takes too long.
        """
        ...


class Dialect(Protocol):
    """A wire format, with the options that it was given."""

    def open_conversation(self, case: EvalCase) -> RemoteConversation:
        """A conversation for a case; nothing is sent yet."""
        ...


class TurnTimer(Protocol):
    """Ends a turn that takes too long."""

    def when(self) -> float | None:
        """Return the loop's time at which it does; None: never."""
        ...

    def reschedule(self, when: float | None, /) -> None:
        """End the turn then; never, if None."""
        ...


turn_timer: ContextVar[TurnTimer | None] = ContextVar("turn_timer", default=None)
"""What ends the turn that the calling task asks for, when the agent takes too long; None: nothing does."""


@contextmanager
def pause_turn_timer() -> Iterator[None]:
    """Time that passes within the block is not the agent's: a busy server wants to be left alone."""
    timer, clock = turn_timer.get(), asyncio.get_running_loop().time
    if timer is None or (when := timer.when()) is None:
        yield
        return
    left = when - clock()
    timer.reschedule(None)
    try:
        yield
    finally:
        timer.reschedule(clock() + left)


def build_format_error(sentence: str, detail: str = "") -> AgentError:
    """The failure of an answer that is not in the format."""
    return AgentError(Failure("protocol", sentence, detail))


def build_unsupported_error(sentence: str) -> AgentError:
    """The failure of a message that the format has no place for: nothing that the agent can do about."""
    return AgentError(Failure("unsupported", sentence), "faulted")


@frozen
class Attachment:
    """A file: either its content or where it is."""

    mime_type: str
    base64: str = ""
    uri: str = ""


def read_attachments(message: UserMessage) -> list[Attachment]:
    """The attachments of a message. Raises AgentFailed: one is neither data nor a reference."""
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

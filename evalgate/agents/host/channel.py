"""Transport of JSON lines between the host and the gate; lines sent together are written in one call."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
import os
import threading
from typing import Any, Callable, Protocol

from .errors import MessageTooLargeError
from .threads import end_if_forked

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Largest size of one message in bytes: the gate accepts no more than this in a whole turn."""
_READ_BYTES = 256 * 1024


def _convert_unknown(value: object) -> object:
    """Return a simpler value for an object that `json` cannot encode.

    A pydantic model or a dataclass becomes a dict of its fields, a set becomes a list sorted by text, and
    any other object becomes its text.
    """
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_convert_unknown)
# Not `json.loads`, which searches for blanks around each value: the gate writes none.
_DECODER = json.JSONDecoder()


def encode_line(message: dict[str, Any]) -> bytes:
    """Return the message as one line of JSON.

    Raises:
        MessageTooLargeError: the line exceeds 16 MiB. The gate would refuse this line, and all other
            conversations would wait while it is sent.
        TypeError, ValueError, RecursionError: the message has a value that JSON cannot express.
    """
    # ASCII with escapes, because a lone surrogate in the agent's text cannot be encoded as UTF-8.
    line = _ENCODER.encode(message).encode("ascii") + b"\n"
    if len(line) > MAX_ANSWER_BYTES:
        raise MessageTooLargeError
    return line


def write_line(outgoing: int, message: dict[str, Any]) -> None:
    """Write one message to the file descriptor `outgoing`, without buffering.

    Raises:
        MessageTooLargeError: the message is longer than 16 MiB as a line of JSON.
        TypeError, ValueError, RecursionError: the message has a value that JSON cannot express.
        OSError: the message cannot be written, because the gate has closed its end.
    """
    _write_all(outgoing, encode_line(message))


def _write_all(outgoing: int, data: bytes) -> None:
    # `os.write` may write less than it was given.
    view = memoryview(data)
    while view:
        view = view[os.write(outgoing, view) :]


class Sender(Protocol):
    """Sender of the host's messages to the gate."""

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, from any thread.

        Raises:
            MessageTooLargeError: the message is longer than 16 MiB as a line of JSON.
            TypeError, ValueError, RecursionError: the message has a value that JSON cannot express.
        """
        ...


class Channel:
    """Connection to the gate over two file descriptors.

    When the gate closes its end, `closed` becomes True and the event loop is stopped.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, incoming: int, outgoing: int) -> None:
        self.closed = False
        self._loop = loop
        self._incoming = incoming
        self._outgoing = outgoing
        self._thread = threading.get_ident()
        self._rest = b""
        # A deque, because the agent's threads append while the loop drains.
        self._pending: collections.deque[bytes] = collections.deque()
        self._flushing = False
        self._receive: Callable[[dict[str, Any]], None] | None = None

    def open(self, receive: Callable[[dict[str, Any]], None]) -> None:
        """Start to read messages of the gate. The event loop calls `receive` with each message."""
        self._receive = receive
        self._loop.add_reader(self._incoming, self._read_messages)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, from any thread; the event loop writes the message in the next iteration.

        Raises:
            MessageTooLargeError: the message is longer than 16 MiB as a line of JSON.
            TypeError, ValueError, RecursionError: the message has a value that JSON cannot express.
        """
        # No lock is needed: the line is appended before the flag is read, and `_flush_pending` resets the
        # flag before it takes the lines. Either a requested flush takes this line, or this call requests one.
        self._pending.append(encode_line(message))
        if self._flushing:
            return
        self._flushing = True
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self._flush_pending)
        else:
            self._loop.call_soon_threadsafe(self._flush_pending)

    def _flush_pending(self) -> None:
        end_if_forked()
        self._flushing = False  # first: for a line that is appended from now on, `send` requests a flush
        lines = []
        while self._pending:
            lines.append(self._pending.popleft())
        try:
            _write_all(self._outgoing, b"".join(lines))
        except OSError:
            self._close_channel()

    def _read_messages(self) -> None:
        end_if_forked()
        data = os.read(self._incoming, _READ_BYTES)
        if not data:
            self._close_channel()
            return
        lines, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._rest += data
            return
        text, self._rest = (self._rest + lines).decode("utf-8", "replace"), rest
        for line in text.split("\n"):
            if line and self._receive is not None:
                self._receive(_DECODER.raw_decode(line)[0])

    def _close_channel(self) -> None:
        self.closed = True
        self._loop.remove_reader(self._incoming)
        self._loop.stop()

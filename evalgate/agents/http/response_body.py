"""Read response bodies of limited size (whole, as server-sent events or as lines), and parse their JSON."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from evalgate.agents.http.dialect import pause_turn_timer
from evalgate.agents.http.errors import EXCERPT_BYTES, build_format_error, build_too_large_error
from evalgate.agents.workers.protocol import (
    MAX_ANSWER_BYTES,
    THREAD_PARSE_SIZE,
    WorkerProtocolError,
    parse_untrusted_json,
    quote_text,
)
from evalgate.core.protocols import AgentError
from evalgate.core.sanitize import shorten_text

if TYPE_CHECKING:
    from aiohttp import ClientResponse

_T = TypeVar("_T")


class SseReader:
    """Incremental parser of server-sent events, for pieces of any size."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._seen = 0
        """Number of bytes of `_rest` that were searched for a line end."""
        self._data: list[str] = []
        self._is_first = True

    def parse_bytes(self, piece: bytes) -> Iterator[str]:
        """Yield the data of each event that `piece` completes."""
        self._rest += piece
        # A \r at the end may be half of an \r\n: the next piece decides.
        end = len(self._rest) - (self._rest[-1:] == b"\r")
        cut = 1 + max(self._rest.rfind(line_end, self._seen, end) for line_end in (b"\n", b"\r"))
        lines = bytes(self._rest[:cut]).splitlines()
        del self._rest[:cut]
        self._seen = end - cut
        for line in lines:
            # Other lines are comments and unused fields, which an agent may send in large numbers.
            if self._is_first or (line.startswith(b"data") if line else self._data):
                yield from self._parse_line(line)

    def finish_stream(self) -> Iterator[str]:
        """End the stream, and yield the data of a last event that is not followed by an empty line.

        The standard drops such an event. It is yielded nevertheless: some servers omit the last line end.
        """
        if self._rest:
            yield from self._parse_line(bytes(self._rest).rstrip(b"\r"))
        yield from self._parse_line(b"")

    def _parse_line(self, line: bytes) -> Iterator[str]:
        if self._is_first:
            line, self._is_first = line.removeprefix(b"\xef\xbb\xbf"), False
        if not line:
            if self._data:
                yield "\n".join(self._data)
            self._data = []
            return
        name, _, value = line.decode("utf-8", "replace").partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))


IsOver: TypeAlias = Callable[[], bool]
"""Function that returns True if the events read so far are the whole answer."""

_SMALL = 64 * 1024
# Seconds to wait for the end of a stream after the last event, because some servers do not end the stream.
_STREAM_END_S = 1.0


async def read_body(response: "ClientResponse") -> bytes:
    """Return the whole body.

    Raises:
        AgentError: the body is larger than `MAX_ANSWER_BYTES`.
    """
    # A short body cannot exceed the limit, unless it is compressed: its length is that before decompression.
    if (response.content_length or _SMALL) < _SMALL and "Content-Encoding" not in response.headers:
        return await response.read()
    return b"".join([piece async for piece in _iter_pieces(response, lambda: False)])


async def iter_events(response: "ClientResponse", is_over: IsOver = lambda: False) -> AsyncIterator[str]:
    """Yield the data of each server-sent event until the stream ends, or 1 s after `is_over` returns True.

    Raises:
        AgentError: the body is larger than `MAX_ANSWER_BYTES`.
    """
    reader = SseReader()
    async for piece in _iter_pieces(response, is_over):
        for data in reader.parse_bytes(piece):
            yield data
    for data in reader.finish_stream():
        yield data


async def iter_lines(response: "ClientResponse", is_over: IsOver) -> AsyncIterator[bytes]:
    """Yield each stripped line except blank ones, until the stream ends or 1 s after `is_over` returns True.

    Raises:
        AgentError: the body is larger than `MAX_ANSWER_BYTES`.
    """
    # Pieces of a line are joined once: adding each to a growing line would take quadratic time.
    pending: list[bytes] = []
    async for piece in _iter_pieces(response, is_over):
        first, *others = piece.split(b"\n")
        pending.append(first)
        for following in others:
            if line := b"".join(pending).strip():
                yield line
            pending = [following]
    if line := b"".join(pending).strip():
        yield line


async def _iter_pieces(response: "ClientResponse", is_over: IsOver) -> AsyncIterator[bytes]:
    clock, end, size = asyncio.get_running_loop().time, None, 0
    while True:
        if end is None and is_over():
            end = clock() + _STREAM_END_S
        try:
            async with asyncio.timeout_at(end):
                piece = await response.content.readany()
        except TimeoutError:
            return
        if not piece:
            return
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise build_too_large_error()
        yield piece


def parse_json_body(body: bytes | str) -> object:
    """Return the JSON value of an answer; None if the answer is empty.

    Raises:
        AgentError: the answer is not JSON, nests too deep, or holds a number of more than 4,300 digits.
    """
    text = body if isinstance(body, str) else body.decode("utf-8-sig", "replace")
    if not text or text.isspace():
        return None
    try:
        return parse_untrusted_json(text)
    except json.JSONDecodeError:
        raise build_format_error(
            f"the agent's answer is not JSON: {quote_text(text)}", shorten_text(text, EXCERPT_BYTES)
        ) from None
    except WorkerProtocolError as error:
        raise AgentError(error.failure) from None


async def run_off_loop(size: int, work: Callable[[], _T]) -> _T:
    """Call `work`, which parses an answer of `size` bytes or characters, and return the result of `work`.

    Above 64 KiB (`THREAD_PARSE_SIZE`), `work` is called in a thread, so that the event loop can run: the
    parser releases the GIL from time to time. Meanwhile, the turn's timer is stopped, because the agent
    is not responsible for this time.
    """
    if size <= THREAD_PARSE_SIZE:
        return work()
    with pause_turn_timer():
        return await asyncio.to_thread(work)

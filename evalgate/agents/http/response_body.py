"""The body of an answer: whole, as server-sent events or as lines, within a size limit."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from evalgate.agents.http.errors import build_flood_error
from evalgate.agents.workers.wire import MAX_ANSWER_BYTES

if TYPE_CHECKING:
    from aiohttp import ClientResponse


_LINE_END = re.compile(rb"\r\n|\n|\r")


class SseReader:
    """Takes bytes in pieces of any size and gives the data of each event that is complete."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._seen = 0
        """Bytes of the rest that hold no end of a line."""
        self._data: list[str] = []
        self._is_first = True

    def parse_bytes(self, piece: bytes) -> Iterator[str]:
        """The data of the events that `piece` completes."""
        self._rest += piece
        # A \r at the end may be half of an \r\n: it waits for what follows.
        end = len(self._rest) - (self._rest[-1:] == b"\r")
        start = 0
        for found in _LINE_END.finditer(self._rest, self._seen, end):
            line = bytes(self._rest[start : found.start()])
            start = found.end()
            yield from self._parse_line(line)
        self._seen = end - start
        del self._rest[:start]

    def finish_stream(self) -> Iterator[str]:
        """What is left when the stream ends: a last event without its empty line is still an event.

        The standard drops it; servers that forget the last line end exist, and what they said counts.
        """
        if self._rest:
            yield from self._parse_line(bytes(self._rest).rstrip(b"\r"))
        yield from self._parse_line(b"")

    @property
    def held(self) -> int:
        """Bytes of the line that is not complete yet."""
        return len(self._rest)

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
"""Whether what was read so far is all that the agent says."""

_SMALL = 64 * 1024
_HANGING_UP_S = 1.0
# Servers exist that say that they are done and do not end the stream.


async def read_body(response: "ClientResponse") -> bytes:
    """The body. Raises AgentFailed: it is larger than any answer may be."""
    if (response.content_length or _SMALL) < _SMALL and "Content-Encoding" not in response.headers:
        return await response.read()
    return b"".join([piece async for piece in _iter_pieces(response, lambda: False)])


async def iter_events(response: "ClientResponse", is_over: IsOver = lambda: False) -> AsyncIterator[str]:
    """The data of each server-sent event, until the stream ends, or a second after it `is_over`.

    Raises:
        AgentError: as for `read_body`.
    """
    reader = SseReader()
    async for piece in _iter_pieces(response, is_over):
        for data in reader.parse_bytes(piece):
            yield data
    for data in reader.finish_stream():
        yield data


async def iter_lines(response: "ClientResponse", is_over: IsOver) -> AsyncIterator[bytes]:
    """Each line that is not empty, until the stream ends, or a second after it `is_over`.

    Raises:
        AgentError: as for `read_body`.
    """
    kept: list[bytes] = []
    async for piece in _iter_pieces(response, is_over):
        first, *others = piece.split(b"\n")
        kept.append(first)
        for line in others:
            for each in _join_line(kept):
                yield each
            kept = [line]
    for each in _join_line(kept):
        yield each


def _join_line(kept: list[bytes]) -> Iterator[bytes]:
    line = b"".join(kept).strip()
    if line:
        yield line


async def _iter_pieces(response: "ClientResponse", is_over: IsOver) -> AsyncIterator[bytes]:
    clock, end, size = asyncio.get_running_loop().time, None, 0
    while True:
        if end is None and is_over():
            end = clock() + _HANGING_UP_S
        try:
            async with asyncio.timeout_at(end):
                piece = await response.content.readany()
        except TimeoutError:
            return
        if not piece:
            return
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise build_flood_error()
        yield piece

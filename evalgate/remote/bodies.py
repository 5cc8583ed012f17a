"""The body of an answer: whole, as events or as lines, never larger than any answer may be."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from evalgate.remote.refusals import flood
from evalgate.remote.sse import EventReader
from evalgate.workerpool.wire import MAX_ANSWER_BYTES

if TYPE_CHECKING:
    from aiohttp import ClientResponse

IsOver: TypeAlias = Callable[[], bool]
"""Whether what was read so far is all that the agent says."""

_SMALL = 64 * 1024
_HANGING_UP_S = 1.0
# Servers exist that say that they are done and do not end the stream.


async def whole(response: "ClientResponse") -> bytes:
    """The body. Raises AgentFailed: it is larger than any answer may be."""
    if (response.content_length or _SMALL) < _SMALL and "Content-Encoding" not in response.headers:
        return await response.read()
    return b"".join([piece async for piece in _pieces(response, lambda: False)])


async def events(response: "ClientResponse", is_over: IsOver = lambda: False) -> AsyncIterator[str]:
    """The data of each server-sent event, until the stream ends, or a second after it `is_over`.

    Raises:
        AgentFailed: as for `whole`.
    """
    reader = EventReader()
    async for piece in _pieces(response, is_over):
        for data in reader.feed(piece):
            yield data
    for data in reader.finish():
        yield data


async def lines(response: "ClientResponse", is_over: IsOver) -> AsyncIterator[bytes]:
    """Each line that is not empty, until the stream ends, or a second after it `is_over`.

    Raises:
        AgentFailed: as for `whole`.
    """
    kept: list[bytes] = []
    async for piece in _pieces(response, is_over):
        first, *others = piece.split(b"\n")
        kept.append(first)
        for line in others:
            for each in _said(kept):
                yield each
            kept = [line]
    for each in _said(kept):
        yield each


def _said(kept: list[bytes]) -> Iterator[bytes]:
    line = b"".join(kept).strip()
    if line:
        yield line


async def _pieces(response: "ClientResponse", is_over: IsOver) -> AsyncIterator[bytes]:
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
            raise flood()
        yield piece

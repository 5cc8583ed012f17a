"""Servers that close connections between turns, or in the middle of an answer."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from socket import SO_LINGER, SOL_SOCKET

import pytest

from evalgate.core.types import Reply
from tests.agents.http.server import run_case
from tests.agents.play import a_talk

BODY = b'\xef\xbb\xbf{"response": "ok"}'  # with a byte order mark
FINE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY


@asynccontextmanager
async def raw(answer: bytes, *, keeps: bool = False) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve the same bytes to every request; yield the address and the heads of the requests."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await _head(reader):
            if head.startswith(b"POST"):
                size = next(line for line in head.lower().splitlines() if line.startswith(b"content-length"))
                await reader.readexactly(int(size.partition(b":")[2]))
                heads.append(head)
            writer.write(answer if head.startswith(b"POST") else FINE)
            if not keeps:
                break
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
        server.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def test_server_may_close_the_connection_after_each_answer() -> None:
    async with raw(FINE) as (url, heads):
        run = await run_case({"url": url}, a_talk("case", "one", "two", "three"))
    assert (run.failure, run.replies) == (None, (Reply("ok"),) * 3)
    assert len(heads) == 3


@pytest.mark.parametrize("works_s", [0.0, 0.2], ids=["at once", "at work"])
async def test_turn_that_ends_in_a_reset_is_not_repeated(works_s: float) -> None:
    """As a load balancer does: it keeps the connection, passes the second turn on, and then resets it."""
    turns: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await _head(reader):
            if head.startswith(b"POST"):
                size = next(line for line in head.lower().splitlines() if line.startswith(b"content-length"))
                turns.append(await reader.readexactly(int(size.partition(b":")[2])))
            if len(turns) == 2:
                await asyncio.sleep(works_s)
                # Closed with SO_LINGER 0, a connection is reset.
                writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return
            writer.write(FINE)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        run = await run_case({"url": url}, a_talk("case", "one", "two"))
        server.close()
    assert len(turns) == 2
    assert run.failure is not None
    assert (run.outcome, run.failure.kind, run.replies) == ("crashed", "connection", (Reply("ok"),))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (FINE[:-3], "the connection to the agent failed: the answer broke off: Not enough data to satisfy"),
        (
            FINE.replace(b"\r\nContent-Type", b"\r\nContent-Encoding: gzip\r\nContent-Type"),
            "the connection to the agent failed: the answer cannot be unpacked: Can not decode",
        ),
        (b"SSH-2.0\r\n", "the connection to the agent failed: the answer is not valid HTTP: Bad status line"),
        (b"", "the connection to the agent failed: Server disconnected"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "the agent's answer is empty: it must be a JSON object"),
    ],
    ids=["short", "not packed", "not HTTP", "nothing", "no content"],
)
async def test_bad_answer_is_described_and_not_requested_again(answer: bytes, why: str) -> None:
    async with raw(answer) as (url, heads):
        run = await run_case({"url": url}, a_talk("case", "hi"))
    assert run.failure is not None
    assert run.failure.message.startswith(why)
    assert run.outcome == "crashed"
    assert len(heads) == 1

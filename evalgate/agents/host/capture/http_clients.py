"""Requests that httpx sends, and those of its successor httpx2: what they ask models and what these answer.

The SDKs of the providers differ from release to release, and each has a dozen ways to ask (`create`, `parse`,
`stream`, raw answers, asynchronous or not); all of them end in `Client.send`. A request that the SDK repeats
is an exchange of its own, and counts when it is answered.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, AsyncIterator, Callable, Iterator, Optional

from .dialects import Assembler, Dialect, dialect_of, load_json
from .hooks import guarded
from .turns import TurnCapture, current_turn

_OK = 200
_MAX_WHOLE_BYTES = 64 * 1024 * 1024


def watch_clients(module: ModuleType) -> None:
    """Watch what clients of the module send."""
    send, asend = module.Client.send, module.AsyncClient.send

    @functools.wraps(send)
    def watching(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        exchange = _begin_exchange(request)
        response = send(self, request, *args, **options)
        if exchange is not None:
            exchange.watch(response)
        return response

    @functools.wraps(asend)
    async def awatching(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        exchange = _begin_exchange(request)
        response = await asend(self, request, *args, **options)
        if exchange is not None:
            exchange.watch(response)
        return response

    module.Client.send = watching
    module.AsyncClient.send = awatching


def _begin_exchange(request: Any) -> Optional[Exchange]:
    exchange: Optional[Exchange] = _read_request(request)
    return exchange


@guarded
def _read_request(request: Any) -> Optional[Exchange]:
    """Take the tool results in a request that asks a model; None for any other request."""
    turn = current_turn()
    if turn is None or request.method != "POST":
        return None
    try:
        content = request.content
    except RuntimeError:  # it is made while it is sent: no SDK does that with what it asks a model
        return None
    body = load_json(content) if content[:1] == b"{" else None
    dialect = dialect_of(request.url.path, body)
    if dialect is None or not isinstance(body, dict):
        return None
    turn.take_results(dialect.results(body))
    return Exchange(turn, dialect, dialect.forced_tool(body))


class Exchange:
    """One request to a model, and its answer."""

    def __init__(self, turn: TurnCapture, dialect: Dialect, forced: Optional[str]) -> None:
        self._turn = turn
        self._dialect = dialect
        self._forced = forced

    @guarded
    def watch(self, response: Any) -> None:
        """Read an answer that is there, or read along while the agent reads it."""
        if response.status_code != _OK:
            return
        try:
            content = response.content
        except RuntimeError:  # it is not read yet
            self._read_along(response)
        else:
            self._whole(content, _is_stream(response))

    def _whole(self, content: bytes, streamed: bool) -> None:
        reading = _EventReading(self) if streamed else _WholeReading(self)
        reading.take(content)
        reading.end()

    def _read_along(self, response: Any) -> None:
        reading = _EventReading(self) if _is_stream(response) else _WholeReading(self)
        self._turn.watch_stream(reading)
        # On the response itself: `read`, `iter_text`, `iter_lines` and their like all go through these two.
        response.iter_bytes = _tee(response.iter_bytes, reading)
        response.aiter_bytes = _atee(response.aiter_bytes, reading)

    def assembler(self) -> Assembler:
        """Return what puts a streamed answer together."""
        return self._dialect.assembler()

    @guarded
    def take_body(self, body: Any) -> None:
        """Take the whole answer."""
        answer = self._dialect.answer(body) if isinstance(body, dict) else None
        if answer is not None:
            self._turn.take_answer(answer, self._forced)


def _is_stream(response: Any) -> bool:
    return "text/event-stream" in (response.headers.get("content-type") or "")


class _WholeReading:
    """An answer in one piece, of which the agent reads the bytes itself."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange: Optional[Exchange] = exchange
        self._parts: list[bytes] = []
        self._size = 0

    @guarded
    def take(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._exchange is not None and self._size <= _MAX_WHOLE_BYTES:
            self._parts.append(chunk)

    @guarded
    def end(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.take_body(load_json(b"".join(self._parts)))
        self._parts = []


class _EventReading:
    """Server-sent events, read while they come: who has the last one may leave the rest unread."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange: Optional[Exchange] = exchange
        self._assembler = exchange.assembler()
        self._rest = b""

    @guarded
    def take(self, chunk: bytes) -> None:
        if self._exchange is None:
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            # Every provider writes an event's JSON on one line.
            if line.startswith(b"data:"):
                self._take_data(line[len(b"data:") :].strip())

    @guarded
    def end(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None and self._assembler.body is not None:
            exchange.take_body(self._assembler.body)

    def _take_data(self, data: bytes) -> None:
        if self._exchange is None:
            return
        event = None if data == b"[DONE]" else load_json(data)
        if data == b"[DONE]" or (isinstance(event, dict) and self._assembler.add(event)):
            self.end()


def _tee(read: Callable[..., Any], reading: Any) -> Callable[..., Iterator[bytes]]:
    def iter_bytes(*args: Any, **options: Any) -> Iterator[bytes]:
        chunks = read(*args, **options)
        try:
            for chunk in chunks:
                reading.take(chunk)
                yield chunk
        finally:
            chunks.close()
            reading.end()

    return iter_bytes


def _atee(read: Callable[..., Any], reading: Any) -> Callable[..., AsyncIterator[bytes]]:
    async def aiter_bytes(*args: Any, **options: Any) -> AsyncIterator[bytes]:
        chunks = read(*args, **options)
        try:
            async for chunk in chunks:
                reading.take(chunk)
                yield chunk
        finally:
            await chunks.aclose()
            reading.end()

    return aiter_bytes

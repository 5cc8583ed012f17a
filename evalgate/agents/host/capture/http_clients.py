"""Requests that httpx sends, and those of its successor httpx2: what they ask models and what these answer.

The SDKs of the providers differ from release to release, and each has a dozen ways to ask (`create`, `parse`,
`stream`, raw answers, asynchronous or not); all of them end in `Client.send`. A request that the SDK repeats
is an exchange of its own, and counts when it is answered.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, AsyncIterator, Callable, Iterator, Optional

from .dialects import ModelDialect, StreamAssembler, detect_dialect, load_json
from .hooks import suppress_errors
from .turns import TurnCapture, get_current_turn

_OK = 200
_MAX_WHOLE_BYTES = 64 * 1024 * 1024


def watch_clients(module: ModuleType) -> None:
    """Watch what clients of the module send."""
    send, asend = module.Client.send, module.AsyncClient.send

    @functools.wraps(send)
    def send_watched(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        exchange = _begin_exchange(request)
        response = send(self, request, *args, **options)
        if exchange is not None:
            exchange.watch_response(response)
        return response

    @functools.wraps(asend)
    async def send_watched_async(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        exchange = _begin_exchange(request)
        response = await asend(self, request, *args, **options)
        if exchange is not None:
            exchange.watch_response(response)
        return response

    module.Client.send = send_watched
    module.AsyncClient.send = send_watched_async


def _begin_exchange(request: Any) -> Optional[ModelExchange]:
    exchange: Optional[ModelExchange] = _read_request(request)
    return exchange


@suppress_errors
def _read_request(request: Any) -> Optional[ModelExchange]:
    """Take the tool results in a request that asks a model; None for any other request."""
    turn = get_current_turn()
    if turn is None or request.method != "POST":
        return None
    try:
        content = request.content
    except RuntimeError:  # it is made while it is sent: no SDK does that with what it asks a model
        return None
    body = load_json(content) if content[:1] == b"{" else None
    dialect = detect_dialect(request.url.path, body)
    if dialect is None or not isinstance(body, dict):
        return None
    turn.take_results(dialect.read_results(body))
    return ModelExchange(turn, dialect, dialect.find_forced_tool(body))


class ModelExchange:
    """One request to a model, and its answer."""

    def __init__(self, turn: TurnCapture, dialect: ModelDialect, forced: Optional[str]) -> None:
        self._turn = turn
        self._dialect = dialect
        self._forced = forced

    @suppress_errors
    def watch_response(self, response: Any) -> None:
        """Read an answer that is there, or read along while the agent reads it."""
        if response.status_code != _OK:
            return
        try:
            content = response.content
        except RuntimeError:  # it is not read yet
            self._read_along(response)
        else:
            self._read_whole(content, _is_stream(response))

    def _read_whole(self, content: bytes, streamed: bool) -> None:
        reading = _EventReader(self) if streamed else _BodyReader(self)
        reading.take(content)
        reading.end()

    def _read_along(self, response: Any) -> None:
        reading = _EventReader(self) if _is_stream(response) else _BodyReader(self)
        self._turn.watch_stream(reading)
        # On the response itself: `read`, `iter_text`, `iter_lines` and their like all go through these two.
        response.iter_bytes = _copy_chunks(response.iter_bytes, reading)
        response.aiter_bytes = _copy_chunks_async(response.aiter_bytes, reading)

    def create_assembler(self) -> StreamAssembler:
        """Return what puts a streamed answer together."""
        return self._dialect.create_assembler()

    @suppress_errors
    def take_body(self, body: Any) -> None:
        """Take the whole answer."""
        answer = self._dialect.read_answer(body) if isinstance(body, dict) else None
        if answer is not None:
            self._turn.take_answer(answer, self._forced)


def _is_stream(response: Any) -> bool:
    return "text/event-stream" in (response.headers.get("content-type") or "")


class _BodyReader:
    """An answer in one piece, of which the agent reads the bytes itself."""

    def __init__(self, exchange: ModelExchange) -> None:
        self._exchange: Optional[ModelExchange] = exchange
        self._parts: list[bytes] = []
        self._size = 0

    @suppress_errors
    def take(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._exchange is not None and self._size <= _MAX_WHOLE_BYTES:
            self._parts.append(chunk)

    @suppress_errors
    def end(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.take_body(load_json(b"".join(self._parts)))
        self._parts = []


class _EventReader:
    """Server-sent events, read while they come: who has the last one may leave the rest unread."""

    def __init__(self, exchange: ModelExchange) -> None:
        self._exchange: Optional[ModelExchange] = exchange
        self._assembler = exchange.create_assembler()
        self._rest = b""

    @suppress_errors
    def take(self, chunk: bytes) -> None:
        if self._exchange is None:
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            # Every provider writes an event's JSON on one line.
            if line.startswith(b"data:"):
                self._take_data(line[len(b"data:") :].strip())

    @suppress_errors
    def end(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None and self._assembler.body is not None:
            exchange.take_body(self._assembler.body)

    def _take_data(self, data: bytes) -> None:
        if self._exchange is None:
            return
        event = None if data == b"[DONE]" else load_json(data)
        if data == b"[DONE]" or (isinstance(event, dict) and self._assembler.add_event(event)):
            self.end()


def _copy_chunks(read: Callable[..., Any], reading: Any) -> Callable[..., Iterator[bytes]]:
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


def _copy_chunks_async(read: Callable[..., Any], reading: Any) -> Callable[..., AsyncIterator[bytes]]:
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

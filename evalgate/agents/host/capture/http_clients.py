"""Capture of requests to models, and of the answers, in httpx and its successor httpx2.

`Client.send` is patched instead of the SDKs. An SDK has a dozen methods, which differ from release to release
(`create`, `parse`, `stream`, raw answers, asynchronous or not), and all of them call `send`. Each retry of an
SDK is a separate exchange, which is recorded if the server answers.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, AsyncIterator, Callable, Iterator, Optional

from .hooks import suppress_errors
from .model_apis import ModelDialect, StreamAssembler, detect_dialect, load_json
from .turns import TurnCapture, get_current_turn

_OK = 200
# The copy of an answer takes memory of the agent. No model answers with this much.
_MAX_WHOLE_BYTES = 64 * 1024 * 1024


def watch_clients(module: ModuleType) -> None:
    """Patch `send` of the module's two clients (sync and async) to record requests to models."""
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
    """Return a `ModelExchange` for a request to a model; None for any other request, and outside of turns.

    Tool results in the request's body are added to the turn.
    """
    turn = get_current_turn()
    if turn is None or request.method != "POST":
        return None
    try:
        content = request.content
    except RuntimeError:  # a streamed request body: no SDK sends requests to models like that
        return None
    body = load_json(content) if content[:1] == b"{" else None
    dialect = detect_dialect(request.url.path, body)
    if dialect is None or not isinstance(body, dict):
        return None
    turn.add_results(dialect.read_results(body))
    return ModelExchange(turn, dialect, body)


class ModelExchange:
    """Request to a model, with the model's answer. The answer is recorded in the turn of the request."""

    def __init__(self, turn: TurnCapture, dialect: ModelDialect, body: dict[str, Any]) -> None:
        self._turn = turn
        self._dialect = dialect
        self._forced = dialect.find_forced_tool(body)
        self._step = turn.begin_request(body)

    @suppress_errors
    def watch_response(self, response: Any) -> None:
        """Record the model's answer from an HTTP response, and end the request's step in the trace.

        A body that is loaded already is recorded now. Any other body is recorded while the agent reads it. If
        the status is not 200, no answer is recorded. The step then ends with the status as its error.
        """
        if response.status_code != _OK:
            if self._step is not None:
                self._turn.end_request(self._step, None, error=f"HTTP status {response.status_code}")
            return
        try:
            content = response.content
        except RuntimeError:  # it is not read yet
            self._copy_stream(response)
        else:
            reader = _EventReader(self) if _is_stream(response) else _BodyReader(self)
            reader.add_chunk(content)
            reader.end()

    def _copy_stream(self, response: Any) -> None:
        reader = _EventReader(self) if _is_stream(response) else _BodyReader(self)
        self._turn.add_stream(reader)
        # Patched on this response, because `read`, `iter_text`, `iter_lines` and all others call these two.
        response.iter_bytes = _copy_chunks(response.iter_bytes, reader)
        response.aiter_bytes = _copy_chunks_async(response.aiter_bytes, reader)

    def create_assembler(self) -> StreamAssembler:
        """Return an object that puts the events of a streamed answer together to a complete answer."""
        return self._dialect.create_assembler()

    @suppress_errors
    def record_body(self, body: Any) -> None:
        """Record the content of a complete answer in the turn, and end the request's step in the trace."""
        answer = self._dialect.read_answer(body) if isinstance(body, dict) else None
        if self._step is not None:
            self._turn.end_request(self._step, body, answer)
        if answer is not None:
            self._turn.add_answer(answer, self._forced)


def _is_stream(response: Any) -> bool:
    return "text/event-stream" in (response.headers.get("content-type") or "")


class _BodyReader:
    """Collector of an answer without server-sent events. It gets the bytes while the agent reads them.

    An answer of more than 64 MiB is not recorded.
    """

    def __init__(self, exchange: ModelExchange) -> None:
        self._exchange: Optional[ModelExchange] = exchange
        self._parts: list[bytes] = []
        self._size = 0

    @suppress_errors
    def add_chunk(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._exchange is not None and self._size <= _MAX_WHOLE_BYTES:
            self._parts.append(chunk)

    @suppress_errors
    def end(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.record_body(load_json(b"".join(self._parts)))
        self._parts = []


class _EventReader:
    """Parser of the server-sent events in an answer. It gets the bytes while the agent reads them.

    The answer is recorded at the last event, because the agent may leave the rest of the stream unread.
    Without a last event, the answer is recorded when the agent stops reading or the turn ends.
    """

    def __init__(self, exchange: ModelExchange) -> None:
        self._exchange: Optional[ModelExchange] = exchange
        self._assembler = exchange.create_assembler()
        self._rest = b""

    @suppress_errors
    def add_chunk(self, chunk: bytes) -> None:
        if self._exchange is None:
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            # Every provider writes an event's JSON on one line.
            if line.startswith(b"data:"):
                self._parse_data(line[len(b"data:") :].strip())

    @suppress_errors
    def end(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None and self._assembler.body is not None:
            exchange.record_body(self._assembler.body)

    def _parse_data(self, data: bytes) -> None:
        if self._exchange is None:
            return
        event = None if data == b"[DONE]" else load_json(data)
        if data == b"[DONE]" or (isinstance(event, dict) and self._assembler.add_event(event)):
            self.end()


def _copy_chunks(read: Callable[..., Any], reader: Any) -> Callable[..., Iterator[bytes]]:
    def iter_bytes(*args: Any, **options: Any) -> Iterator[bytes]:
        chunks = read(*args, **options)
        try:
            for chunk in chunks:
                reader.add_chunk(chunk)
                yield chunk
        finally:
            # Also if the agent stops reading early: it may have the last event by then.
            chunks.close()
            reader.end()

    return iter_bytes


def _copy_chunks_async(read: Callable[..., Any], reader: Any) -> Callable[..., AsyncIterator[bytes]]:
    async def aiter_bytes(*args: Any, **options: Any) -> AsyncIterator[bytes]:
        chunks = read(*args, **options)
        try:
            async for chunk in chunks:
                reader.add_chunk(chunk)
                yield chunk
        finally:
            await chunks.aclose()
            reader.end()

    return aiter_bytes

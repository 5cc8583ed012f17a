"""An OTLP/HTTP endpoint of the gate's own, for as long as the agent runs."""

import asyncio
import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from evalgate.agents.tracing.context import TurnTrace
from evalgate.agents.tracing.trace_formats import InvalidOtlpError, Span, read_otlp_json, read_otlp_protobuf
from evalgate.core.errors import InvalidInputError
from evalgate.core.extras import describe_install
from evalgate.core.frozen import frozen

if TYPE_CHECKING:
    from aiohttp import web

_MAX_BODY = 64 * 1024 * 1024
_MAX_SPANS = 200_000
"""Spans that no turn has claimed; beyond, the oldest are forgotten."""
_SETTLE_S = 0.05
"""Exporters send in batches: spans that ended together may come in two."""


@frozen
class CollectorEndpoint:
    """Where spans are taken."""

    host: str = "127.0.0.1"
    """The address that is listened at."""
    port: int = 0
    """0: anywhere."""
    known_as: str = ""
    """The host as the agent reaches it; empty: the same."""


class SpanCollector:
    """Takes spans in and gives each turn its own."""

    def __init__(self, endpoint: CollectorEndpoint) -> None:
        self._host = endpoint.host
        self._known_as = endpoint.known_as or endpoint.host
        self._port = endpoint.port
        self._spans: list[Span] = []
        self.forgotten = 0
        """Spans that no turn had claimed when there were too many."""
        self._arrived = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """What `OTEL_EXPORTER_OTLP_ENDPOINT` must be."""
        return f"http://{self._known_as}:{self._port}"

    async def __aenter__(self) -> Self:
        try:
            from aiohttp import web
        except ImportError:
            raise InvalidInputError(
                f"`agent.otel` needs the package `aiohttp`: {describe_install('otel')}"
            ) from None
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_post("/v1/traces", self._receive_spans)
        # Exporters of the other signals are answered, so that they do not fill the agent's log with errors.
        app.router.add_post("/v1/{signal:metrics|logs}", self._discard_signal)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            why = os.strerror(error.errno) if error.errno else str(error)
            where = f"http://{self._host}:{self._port}"
            sentence = f"cannot listen for spans at {where}: {why}; give another `agent.otel.port`"
            raise InvalidInputError(sentence) from None
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def add_spans(self, spans: Iterable[Span]) -> None:
        """Spans arrived."""
        async with self._arrived:
            self._spans += spans
            self.forgotten += max(0, len(self._spans) - _MAX_SPANS)
            del self._spans[:-_MAX_SPANS]
            self._arrived.notify_all()

    async def take_spans(self, turn: TurnTrace, wait_s: float) -> list[Span]:
        """The spans of a turn, once the topmost has arrived or the time is up. Nobody else gets them."""
        try:
            async with asyncio.timeout(wait_s), self._arrived:
                await self._arrived.wait_for(
                    lambda: any(turn.owns_span(span) and turn.is_top(span) for span in self._spans)
                )
            await asyncio.sleep(_SETTLE_S)
        except TimeoutError:
            pass  # what is there is all there is
        found = [span for span in self._spans if turn.owns_span(span)]
        self._spans = [span for span in self._spans if not turn.owns_span(span)]
        return found

    async def _receive_spans(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        body = await request.read()  # unpacked, if it was sent packed
        try:
            if request.content_type == "application/json":
                await self.add_spans(read_otlp_json(json.loads(body)))
                return web.json_response({})
            await self.add_spans(read_otlp_protobuf(body))
        except (InvalidOtlpError, ValueError, RecursionError) as error:
            return web.Response(status=400, text=str(error)[:500])
        return web.Response(body=b"", content_type="application/x-protobuf")

    async def _discard_signal(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        await request.read()
        return web.Response(body=b"", content_type=request.content_type)

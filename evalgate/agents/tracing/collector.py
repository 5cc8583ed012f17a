"""OTLP/HTTP endpoint of evalgate, which receives the OpenTelemetry spans of the agent."""

import asyncio
import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from evalgate.agents.tracing.trace_context import TurnTrace
from evalgate.agents.tracing.trace_formats import InvalidOtlpError, Span, read_otlp_json, read_otlp_protobuf
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.installation import describe_install

if TYPE_CHECKING:
    from aiohttp import web

_MAX_BODY = 64 * 1024 * 1024
_MAX_SPANS = 200_000
"""Largest number of stored spans that no turn has taken. Beyond this number, the oldest spans are dropped."""
_SETTLE_S = 0.05
"""Seconds to wait for further spans after a turn's topmost span has arrived.

Exporters send batches: spans that ended at the same time may arrive in two batches.
"""


@frozen
class CollectorEndpoint:
    """Address of a collector: where evalgate listens, and the host name that the agent uses."""

    host: str = "127.0.0.1"
    """IP address or host name at which evalgate listens for spans."""
    port: int = 0
    """Port to listen at; 0: any free port."""
    known_as: str = ""
    """Host name by which the agent reaches the collector; "" if this is `host`."""


class SpanCollector:
    """OTLP/HTTP server that stores the agent's spans until `take_spans` is called for their turn."""

    def __init__(self, endpoint: CollectorEndpoint) -> None:
        self._host = endpoint.host
        self._known_as = endpoint.known_as or endpoint.host
        self._port = endpoint.port
        self._spans: list[Span] = []
        self.dropped_spans = 0
        """Number of spans that were dropped because too many spans were stored."""
        self._arrived = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Return the value of `OTEL_EXPORTER_OTLP_ENDPOINT` for the agent."""
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
        self._port = self._runner.addresses[0][1]  # for port 0, the port that the system chose
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def add_spans(self, spans: Iterable[Span]) -> None:
        """Store spans, and wake the turns that wait for spans.

        If more than 200,000 spans are stored, the oldest are dropped.
        """
        async with self._arrived:
            self._spans += spans
            self.dropped_spans += max(0, len(self._spans) - _MAX_SPANS)
            del self._spans[:-_MAX_SPANS]
            self._arrived.notify_all()

    async def take_spans(self, turn: TurnTrace, wait_s: float) -> list[Span]:
        """Remove and return the stored spans of a turn; [] if the turn has none.

        First wait, for at most `wait_s` seconds, until the turn's topmost span has arrived. This span is the
        last to end.
        """
        try:
            async with asyncio.timeout(wait_s), self._arrived:
                await self._arrived.wait_for(
                    lambda: any(turn.owns_span(span) and turn.is_top(span) for span in self._spans)
                )
            await asyncio.sleep(_SETTLE_S)
        except TimeoutError:
            pass  # the caller decides what missing spans mean
        found = [span for span in self._spans if turn.owns_span(span)]
        self._spans = [span for span in self._spans if not turn.owns_span(span)]
        return found

    async def _receive_spans(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        body = await request.read()  # aiohttp has decompressed it
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

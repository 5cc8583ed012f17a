"""Limit the time in which the viewer's server waits for the headers of a request."""

import asyncio

import h11
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""Seconds in which the first line and the headers of a request must arrive. uvicorn itself limits only the
time between requests."""


class LimitedConnection(H11Protocol):
    """Connection that is closed if the headers of a request do not arrive within `HEAD_S` seconds.

    Otherwise, any process on the machine could open connections until the server has no file descriptors.
    """

    _waits_since = 0.0

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waits_since = self.loop.time()
        self.loop.call_later(HEAD_S, self._check_head)

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._waits_since = self.loop.time()

    def _check_head(self) -> None:
        if self.transport.is_closing():
            return
        waits = self.conn.their_state is h11.IDLE or self.conn.their_state is h11.ERROR
        left = self._waits_since + HEAD_S - self.loop.time() if waits else HEAD_S
        if left <= 0:
            self.transport.close()
        else:
            self.loop.call_later(left, self._check_head)

"""An HTTP server on loopback that sends the answers of a fake service, with injected faults."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from tests.github.faults import Fault


@dataclass(frozen=True)
class Request:
    """One request, decoded."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]


class Service(Protocol):
    """A fake service that `serving` puts behind an HTTP server."""

    @property
    def usual_headers(self) -> Mapping[str, str]:
        """Return the headers of every answer, also of refusals."""
        ...

    def fault(self, method: str, path: str) -> Fault:
        """Return the fault to inject into a request; `Fault()` for none."""
        ...

    def refusal(self, fault: Fault) -> Any:
        """Return the body of the answer if the fault sets a status."""
        ...

    def answer(self, request: Request) -> tuple[int, Any, Mapping[str, str]]:
        """Return status, body (bytes, a value for JSON, or None for an empty body) and headers."""
        ...

    def exchanged(self, request: Request, status: int) -> None:
        """Note the status of a request, before the answer is sent. The client may never receive it."""
        ...


@contextmanager
def serving(service: Service, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve during the block, and yield the port."""
    server = _Server(service)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, service: Service) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.service = service

    def handle_error(self, *_: object) -> None:
        """Print nothing if a client closes its connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Print no log line for a request."""

    def handle_request(self) -> None:
        service, request = self.server.service, self._request()
        fault = service.fault(request.method, request.path)
        time.sleep(fault.delay_s)
        if fault.then:
            fault.then()
        if fault.cut == "before":
            self._hang_up()
            return
        if fault.status:
            status, body, headers = fault.status, service.refusal(fault), fault.headers
        else:
            status, body, headers = service.answer(request)
        service.exchanged(request, status)
        if fault.cut == "after":
            self._hang_up()
            return
        self._send(status, _encoded(body) if fault.body is None else fault.body, headers, fault)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_request  # noqa: N815 - named by http.server

    def _request(self) -> Request:
        place = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else None
        return Request(self.command, place.path, dict(parse_qsl(place.query)), body, dict(self.headers))

    def _send(self, status: int, content: bytes, headers: Mapping[str, str], fault: Fault) -> None:
        self.send_response(status)
        for name, value in {**self.server.service.usual_headers, **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if fault.cut == "halfway":
            self.wfile.write(content[: len(content) // 2])
            self._hang_up()
            return
        step = 1 if fault.drip_s else len(content) or 1
        for start in range(0, len(content), step):
            time.sleep(fault.drip_s)
            self.wfile.write(content[start : start + step])

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _encoded(body: object) -> bytes:
    if body is None:
        return b""
    return body if isinstance(body, bytes) else json.dumps(body).encode()

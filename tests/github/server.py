"""A GitHub on loopback: state, permissions, pages, limits and faults; both sides of each exchange are checked."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.github import contract
from tests.github.actions import BLOBS, stored
from tests.github.endpoints import ENDPOINTS
from tests.github.faults import Fault
from tests.github.requests import Answer, Asked, Page, Redirect, Refused
from tests.github.world import REPOSITORY, World

_LARGEST_PAGE = 100


@dataclass(frozen=True)
class Exchange:
    """One request and the status of its answer."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]
    status: int


@dataclass
class FakeGitHub:
    """A running server. Give `url` to a client as GITHUB_API_URL."""

    prefix: str = ""
    """`/api/v3` on GitHub Enterprise Server."""
    page_size: int = 100
    """Most items of a page."""
    world: World = field(default_factory=World)
    faults: list[Fault] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    """Where a client or this fake broke GitHub's contract."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    def count(self, method: str) -> int:
        """How many requests of a method were answered."""
        return sum(each.method == method for each in self.exchanges)

    @contextmanager
    def running(self) -> Iterator["FakeGitHub"]:
        """Serve until the block ends, which is where a broken contract is told."""
        server = _Server(self)
        self.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        assert not self.violations, self.violations

    def fault(self, method: str, path: str) -> Fault:
        """What befalls a request; a fault that does nothing when none does."""
        with self.world.lock:
            return next((each for each in self.faults if each.befalls(method, path)), Fault())

    def answer(self, request: "Request") -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers for a request, checked against the contract."""
        if request.path.startswith(BLOBS):
            if "Authorization" in request.headers:
                self.violations.append("a token was sent to the storage of artifacts")
            return 200, stored(self.world, request.path), {}
        asked = contract.operation(request.method, request.path.removeprefix(self.prefix))
        if asked is None or (asked.method, asked.template) not in ENDPOINTS:
            self.violations.append(f"{request.method} {request.path}: no such endpoint")
            return 404, Refused(404, "Not Found").body, {}
        problems = contract.request_problems(asked, request.query, request.body)
        body: Any
        try:
            status, body = self._done(asked, request, problems)
        except Refused as refusal:
            status, body = refusal.status, refusal.body
        body, headers = self._page(body, request) if isinstance(body, Page) else (body, {})
        if isinstance(body, Redirect):
            body, headers = None, {"Location": body.location}
        problems += contract.answer_problems(asked, status, body)
        self.violations += [f"{asked.method} {asked.template}: {problem}" for problem in problems]
        return status, body, headers

    def _done(self, asked: contract.Operation, request: "Request", problems: Sequence[str]) -> Answer:
        endpoint, written = ENDPOINTS[asked.method, asked.template]
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        who = self.world.grants.get(token) if kind.lower() in {"bearer", "token"} else None
        if who is None:
            raise Refused(401, "Bad credentials")
        if f"{asked.values['owner']}/{asked.values['repo']}" != REPOSITORY:
            raise Refused(404, "Not Found")
        if written and written not in who.writes:
            raise Refused(403, "Resource not accessible by integration")
        if problems:
            raise Refused(422, "Validation Failed")
        with self.world.lock:
            return endpoint(self.world, Asked(asked.values, request.query, request.body or {}, who, self.url))

    def _page(self, page: Page, request: "Request") -> tuple[Any, dict[str, str]]:
        size = min(int(request.query.get("per_page", 30)), _LARGEST_PAGE, self.page_size)
        number, last = int(request.query.get("page", 1)), -(-len(page.items) // size)
        links = {"next": number + 1, "last": last} if number < last else {}
        links |= {"prev": number - 1, "first": 1} if number > 1 else {}
        here = f"http://127.0.0.1:{self.port}{request.path}"
        link = ", ".join(
            f'<{here}?{urlencode({**request.query, "page": to})}>; rel="{name}"' for name, to in links.items()
        )
        shown = list(page.items[(number - 1) * size : number * size])
        body = {"total_count": len(page.items), page.name: shown} if page.total else shown
        return body, {"Link": link} if link else {}


@dataclass(frozen=True)
class Request:
    """One request, decoded."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]


def _encoded(body: object) -> bytes:
    if body is None:
        return b""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, github: FakeGitHub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.github = github

    def handle_error(self, *_: object) -> None:
        """Stay quiet: a client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Stay quiet."""

    def handle_request(self) -> None:
        github, request = self.server.github, self._request()
        fault = github.fault(request.method, request.path)
        time.sleep(fault.delay_s)
        if fault.then:
            fault.then()
        if fault.cut == "before":
            self._hang_up()
            return
        if fault.status:
            status, body, headers = fault.status, Refused(fault.status, fault.message).body, {**fault.headers}
        else:
            status, body, headers = github.answer(request)
        github.exchanges.append(
            Exchange(request.method, request.path, request.query, request.body, request.headers, status)
        )
        if fault.cut == "after":
            self._hang_up()
            return
        content = _encoded(body)
        self._send(status, content if fault.body is None else fault.body, headers, fault)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_request  # noqa: N815 - named by http.server

    def _request(self) -> Request:
        place = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else None
        return Request(self.command, place.path, dict(parse_qsl(place.query)), body, dict(self.headers))

    def _send(self, status: int, content: bytes, headers: Mapping[str, str], fault: Fault) -> None:
        self.send_response(status)
        limits = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "4999"}
        for name, value in {**limits, **headers}.items():
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

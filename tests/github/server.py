"""A fake GitHub on loopback, with state, permissions, pages, limits and faults. Requests and answers are checked."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.faulty_server import Request, serving
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
    """Fake GitHub server. Clients get `url` as GITHUB_API_URL."""

    prefix: str = ""
    """Path before the API's paths, such as `/api/v3` of GitHub Enterprise Server."""
    page_size: int = 100
    """Greatest number of items in a page."""
    world: World = field(default_factory=World)
    faults: list[Fault] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    """Sentences about requests and answers that violate GitHub's description."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    def count(self, method: str) -> int:
        """Return the number of answered requests with a method."""
        return sum(each.method == method for each in self.exchanges)

    @contextmanager
    def running(self) -> Iterator["FakeGitHub"]:
        """Serve during the block. Raise AssertionError at its end if there are `violations`."""
        with serving(self) as self.port:
            yield self
        assert not self.violations, self.violations

    def fault(self, method: str, path: str) -> Fault:
        """Return the fault to inject into a request; `Fault()` for none."""
        with self.world.lock:
            return next((each for each in self.faults if each.befalls(method, path)), Fault())

    @property
    def usual_headers(self) -> Mapping[str, str]:
        return {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "4999"}

    def refusal(self, fault: Fault) -> Any:
        return Refused(fault.status, fault.message).body

    def exchanged(self, request: Request, status: int) -> None:
        self.exchanges.append(
            Exchange(request.method, request.path, request.query, request.body, request.headers, status)
        )

    def answer(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        """Return status, body and headers for a request. Note violations of GitHub's description."""
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

    def _done(self, asked: contract.Operation, request: Request, problems: Sequence[str]) -> Answer:
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

    def _page(self, page: Page, request: Request) -> tuple[Any, dict[str, str]]:
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

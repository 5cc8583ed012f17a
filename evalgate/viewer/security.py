"""Protect the viewer from other users of the machine and from pages of other sites.

The server listens on a loopback address only, and each request has to pass these checks:

- Its `Host` is a loopback name with the server's port. So a foreign name that resolves to 127.0.0.1 (DNS
  rebinding) reaches nothing.
- Its cookie holds the session's secret. The address that is printed in the terminal sets this cookie.
- If the request changes something, it is a POST from a page of this server (`Origin`, `Sec-Fetch-Site`), has
  the CSRF token of its form, and has a body of at most 16 MiB.

Responses forbid scripts and styles that are not files of the viewer.
"""

import hashlib
import hmac
import html
import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from evalgate.core.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 16 * 2**20
MAX_QUERY_BYTES = 32 * 2**10
CSRF_FIELD = "csrf"
CSRF_HEADER = "x-evalgate-csrf"

_READING = frozenset({"GET", "HEAD"})
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # Not `no-referrer`: browsers would send the forms of our own pages with `Origin: null`.
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_FIRST_PAGE = (
    "This page belongs to the person who started `evalgate view`. Open the whole address that the command "
    "printed in the terminal: it ends in a token."
)
_REFRESH = (
    '<!doctype html><html lang="en"><title>evalgate</title>'
    '<meta http-equiv="refresh" content="0; url={0}"><a href="{0}">Open the viewer</a></html>'
)


@frozen
class Access:
    """Secrets of one server, and the addresses at which it answers."""

    port: int
    token: str
    host: str = "127.0.0.1"
    """Address on which the server listens, as in a URL: an IPv6 address has brackets, such as `[::1]`."""

    @classmethod
    def create(cls, port: int, host: str) -> "Access":
        """Return the secrets and addresses of a new server, with a random token."""
        return cls(port, secrets.token_urlsafe(32), host)

    @property
    def address(self) -> str:
        """Return the address to open first. It contains the token; the server's answer sets the cookie."""
        return f"http://{self.host}:{self.port}/?token={self.token}"

    @property
    def hosts(self) -> frozenset[str]:
        """Return the values of the header `Host` that name this server."""
        names = frozenset({"127.0.0.1", "localhost", "[::1]", self.host})
        return frozenset(f"{name}:{self.port}" for name in names) | (names if self.port == 80 else set())

    @property
    def cookie_name(self) -> str:
        """Return the cookie's name, which has the port.

        Browsers send the cookies of a host to its servers on all ports, so each viewer needs its own name.
        """
        return f"evalgate_view_{self.port}"

    @property
    def session(self) -> str:
        """Return the value of the session cookie, derived from the token."""
        return self._derive("session")

    @property
    def csrf_token(self) -> str:
        """Return the CSRF token, which each form of the viewer sends."""
        return self._derive("csrf")

    def _derive(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


class SecurityMiddleware:
    """ASGI middleware that applies the checks of this module to every request of the viewer."""

    def __init__(self, app: "ASGIApp", access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass a request on to the application if all checks allow it; otherwise answer with an error.

        If the address contains the token, answer by setting the session cookie and a redirect.
        """
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if refusal := self._refuse_address(scope, headers):
            await _send_text(send, *refusal)
        elif self._has_token(scope):
            await self._send_cookie(scope, headers, send)
        elif not self._has_session(headers):
            await _send_text(send, 403, _FIRST_PAGE)
        elif scope["method"] in _READING:
            await self._app(scope, receive, _add_headers(send))
        else:
            await self._forward_change(scope, headers, receive, send)

    def _refuse_address(self, scope: "Scope", headers: dict[str, str]) -> tuple[int, str] | None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or headers["host"].lower() not in self._access.hosts:
            return 421, "The viewer answers only at 127.0.0.1 and localhost, with its own port."
        if len(scope["query_string"]) > MAX_QUERY_BYTES:
            return 414, "The address is too long."
        if scope["method"] not in {*_READING, "POST"}:
            return 405, "Only GET, HEAD and POST are allowed."
        return None

    def _has_token(self, scope: "Scope") -> bool:
        given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
        return scope["method"] == "GET" and is_equal_secret(given, self._access.token)

    def _has_session(self, headers: dict[str, str]) -> bool:
        # Other programs on this machine set cookies for all ports. If one of them is malformed, Python's
        # SimpleCookie reads no cookie at all.
        pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
        return any(
            name == self._access.cookie_name and is_equal_secret(value, self._access.session)
            for name, _, value in pairs
        )

    async def _send_cookie(self, scope: "Scope", headers: dict[str, str], send: "Send") -> None:
        """Answer with the session cookie, and a redirect to the same address without the token."""
        query = [pair for pair in parse_qsl(scope["query_string"].decode("latin-1")) if pair[0] != "token"]
        # The raw path is percent-encoded. A second slash at its start would name another host.
        path = "/" + scope.get("raw_path", b"/").decode("latin-1").lstrip("/\\")
        location = path + (f"?{urlencode(query)}" if query else "")
        cookie = f"{self._access.cookie_name}={self._access.session}; HttpOnly; SameSite=Strict; Path=/"
        more = [(b"set-cookie", cookie.encode("latin-1"))]
        if headers.get("sec-fetch-site") == "cross-site":
            # If a link on another site led here, browsers would follow a redirect without the cookie, which
            # is `SameSite=Strict`. They send the cookie when a page of this server refreshes itself.
            await _send_text(send, 200, _REFRESH.format(html.escape(location)), more, kind="text/html")
        else:
            await _send_text(send, 303, "", [*more, (b"location", location.encode("latin-1"))])

    async def _forward_change(
        self, scope: "Scope", headers: dict[str, str], receive: "Receive", send: "Send"
    ) -> None:
        """Pass a POST on if it comes from a form of this server; otherwise answer with an error."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        is_ours = origin is not None and origin.lower() in {f"http://{host}" for host in self._access.hosts}
        # Some browsers leave out one of the two headers, but none leaves out both.
        if (origin is not None and not is_ours) or (site or "same-origin") != "same-origin":
            await _send_text(send, 403, "This request comes from a page of another site.")
            return
        if origin is None and site is None:
            await _send_text(send, 403, "This request does not say which page it comes from.")
            return
        body = await _read_body(receive)
        if body is None:
            await _send_text(send, 413, f"The form is larger than {MAX_BODY_BYTES // 2**20} MiB.")
        elif not is_equal_secret(
            headers.get(CSRF_HEADER) or _find_csrf_field(headers, body), self._access.csrf_token
        ):
            await _send_text(send, 403, "The form is of an earlier server. Load the page again.")
        else:
            await self._app(scope, _replay_body(body, receive), _add_headers(send))


def is_equal_secret(given: str, secret: str) -> bool:
    """Return True if two texts are equal. The time that this takes does not show where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def _find_csrf_field(headers: dict[str, str], body: bytes) -> str:
    if not headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return ""
    # The token is the first field of each form, so that the whole form is parsed only once, by the page.
    name, _, value = body[:200].partition(b"&")[0].partition(b"=")
    return value.decode("latin-1") if name == CSRF_FIELD.encode() else ""


async def _read_body(receive: "Receive") -> bytes | None:
    """Return the body of a request; None if it is larger than 16 MiB or the connection ended."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay_body(body: bytes, receive: "Receive") -> "Receive":
    sent = False

    async def receive_again() -> "Message":
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _add_headers(send: "Send") -> "Send":
    async def send_with_headers(message: "Message") -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
        await send(message)

    return send_with_headers


async def _send_text(
    send: "Send",
    status: int,
    text: str,
    more: "Iterable[tuple[bytes, bytes]]" = (),
    kind: str = "text/plain",
) -> None:
    body = f"{text}\n".encode() if text else b""
    headers = [
        (b"content-type", f"{kind}; charset=utf-8".encode()),
        (b"content-length", str(len(body)).encode()),
        *_HEADERS,
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""HTTP client for the agent's server: its address and TLS options, its proxy, and requests with retries."""

import asyncio
import json
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import field
from ipaddress import ip_address, ip_network
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

from evalgate.agents.http.dialect import pause_turn_timer
from evalgate.agents.http.errors import (
    PROXY_AUTH_REQUIRED,
    TOO_MANY_REQUESTS,
    build_certificate_error,
    build_connection_error,
    build_status_error,
    build_unavailable_error,
    describe_connection_error,
    get_retry_after,
)
from evalgate.agents.http.response_body import parse_json_body, read_body, run_off_loop
from evalgate.agents.tracing.trace_context import current_turn
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.installation import describe_install
from evalgate.system.files import check_is_regular
from evalgate.system.throttling.backoff import RetryPolicy, wait_without_slot

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import ClientResponse, ClientSession


def is_http_url(text: str) -> bool:
    """Return True if a text is an `http://` or `https://` URL with a host, without port 0 or whitespace."""
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an IPv6 address, a port that is no number
        return False
    return is_one and not any(map(str.isspace, text))


def append_path(url: str, path: str) -> str:
    """Return `url` with `path` appended to the path of `url`; a query stays at the end."""
    parts = urlsplit(url)
    return parts._replace(path=parts.path.rstrip("/") + path).geturl()


def find_proxy(url: str) -> str | None:
    """Return the address of the proxy that the environment sets for `url`; None without a proxy.

    The variables are HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. A loopback address never has a proxy,
    because the proxy would look for the address on its own machine.

    Raises:
        InvalidInputError: the environment names a proxy that is not an HTTP proxy.
    """
    parts, proxies = urlsplit(url), getproxies_environment()
    host = parts.hostname or ""
    # Not `urllib.request.proxy_bypass`, which knows no networks in NO_PROXY (`10.0.0.0/8`).
    exempt = (entry.strip().lower() for entry in proxies.get("no", "").split(","))
    if _is_loopback(host) or any(
        _matches_exemption(entry, host, parts.netloc.lower()) for entry in exempt if entry
    ):
        return None
    for name in (parts.scheme, "all"):
        if proxy := proxies.get(name):
            return _validate_proxy(name, proxy)
    return None


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _matches_exemption(entry: str, host: str, netloc: str) -> bool:
    """Return True if an entry of NO_PROXY exempts a host from the proxy.

    An entry may be a host, a host with its port, a domain, a network, or `*`. `netloc` is the host with its
    port.
    """
    domain = entry.lstrip(".*")
    if entry == "*" or entry in (host, netloc) or (domain and f".{host}".endswith(f".{domain}")):
        return True
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        return False


def _validate_proxy(name: str, proxy: str) -> str:
    """Return the URL of a proxy; raise InvalidInputError if it is not an HTTP proxy.

    No error message shows the URL, because it may hold a password.
    """
    variable, address = f"{name.upper()}_PROXY", proxy if "://" in proxy else f"http://{proxy}"
    kind = address.partition(":")[0].lower()
    if kind not in {"http", "https"}:
        raise InvalidInputError(
            f"{variable} names a proxy of the kind `{kind}`: an agent is asked through HTTP proxies alone. "
            "Name one, or exempt the agent's host in NO_PROXY"
        )
    if not is_http_url(address):
        raise InvalidInputError(
            f"{variable} names a proxy that is no address: it must look like http://host:port"
        )
    return address


# Uvicorn and Node.js close an idle connection after 5 s: the client closes it before they do.
_KEEPALIVE_S = 3.0
_CONNECT_S = 30


@frozen
class AgentServer:
    """Address of the agent with the options of the HTTP client. Its repr hides headers and secrets."""

    url: str
    """Address without a slash at its end."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every request."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Secret values, such as passwords; messages show `[hidden]` in their place."""
    verify: bool = True
    """True if the certificate must be valid."""
    ca_file: Path | None = None
    """PEM file of the certificates that are trusted instead of the system's; None: the system's."""
    is_in_container: bool = False
    """True if the server runs in a container.

    An address that such a server reports as its own is valid only in the container: its scheme, host and port
    are replaced by those of `url`. The server is reached without a proxy.
    """
    connections: int = 100
    """Largest number of open connections."""


def create_http_client(server: AgentServer, *, keepalive: bool) -> "ClientSession":
    """Return an HTTP client for the server. With `keepalive`, connections are used for several requests.

    Raises:
        InvalidInputError: `aiohttp` is not installed, the certificates cannot be read, or the environment
            names a proxy that is not an HTTP proxy.
    """
    try:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
    except ImportError:
        raise InvalidInputError(
            f"an agent of kind `http` needs the package `aiohttp`: {describe_install('http')}"
        ) from None
    reuse = {"keepalive_timeout": _KEEPALIVE_S} if keepalive else {"force_close": True}
    connector = TCPConnector(
        limit=server.connections, ssl=_build_tls_context(server), ttl_dns_cache=300, **reuse
    )
    return ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),  # a session cookie must not leak into another conversation
        headers=dict(server.headers),
        # Only for connecting: the turn's timer limits the rest, except for pauses that evalgate makes.
        timeout=ClientTimeout(total=None, sock_connect=_CONNECT_S),
        # Not `trust_env`: aiohttp would read the user's .netrc, in a thread, for each request.
        proxy=None if server.is_in_container else find_proxy(server.url),
    )


def _build_tls_context(server: AgentServer) -> "SSLContext | bool":
    import ssl

    if not server.verify:
        return False
    if server.ca_file is None:
        return True
    try:
        check_is_regular(server.ca_file)
        return ssl.create_default_context(cafile=server.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(
            f"`agent.ca_file`: cannot read certificates from {server.ca_file}: {error}"
        ) from None


Method: TypeAlias = Literal["GET", "POST", "DELETE"]

_COMPACT = json.JSONEncoder(separators=(",", ":"))
_NO_HEADERS: Mapping[str, str] = {}
_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.2
_MAX_PAUSE_S = 60.0
# Added to a server's Retry-After, so that clients with the same value do not return at the same moment.
_JITTER = RetryPolicy(first_pause=0.2)


class AgentConnection:
    """HTTP client of one server, from `open` to `close`."""

    def __init__(self, server: AgentServer, get_jitter: Callable[[], float] = random.random) -> None:
        """Store the server; `get_jitter` returns a random number in [0, 1), which varies the retry delays."""
        self._get_jitter = get_jitter
        self.url = server.url
        self._server = server
        self._client: ClientSession | None = None
        self._single_use_client: ClientSession | None = None
        """Client that uses each connection once, for requests that must not be sent twice.

        A server or load balancer may close a kept connection just when it is used again. Then it is unknown
        if the request was read (RFC 9110, 9.2.2): the agent may be working on the request. A request with its
        own connection is repeated only if the connection could not be made. If the connection breaks later,
        the request has failed.
        """

    def hide_secrets(self, text: str) -> str:
        """Return `text` with each secret value replaced by `[hidden]`."""
        for secret in self._server.secrets:
            text = text.replace(secret, "[hidden]")
        return text

    async def open(self) -> None:
        """Create two HTTP clients: one for POST requests, which keeps no connections, and one for the rest.

        Raises:
            InvalidInputError: `aiohttp` is missing, or the certificates or the proxy cannot be used.
        """
        self._client = create_http_client(self._server, keepalive=True)
        self._single_use_client = create_http_client(self._server, keepalive=False)

    def relocate_url(self, address: str) -> str:
        """Return the URL at which evalgate reaches `address`, which the server reported as its own.

        If the server runs in a container (`is_in_container`), `address` gets the scheme, host and port of the
        server's `url`. Otherwise, the address is returned unchanged.
        """
        if not self._server.is_in_container:
            return address
        reported, known = urlsplit(address), urlsplit(self.url)
        return reported._replace(scheme=known.scheme, netloc=known.netloc).geturl()

    def build_url(self, path: str) -> str:
        """Return the server's URL with `path` appended to the path; a query stays at the end."""
        return append_path(self.url, path)

    @property
    def sends_headers(self) -> bool:
        """Return True if each request carries headers that the user configured."""
        return bool(self._server.headers)

    async def close(self) -> None:
        """Close both HTTP clients with their connections."""
        for client in (self._client, self._single_use_client):
            if client is not None:
                await client.close()

    async def probe_url(self, url: str) -> str:
        """Request `url` once. Return "" if the server answers, else a clause with the reason.

        A status below 500 counts as an answer, except 407, with which a proxy refuses the request.

        Raises:
            AgentUnreachableError: the server's certificate is not trusted.
        """
        import aiohttp

        try:
            async with self._open_client.get(url, allow_redirects=False) as response:
                if response.status == PROXY_AUTH_REQUIRED:
                    return "the proxy wants to know who asks (status 407)"
                return "" if response.status < 500 else f"it answers with status {response.status}"
        except aiohttp.ClientConnectorCertificateError as error:
            raise build_certificate_error(url, error) from None
        except (aiohttp.ClientError, OSError) as error:
            return describe_connection_error(error)

    async def request_json(
        self, method: Method, url: str, body: object = None, headers: Mapping[str, str] = _NO_HEADERS
    ) -> object:
        """Send a request and return the JSON of the answer, or None if the answer is empty.

        Raises:
            AgentError: there is no complete answer, or the answer is too large, is not JSON, or has another
                status than 2xx.
        """
        async with self.open_response(method, url, body, headers) as response:
            body = await read_body(response)
            return await run_off_loop(len(body), lambda: parse_json_body(body))

    def open_response(
        self, method: Method, url: str, body: object = None, headers: Mapping[str, str] = _NO_HEADERS
    ) -> "_ResponseContext":
        """Return a context manager that sends the request; its value is a 2xx response with an unread body.

        Raises:
            AgentError: no 2xx response arrives (on entering), or the connection breaks (on leaving).
        """
        return _ResponseContext(self._send_with_retries(method, url, body, headers))

    @property
    def _open_client(self) -> "ClientSession":
        return _require_open(self._client)

    async def _send_with_retries(
        self, method: Method, url: str, body: object, headers: Mapping[str, str]
    ) -> "ClientResponse":
        """Send the request and return the 2xx response.

        If the server is busy or cannot be reached, wait and try again: at most 4 attempts in all.

        Raises:
            AgentError: the last attempt failed, or the server answered with an error that is no reason to try
                again.
        """
        data = None if body is None else _COMPACT.encode(body).encode()
        sent = {"Accept": "application/json", **headers}
        if (trace := current_turn.get()) is not None:
            sent |= trace.headers
        if data is not None:
            sent["Content-Type"] = "application/json"
        for attempt in range(1, _ATTEMPTS + 1):
            last = attempt == _ATTEMPTS
            response = await self._try_request(method, url, data, sent, last=last)
            if response is None:
                await asyncio.sleep(_FIRST_PAUSE_S * 2 ** (attempt - 1))
            elif 200 <= response.status < 300:
                return response
            elif (pause := get_retry_after(response)) is None or pause > _MAX_PAUSE_S or last:
                raise await build_status_error(response)
            else:
                response.close()
                pause += _JITTER.compute_delay(attempt, self._get_jitter())
                with pause_turn_timer():
                    await wait_without_slot(pause, is_rate_limited=response.status == TOO_MANY_REQUESTS)
        raise RuntimeError("the last attempt gives an answer or fails")

    async def _try_request(
        self, method: Method, url: str, data: bytes | None, headers: Mapping[str, str], *, last: bool
    ) -> "ClientResponse | None":
        """Return the response, with any status; None if there is no response and the caller may try again.

        A POST may be repeated only if it did not reach the server. If it did, it may have started a turn of
        the agent. All other requests may be repeated.

        Raises:
            AgentError: the request failed and may not be repeated, or this was the `last` attempt.
        """
        import aiohttp

        client = _require_open(self._single_use_client) if method == "POST" else self._open_client
        try:
            # Redirections are not followed: the user's headers could go to another host, and a POST that is
            # redirected becomes a GET.
            return await client.request(method, url, data=data, headers=headers, allow_redirects=False)
        except aiohttp.ClientConnectorCertificateError as error:
            raise build_unavailable_error(error) from None
        except (
            aiohttp.ClientConnectorError,
            aiohttp.ConnectionTimeoutError,
            aiohttp.ClientHttpProxyError,  # the proxy refused: nothing reached the agent
        ) as error:
            if last:
                raise build_unavailable_error(error) from None
        except (aiohttp.ClientError, ConnectionError) as error:
            if last or method == "POST":
                raise build_connection_error(error) from None
        return None


class _ResponseContext:
    """Context manager that sends a request and closes the response; faster than those of `contextlib`."""

    __slots__ = ("_request", "_response")

    def __init__(self, request: "Coroutine[object, object, ClientResponse]") -> None:
        self._request = request

    async def __aenter__(self) -> "ClientResponse":
        self._response = await self._request
        return self._response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import aiohttp

        # A connection with an unread rest of a response cannot be used for the next request.
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()
        if isinstance(error, aiohttp.ClientError | ConnectionError):
            raise build_connection_error(error) from None


def _require_open(client: "ClientSession | None") -> "ClientSession":
    if client is None:
        raise RuntimeError("the connection is not open")
    return client

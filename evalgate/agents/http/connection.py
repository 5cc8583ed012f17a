"""Connection pool to the agent's server, with retries and limits for answers."""

import asyncio
import json
import random
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

from evalgate.agents.http.conversation import append_path, build_format_error, pause_turn_timer
from evalgate.agents.http.errors import (
    EXCERPT_BYTES,
    PROXY_AUTH_REQUIRED,
    TOO_MANY_REQUESTS,
    build_certificate_error,
    build_connection_error,
    build_status_error,
    build_unavailable_error,
    describe_connection_error,
    get_retry_after,
)
from evalgate.agents.http.off_loop import run_off_loop
from evalgate.agents.http.response_body import read_body
from evalgate.agents.http.server import AgentServer, create_http_client
from evalgate.agents.tracing.context import current_turn
from evalgate.agents.workers.wire import WorkerProtocolError, parse_untrusted_json, quote_text
from evalgate.core.protocols import AgentError
from evalgate.core.sanitize import shorten_text
from evalgate.throttling.rate_limiter import RetryPolicy, wait_without_slot

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

Method: TypeAlias = Literal["GET", "POST", "DELETE"]

_COMPACT = json.JSONEncoder(separators=(",", ":"))
_NO_HEADERS: Mapping[str, str] = {}
_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 60.0
_SPREAD = RetryPolicy(first_pause=0.2)
# Added to a server's Retry-After, so that clients with the same value do not return at the same moment.


class AgentConnection:
    """HTTP client of one server, from `open` to `close`."""

    def __init__(self, server: AgentServer, chance: Callable[[], float] = random.random) -> None:
        """Store the server; `chance` returns the jitter of retries, in [0, 1)."""
        self._chance = chance
        self.url = server.url
        self._server = server
        self._client: ClientSession | None = None
        self._single: ClientSession | None = None
        """Client that uses each connection once, for requests that must not be sent twice.

        A server or load balancer may close a kept connection at the moment in which it is used again. A
        reset does not prove that nothing was read (RFC 9110, 9.2.2): the agent may be at work. With a
        connection of its own, a request that breaks has failed. It is repeated only if the connection could
        not be made.
        """

    def hide_secrets(self, text: str) -> str:
        """Return `text` with each secret value replaced by `[hidden]`."""
        for secret in self._server.secrets:
            text = text.replace(secret, "[hidden]")
        return text

    async def open(self) -> None:
        """Create the HTTP clients.

        Raises:
            InvalidInputError: as for `create_http_client`.
        """
        self._client = create_http_client(self._server, keeps=True)
        self._single = create_http_client(self._server, keeps=False)

    def relocate_url(self, address: str) -> str:
        """Return the address at which the gate reaches an address that the server reports of itself.

        A server in a container reports the host and port inside the container; only the path is kept.
        """
        if not self._server.relocated:
            return address
        reported, known = urlsplit(address), urlsplit(self.url)
        return reported._replace(scheme=known.scheme, netloc=known.netloc).geturl()

    def build_url(self, path: str) -> str:
        """Return the server's address with `path` appended, before a query."""
        return append_path(self.url, path)

    @property
    def sends_headers(self) -> bool:
        """Return True if each request carries headers that the user configured."""
        return bool(self._server.headers)

    async def close(self) -> None:
        """Close both HTTP clients with their connections."""
        for client in (self._client, self._single):
            if client is not None:
                await client.close()

    async def probe_url(self, url: str) -> str:
        """Request `url` once; return an empty text if the server answers, else the reason.

        Every status below 500 is an answer, except 407 of a proxy.

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
            AgentError: there is no answer, its status is not 2xx, or it is no JSON.
        """
        async with self.open_response(method, url, body, headers) as response:
            body = await read_body(response)
            return await run_off_loop(len(body), lambda: parse_json_body(body))

    def open_response(
        self, method: Method, url: str, body: object = None, headers: Mapping[str, str] = _NO_HEADERS
    ) -> "_ResponseContext":
        """Return a context manager that sends the request; its value is a 2xx response with an unread body.

        Raises:
            AgentError: on entering, if there is no such response; within, if the connection breaks.
        """
        return _ResponseContext(self._send_with_retries(method, url, body, headers))

    @property
    def _open_client(self) -> "ClientSession":
        return _require_open(self._client)

    async def _send_with_retries(
        self, method: Method, url: str, body: object, headers: Mapping[str, str]
    ) -> "ClientResponse":
        """Return the first 2xx response; wait and repeat the request while the server is busy."""
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
            elif (pause := get_retry_after(response)) is None or pause > _LONGEST_PAUSE_S or last:
                raise await build_status_error(response)
            else:
                response.close()
                pause += _SPREAD.compute_delay(attempt, self._chance())
                with pause_turn_timer():
                    await wait_without_slot(pause, is_rate_limited=response.status == TOO_MANY_REQUESTS)
        raise RuntimeError("the last attempt gives an answer or fails")

    async def _try_request(
        self, method: Method, url: str, data: bytes | None, headers: Mapping[str, str], *, last: bool
    ) -> "ClientResponse | None":
        """Return a response, or None if there is none and the request may be repeated.

        It may if no connection was made, or if the method is not POST. A POST starts a turn of the agent.
        """
        import aiohttp

        client = _require_open(self._single) if method == "POST" else self._open_client
        try:
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
    """Context manager of a response; `contextlib` would cost time in each turn."""

    __slots__ = ("_asking", "_response")

    def __init__(self, asking: "Coroutine[object, object, ClientResponse]") -> None:
        self._asking = asking

    async def __aenter__(self) -> "ClientResponse":
        self._response = await self._asking
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


def parse_json_body(body: bytes | str) -> object:
    """Return the JSON value of an answer; None if the answer is empty.

    Raises:
        AgentError: it is no JSON, or it nests too deep.
    """
    text = body if isinstance(body, str) else body.decode("utf-8-sig", "replace")
    if not text or text.isspace():
        return None
    try:
        return parse_untrusted_json(text)
    except json.JSONDecodeError:
        raise build_format_error(
            f"the agent's answer is not JSON: {quote_text(text)}", shorten_text(text, EXCERPT_BYTES)
        ) from None
    except WorkerProtocolError as error:
        raise AgentError(error.failure) from None


def _require_open(client: "ClientSession | None") -> "ClientSession":
    if client is None:
        raise RuntimeError("the connection is not open")
    return client

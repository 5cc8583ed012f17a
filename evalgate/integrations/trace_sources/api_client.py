"""Client of the JSON APIs of tracing tools, with timeouts, retries and Retry-After.

All tools are read over plain HTTP, not with their SDKs. Each tool needs two kinds of request, while the SDKs
bring up to 60 packages. The SDKs also hide the raw JSON objects, which the readers of files can already read.
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias
from urllib.parse import urlsplit

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.installation import describe_install
from evalgate.core.sanitize import to_one_line
from evalgate.system.throttling.backoff import parse_retry_after

Params: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]

_TIMEOUT_S = 60
_ATTEMPTS = 5
_LONGEST_WAIT_S = 60.0
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_MISSING = frozenset({404, 405, 410})
_LARGEST = 256 * 2**20


@frozen
class TraceQuery:
    """Conditions on the traces to fetch from an API."""

    project: str = ""
    """Project or, for Jaeger, service; "" for the tool's default."""
    since: datetime | None = None
    """Start of the time range; None for no start."""
    until: datetime | None = None
    """End of the time range; None for no end."""
    limit: int = 100
    """Largest number of traces."""
    filter: str = ""
    """Condition in the tool's query language; "" for none."""


class TraceApi(Protocol):
    """The API of one tracing tool: its address, its headers and its requests."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of the tool's environment variables, with those that hold an address first."""
        ...

    @property
    def unused(self) -> tuple[str, ...]:
        """Return the names of the `TraceQuery` fields that a query must not set: the API cannot use them."""
        ...

    def get_default_endpoint(self, environ: Mapping[str, str]) -> str:
        """Return the address of the API that is used if no option or environment variable sets one."""
        ...

    def build_headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of every request.

        Raises:
            InvalidInputError: a variable with a key is missing.
        """
        ...

    def iter_rows(
        self, client: "ApiClient", query: TraceQuery, environ: Mapping[str, str]
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the JSON objects of the queried traces, for the tool's `RowReader`.

        Raises:
            InvalidInputError: the API cannot be reached, refuses a request or returns an invalid answer, or
                the project does not exist.
        """
        ...


class ApiClient:
    """A session of requests to one API: an asynchronous context manager."""

    def __init__(self, name: str, endpoint: str, headers: Mapping[str, str]) -> None:
        """Prepare requests to `endpoint`, the address of the API without a request's path.

        An event loop must be running. `name` names the tool in messages.

        Raises:
            InvalidInputError: the address is not an HTTP address, or aiohttp is missing.
        """
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidInputError(f"{name}: {endpoint!r} is no address with http:// or https://")
        try:
            import aiohttp
        except ImportError:
            raise InvalidInputError(f"{name}: its API needs aiohttp: {describe_install('http')}") from None
        self.name = name
        self.endpoint = endpoint.rstrip("/")
        self._session = aiohttp.ClientSession(
            headers={"Accept": "application/json", **headers},
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
            trust_env=True,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get_json(self, path: str, params: Params, *, missing_ok: bool = False) -> Any:
        """Return the JSON of a GET request. With `missing_ok`, return None if the path does not exist.

        Raises:
            InvalidInputError: the API cannot be reached, refuses the request, or does not answer with JSON
                of at most 256 MiB.
        """
        return await self._request("GET", path, params, None, missing_ok=missing_ok)

    async def get_object(self, path: str, params: Params, *, missing_ok: bool = False) -> dict[str, Any]:
        """Return the JSON object of a GET request. With `missing_ok`, return {} if the path does not exist.

        Raises:
            InvalidInputError: the API cannot be reached, refuses the request, or does not answer with a JSON
                object of at most 256 MiB.
        """
        found = await self.get_json(path, params, missing_ok=missing_ok)
        return {} if found is None else self._require_object(found, path)

    async def post_object(
        self, path: str, body: Mapping[str, object], *, missing_ok: bool = False
    ) -> dict[str, Any]:
        """Return the JSON object that answers a POST request with a JSON body.

        With `missing_ok`, return {} if the path does not exist.

        Raises:
            InvalidInputError: the API cannot be reached, refuses the request, or does not answer with a JSON
                object of at most 256 MiB.
        """
        found = await self._request("POST", path, {}, body, missing_ok=missing_ok)
        return {} if found is None else self._require_object(found, path)

    async def iter_pages(
        self,
        path: str,
        params: Sequence[tuple[str, str]],
        find_cursor: Callable[[Mapping[str, Any]], str],
        *,
        missing_ok: bool = False,
    ) -> AsyncIterator[dict[str, Any]]:
        """Send GET requests for one page after the other, and yield each page.

        `find_cursor` reads the cursor of the next page from a page, or returns "" for the last page. The
        cursor is sent as the parameter `cursor`. If the path does not exist and `missing_ok` is True, yield
        only {}.

        Raises:
            InvalidInputError: the API cannot be reached, refuses a request, or does not answer with a JSON
                object of at most 256 MiB. Also if a cursor is repeated, so that the pages would never end.
        """
        cursors = {""}
        cursor = ""
        while True:
            more = [("cursor", cursor)] if cursor else []
            page = await self.get_object(path, [*params, *more], missing_ok=missing_ok)
            yield page
            cursor = find_cursor(page)
            if not cursor:
                return
            if cursor in cursors:
                raise InvalidInputError(f"{self.name}: {path} names the same next page again and again")
            cursors.add(cursor)

    async def _request(
        self, method: str, path: str, params: Params, body: Mapping[str, object] | None, *, missing_ok: bool
    ) -> Any:
        import aiohttp

        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with self._session.request(
                    method, f"{self.endpoint}{path}", params=params, json=body, allow_redirects=False
                ) as response:
                    if response.status == 200:
                        return await self._read_json(response, path)
                    if response.status in _MISSING and missing_ok:
                        return None
                    text = to_one_line((await response.content.read(2000)).decode(errors="replace"), 200)
                    if response.status not in _RETRIED or attempt == _ATTEMPTS:
                        is_denied = response.status in {401, 403}
                        hint = ": is the key right, and is it of this project?" if is_denied else ""
                        status = f"answered with status {response.status}{hint}"
                        raise InvalidInputError(f"{self.name}: {self.endpoint}{path} {status}: {text}")
                    asked = parse_retry_after(response.headers, time.time())
                    wait = 2.0 ** (attempt - 1) if asked is None else asked
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if attempt == _ATTEMPTS or isinstance(error, aiohttp.ClientConnectorError):
                    raise InvalidInputError(f"{self.name}: {self.endpoint}: {error or 'timed out'}") from None
                wait = float(attempt)
            await asyncio.sleep(min(wait, _LONGEST_WAIT_S))
        raise AssertionError  # the loop returns or raises

    def _require_object(self, found: object, path: str) -> dict[str, Any]:
        if isinstance(found, dict):
            return found
        raise InvalidInputError(
            f"{self.name}: {path} did not answer with an object: {to_one_line(str(found), 100)}"
        )

    async def _read_json(self, response: Any, path: str) -> Any:
        data = bytearray()
        async for chunk in response.content.iter_chunked(2**16):
            data += chunk
            if len(data) > _LARGEST:
                raise InvalidInputError(f"{self.name}: {path} answered with more than {_LARGEST:,} bytes")
        import json

        try:
            return json.loads(bytes(data))
        except (ValueError, RecursionError):
            text = to_one_line(bytes(data[:200]).decode(errors="replace"), 100)
            raise InvalidInputError(f"{self.name}: {path} did not answer with JSON: {text}") from None


def encode_basic_auth(user: str, password: str) -> str:
    """Return the value of the header `Authorization` for basic authentication."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

"""The proxy for an address, and proxies that refuse or cannot be used."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientConnectorError

from evalgate.agents.http.connection import AgentServer, create_http_client, find_proxy
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Failure, Reply
from tests.agents.http.server import run_case
from tests.agents.play import a_talk

HERE = "http://proxy:3128"


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("environ", "url", "proxy"),
    [
        ({}, "http://there", None),
        ({"HTTP_PROXY": HERE}, "http://there", HERE),
        ({"http_proxy": HERE}, "http://there", HERE),
        ({"HTTP_PROXY": HERE}, "https://there", None),
        ({"HTTPS_PROXY": HERE}, "https://there", HERE),
        ({"ALL_PROXY": HERE}, "https://there", HERE),
        ({"https_proxy": "proxy:3128"}, "https://there", HERE),
        ({"HTTP_PROXY": HERE}, "http://localhost:8000", None),
        ({"HTTP_PROXY": HERE}, "http://127.0.0.1:8000", None),
        ({"HTTP_PROXY": HERE}, "http://[::1]:8000", None),
        ({"HTTP_PROXY": HERE, "NO_PROXY": "*"}, "http://there", None),
        ({"HTTP_PROXY": HERE, "NO_PROXY": "elsewhere, There"}, "http://there", None),
        ({"HTTP_PROXY": HERE, "NO_PROXY": "there:80"}, "http://there:80", None),
        ({"HTTP_PROXY": HERE, "NO_PROXY": "there:80"}, "http://there:81", HERE),
        ({"HTTP_PROXY": HERE, "NO_PROXY": "corp.example"}, "http://a.corp.example", None),
        ({"HTTP_PROXY": HERE, "NO_PROXY": ".corp.example"}, "http://a.corp.example", None),
        ({"HTTP_PROXY": HERE, "NO_PROXY": "*.corp.example"}, "http://a.corp.example", None),
        ({"HTTP_PROXY": HERE, "NO_PROXY": "corp.example"}, "http://acorp.example", HERE),
        ({"HTTP_PROXY": HERE, "NO_PROXY": "10.0.0.0/8"}, "http://10.1.2.3", None),
        ({"HTTP_PROXY": HERE, "NO_PROXY": "10.0.0.0/8,"}, "http://11.1.2.3", HERE),
    ],
)
def test_proxy_is_chosen_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], url: str, proxy: str | None
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert find_proxy(url) == proxy


@pytest.mark.parametrize(
    ("proxy", "sentence"),
    [
        ("socks5://me:secret@proxy:1080", "names a proxy of the kind `socks5`"),
        ("http://me:secret@proxy:port", "names a proxy that is no address"),
        ("http://me:secret@a proxy", "names a proxy that is no address"),
        ("http://[secret", "names a proxy that is no address"),
    ],
)
def test_invalid_proxy_is_refused_without_its_address(
    monkeypatch: pytest.MonkeyPatch, proxy: str, sentence: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(InvalidInputError, match=f"^ALL_PROXY {sentence}") as caught:
        find_proxy("http://there")
    assert "secret" not in str(caught.value)


@asynccontextmanager
async def a_proxy(*answers: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve answers as a proxy and repeat the last one; yield its address and the first line of each request."""
    lines: list[bytes] = []
    rest = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append(await reader.readline())
        writer.write(rest.pop(0) if len(rest) > 1 else rest[0])
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", lines


def answer(status: bytes, body: bytes = b"{}") -> bytes:
    size = str(len(body)).encode()
    return b"HTTP/1.1 " + status + b"\r\nContent-Length: " + size + b"\r\nConnection: close\r\n\r\n" + body


async def test_requests_use_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_proxy(answer(b"200 OK")) as (proxy, lines):
        monkeypatch.setenv("http_proxy", proxy)
        run = await run_case({"url": "http://agents.example/chat"}, a_talk("case", "hi"))
    assert run.replies == (Reply(),)
    assert lines == [
        b"GET http://agents.example/chat HTTP/1.1\r\n",
        b"POST http://agents.example/chat HTTP/1.1\r\n",
    ]


async def test_a_container_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_proxy(answer(b"502 Bad Gateway")) as (proxy, lines):
        monkeypatch.setenv("http_proxy", proxy)
        server = AgentServer(url="http://agent.invalid:8000", is_in_container=True)
        async with create_http_client(server, keepalive=True) as client:
            with pytest.raises(ClientConnectorError):
                await client.get(server.url)
    assert lines == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://agents.example", "the proxy wants to know who asks (status 407)"),
        ("https://agents.example", "the proxy answered with status 407 Authentication Required"),
    ],
)
async def test_proxy_that_requires_authentication_is_reported(
    monkeypatch: pytest.MonkeyPatch, url: str, why: str
) -> None:
    async with a_proxy(answer(b"407 Authentication Required")) as (proxy, _):
        monkeypatch.setenv("ALL_PROXY", proxy)
        run = await run_case({"url": url, "start_timeout": 0.5}, a_talk("case", "hi"))
    sentence = f"the agent at {url} cannot be reached within 0.5 s: {why}"
    assert (run.outcome, run.failure) == ("not_run", Failure("unreachable", sentence))


async def test_later_refusal_of_a_proxy_is_faulted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_proxy(answer(b"200 OK"), answer(b"407 Who?", b"who?")) as (proxy, _):
        monkeypatch.setenv("http_proxy", proxy)
        run = await run_case({"url": "http://agents.example"}, a_talk("case", "hi"))
    sentence = "the proxy wants to know who asks: it answered with status 407 (turn 1)"
    assert (run.outcome, run.failure) == ("faulted", Failure("proxy", sentence, "who?"))

"""Servers that are slow, busy, unreachable or not trusted: retries, timeouts and TLS."""

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest
from aiohttp import web

from evalgate.agents.adapters.http import HttpAgentOptions
from evalgate.agents.http.dialect import pause_turn_timer, turn_timer
from evalgate.agents.http.errors import describe_connection_error
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import AgentError
from evalgate.core.types import Failure, Reply, UserMessage
from evalgate.system.throttling.backoff import Clock
from evalgate.system.throttling.throttle import Throttle, ThrottleSettings
from tests.agents.http.server import (
    ReceivedRequest,
    build_context,
    run_case,
    run_cases_over_http,
    scripted,
    serving,
)
from tests.agents.play import a_talk
from tests.ports import closed_port

OK = {"response": "ok"}


def busy(after: str, status: int = 429) -> web.Response:
    return web.Response(status=status, headers={"Retry-After": after})


async def test_busy_server_gets_a_retry_after_its_pause() -> None:
    async with serving(scripted(busy("0"), busy("0.01", 503), OK)) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"))
        assert len(server.posts) == 3
    assert run.replies == (Reply("ok"),)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (web.Response(status=429), "rate_limited"),
        (busy("3600"), "rate_limited"),
        (web.Response(status=503), "unavailable"),
        (web.Response(status=529), "unavailable"),
    ],
)
async def test_busy_server_without_a_near_retry_time_is_faulted(answer: web.Response, kind: str) -> None:
    async with serving(scripted(answer)) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"))
        assert len(server.posts) == 1
    assert run.failure is not None
    assert (run.outcome, run.failure.kind) == ("faulted", kind)
    assert run.failure.message.startswith(f"the agent answered with status {answer.status}")


async def test_server_that_stays_busy_is_faulted() -> None:
    async with serving(scripted(*[busy("0") for _ in range(9)])) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"))
        assert len(server.posts) == 4
    sentence = "the agent answered with status 429 Too Many Requests (turn 1)"
    assert (run.outcome, run.failure) == ("faulted", Failure("rate_limited", sentence))


async def test_case_starts_again_after_a_busy_server() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    settings = ThrottleSettings(concurrency=1, retries=2)
    clock = Clock(now=lambda: sum(slept), wall=lambda: 0.0, sleep=sleep)
    pace = Throttle(settings, clock, chance=lambda: 0.0)
    async with serving(scripted(busy("100"), busy("200", 503), OK)) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"), throttle=pace)
    assert (run.outcome, run.replies) == ("answered", (Reply("ok"),))
    assert [(each.outcome, each.failure.kind) for each in run.earlier_attempts] == [
        ("faulted", "rate_limited"),
        ("faulted", "unavailable"),
    ]
    assert slept == [100.0, 200.0]


async def test_retry_pause_does_not_count_towards_the_timeout() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout_at(began + 60) as timer:
        token = turn_timer.set(timer)
        with pause_turn_timer():
            assert timer.when() is None
            await asyncio.sleep(0.05)
        turn_timer.reset(token)
        when = timer.when()
    assert when is not None
    assert when > began + 60


async def test_rate_limit_halves_the_concurrency() -> None:
    at_work, most = 0, 0
    together = asyncio.Barrier(4)
    refused: set[str] = set()

    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        nonlocal at_work, most
        if received.body["case"] not in refused:
            refused.add(received.body["case"])
            await together.wait()
            return busy("0")
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.02)
        at_work -= 1
        return web.json_response(OK)

    async with serving(answer) as server:
        cases = [a_talk(name, "hi") for name in "abcd"]
        runs = await run_cases_over_http(
            {"url": server.url}, cases, throttle=Throttle(ThrottleSettings(concurrency=4))
        )
    assert {run.outcome for run in runs.values()} == {"answered"}
    assert most <= 2  # 4 / 2, and one more only once three of them went well


async def test_failure_names_the_servers_retry_after() -> None:
    async with serving(scripted(busy("3600"))) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"))
    sentence = "the agent answered with status 429 Too Many Requests and asks to wait 3,600 s (turn 1)"
    assert run.failure == Failure("rate_limited", sentence)


async def test_server_that_disappears_is_faulted() -> None:
    async with serving(scripted(web.Response(headers={"Connection": "close"}))) as server:
        agent = HttpAgentOptions.model_validate({"url": server.url, "health": "well"}).build(build_context())
        await agent.__aenter__()
        session = await agent.open_session(a_talk("case", "hi"), 1, alone=False).__aenter__()
    try:
        with pytest.raises(AgentError) as caught:
            await session.run_turn(UserMessage("hi"))
    finally:
        await agent.__aexit__(None, None, None)
    sentence = "the agent cannot be reached any more: Connection refused (turn 1)"
    assert (caught.value.outcome, caught.value.failure) == ("faulted", Failure("unavailable", sentence))


@pytest.mark.parametrize(
    ("error", "outcome", "wanted_s"),
    [
        ({"kind": "rate_limited", "message": "slow down", "retry_after_s": 7}, "faulted", 7.0),
        ({"kind": "unavailable", "message": "no model"}, "faulted", None),
        ({"kind": "quota", "message": "used up", "retry_after_s": 7}, "crashed", 7.0),
    ],
)
async def test_busy_service_behind_the_agent_is_faulted(
    error: dict[str, object], outcome: str, wanted_s: float | None
) -> None:
    async with serving(scripted({"error": error})) as server:
        agent = HttpAgentOptions.model_validate({"url": server.url}).build(build_context())
        async with agent, agent.open_session(a_talk("case", "hi"), 1, alone=False) as session:
            with pytest.raises(AgentError) as caught:
                await session.run_turn(UserMessage("hi"))
    assert (caught.value.outcome, caught.value.failure.kind) == (outcome, error["kind"])
    assert caught.value.retry_after_s == wanted_s


async def test_slow_turn_times_out_without_affecting_others() -> None:
    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        if received.body["text"] == "hang":
            await asyncio.sleep(600)
        return web.json_response(OK)

    async with serving(answer) as server:
        cases = [a_talk("a", "hang"), a_talk("b", "hi")]
        runs = await run_cases_over_http({"url": server.url}, cases, timeouts={"a": 0.3})
    assert (runs["a"].outcome, runs["b"].outcome) == ("timed_out", "answered")
    assert runs["a"].failure == Failure("timeout", "no answer within 0.3 s (turn 1)")


async def test_connection_that_breaks_after_the_request_is_not_retried() -> None:
    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        transport = received.request.transport
        assert transport is not None
        transport.close()
        return web.Response()

    async with serving(answer) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"))
        assert len(server.posts) == 1
    assert run.outcome == "crashed"
    assert run.failure == Failure(
        "connection", "the connection to the agent failed: Server disconnected (turn 1)"
    )


async def test_incomplete_body_is_a_connection_failure() -> None:
    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100", "Content-Type": "application/json"})
        await response.prepare(received.request)
        await response.write(b"{")
        assert received.request.transport is not None
        received.request.transport.close()
        return response

    async with serving(answer) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"))
    assert run.failure is not None
    assert run.failure.kind == "connection"


async def test_refused_connection_is_unreachable() -> None:
    with closed_port() as port:
        url = f"http://127.0.0.1:{port}"
        runs = await run_cases_over_http(
            {"url": url, "start_timeout": 2}, [a_talk("a", "hi"), a_talk("b", "hi")]
        )
    sentence = f"the agent at {url} cannot be reached within 2 s: Connection refused"
    assert {run.outcome for run in runs.values()} == {"not_run"}
    assert {run.failure for run in runs.values()} == {Failure("unreachable", sentence)}


async def test_server_without_tls_is_described() -> None:
    async with serving(scripted()) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        with pytest.raises(ssl.SSLError) as caught:
            await asyncio.open_connection(host, int(port), ssl=ssl.create_default_context())
    assert describe_connection_error(caught.value).startswith("TLS failed: ")
    assert describe_connection_error(caught.value).endswith("; does it speak http://?")


async def test_first_case_waits_for_the_health_check() -> None:
    health = [web.Response(status=503), web.Response(status=500), web.Response(text="fine")]
    async with serving(scripted(*health, OK)) as server:
        run = await run_case({"url": server.url, "health": "healthz"}, a_talk("case", "hi"))
        assert [each.path for each in server.received] == ["/healthz"] * 3 + ["/"]
    assert run.outcome == "answered"


async def test_placeholders_are_expanded_and_never_shown() -> None:
    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        return web.Response(status=401, text=f"not you: {received.headers['Authorization']}")

    async with serving(answer) as server:
        options = {"url": server.url, "headers": {"Authorization": "Bearer ${TOKEN}"}}
        run = await run_case(options, a_talk("case", "hi"), environ={"TOKEN": "s3cr3t-value"})
        assert server.received[-1].headers["Authorization"] == "Bearer s3cr3t-value"
    assert run.failure is not None
    assert run.failure.detail == "not you: Bearer [hidden]"


def test_all_placeholders_without_a_value_are_listed() -> None:
    headers = {"Authorization": "Bearer ${TOKEN}", "X-Team": "${TEAM}"}
    agent = HttpAgentOptions.model_validate({"url": "${BASE}/chat", "headers": headers})
    with pytest.raises(InvalidInputError) as caught:
        agent.build(build_context(environ={"BASE": "http://there", "TEAM": " "}))
    assert [str(problem) for problem in caught.value.problems] == [
        "`agent.headers.Authorization` names ${TOKEN}, which is not set in the environment of evalgate",
        "`agent.headers.X-Team` names ${TEAM}, which is set to nothing in the environment of evalgate",
    ]


@pytest.mark.parametrize(
    "address", ["ftp://there", "there", "http://there:port", "http://me:pass-word@there"]
)
def test_invalid_address_from_a_placeholder_is_not_shown(address: str) -> None:
    agent = HttpAgentOptions.model_validate({"url": "${BASE}"})
    with pytest.raises(
        InvalidInputError, match=r"`agent\.url`, with its placeholders filled in, must "
    ) as caught:
        agent.build(build_context(environ={"BASE": address}))
    assert "there" not in str(caught.value)


async def test_redirection_is_reported_without_its_query() -> None:
    moved = web.Response(status=308, headers={"Location": "https://there/chat?key=secret"})
    async with serving(scripted(moved)) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"))
    sentence = (
        "the agent answered with status 308 Permanent Redirect; redirections are not followed: "
        "give the address that it leads to, https://there/chat (turn 1)"
    )
    assert run.failure == Failure("http", sentence)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command = ["openssl", "req", *kind, "-keyout", str(key), "-out", str(cert), *names]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


def serves_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*certificate)
    return tls


@pytest.mark.parametrize("trust", [{"ca_file": "cert.pem"}, {"verify": False}])
async def test_certificates(certificate: tuple[Path, Path], trust: dict[str, object]) -> None:
    async with serving(scripted(OK), tls=serves_tls(certificate)) as server:
        run = await run_case({"url": server.url, **trust}, a_talk("case", "hi"), folder=certificate[0].parent)
    assert run.outcome == "answered"


@pytest.mark.parametrize(
    ("host", "trust", "advice"),
    [
        ("127.0.0.1", {}, "self-signed certificate; name the PEM file of those who signed it as `ca_file`"),
        (
            "localhost",
            {"ca_file": "cert.pem"},
            "certificate is not valid for 'localhost'.; ask for it by a name that is in its certificate",
        ),
    ],
)
async def test_untrusted_certificate_fails_at_once(
    certificate: tuple[Path, Path], host: str, trust: dict[str, object], advice: str
) -> None:
    async with serving(scripted(), tls=serves_tls(certificate)) as server:
        url = server.url.replace("127.0.0.1", host)
        options = {"url": url, "start_timeout": 3_600.0, **trust}
        run = await run_case(options, a_talk("case", "hi"), folder=certificate[0].parent)
    assert run.outcome == "not_run"
    assert run.failure is not None
    assert run.failure.message.startswith(f"the certificate of the agent at {url} is not trusted: ")
    assert run.failure.message.endswith(advice)


@pytest.mark.parametrize(
    ("headers", "outcome", "requests"),
    [({}, "answered", 1), ({"Authorization": "Bearer ${TOKEN}"}, "crashed", 0)],
)
async def test_headers_never_leave_tls(
    certificate: tuple[Path, Path], headers: dict[str, str], outcome: str, requests: int
) -> None:
    result = {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "ok"}]}
    async with serving(scripted({"jsonrpc": "2.0", "id": 1, "result": result})) as plain_server:
        card = {"url": plain_server.url, "preferredTransport": "JSONRPC"}
        async with serving(scripted(card), tls=serves_tls(certificate)) as server:
            options = {"url": server.url, "dialect": "a2a", "verify": False, "headers": headers}
            run = await run_case(options, a_talk("case", "hi"), environ={"TOKEN": "s3cr3t-value"})
    assert (run.outcome, len(plain_server.received)) == (outcome, requests)


def test_missing_certificate_file_is_refused(tmp_path: Path) -> None:
    agent = HttpAgentOptions.model_validate({"url": "https://there", "ca_file": "no.pem"}).build(
        build_context(folder=tmp_path)
    )

    async def enter() -> None:
        async with agent:
            pytest.fail("it must not start")

    with pytest.raises(InvalidInputError, match=r"`agent\.ca_file`: cannot read certificates from"):
        asyncio.run(enter())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"url": "localhost:8000"}, "must be an address that starts with http:// or https://"),
        ({"url": "http://me:secret@there"}, "must not hold a user name or password"),
        ({"url": "http://there:99999"}, "must be an address that starts with http:// or https://"),
        ({"url": "http://[::1/"}, "must be an address that starts with http:// or https://"),
        ({"url": "http://some where"}, "must be an address that starts with http:// or https://"),
        ({"url": "http://there", "headers": {"X A": "b"}}, "has 'X A', which is no name of a header"),
        (
            {"url": "http://there", "headers": {"X-A": "b\nX-B: secret"}},
            "has X-A with characters that cannot be sent",
        ),
        ({"url": "http://there", "headers": {"X-A": "é"}}, "has X-A with characters that cannot be sent"),
        ({"url": "http://there", "headers": {"Content-Length": "3"}}, "must not set Content-Length"),
        ({"url": "http://there", "headers": {"X-A": "${TOKEN"}}, r"has X-A with a placeholder that is none"),
        (
            {"url": "http://there", "model": "m"},
            "has `model`, which belongs to `dialect` `openai`, not `evalgate`",
        ),
        ({"url": "http://there", "dialect": "openai"}, "needs `model`"),
        (
            {"url": "http://there", "dialect": "openai", "model": "m", "body": {"messages": []}},
            "must not set messages: evalgate does",
        ),
    ],
)
def test_refuses_options(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")) as caught:
        HttpAgentOptions.model_validate(options)
    assert "secret" not in str(caught.value)


async def test_conversations_share_no_cookies() -> None:
    def welcome() -> web.Response:
        response = web.json_response(OK)
        response.set_cookie("session", "ada's")
        return response

    async with serving(scripted(*[welcome() for _ in range(3)])) as server:
        url = server.url.replace("127.0.0.1", "localhost")  # of a number, no cookie would be kept anyway
        await run_cases_over_http({"url": url, "health": "well"}, [a_talk("a", "hi"), a_talk("b", "hi")])
        assert [each.headers.get("Cookie") for each in server.received if each.method == "POST"] == [None] * 2

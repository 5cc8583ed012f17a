"""Web server in the event loop of a test, and helpers that run cases against it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from aiohttp import web

from evalgate.agents.adapters.http import HttpAgentOptions
from evalgate.agents.tracing.run_trace import RunTrace
from evalgate.core.protocols import AgentContext
from evalgate.core.types import CaseRun, EvalCase
from evalgate.runner.scheduler import RunRequest, run_requests
from evalgate.system.throttling.throttle import Throttle
from tests.agents.play import PATIENT_S, Hurried

Handler: TypeAlias = Callable[["ReceivedRequest"], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class ReceivedRequest:
    """A request that the server received."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    request: web.Request = field(repr=False, compare=False)


@dataclass
class RunningServer:
    """A running server."""

    url: str
    received: list[ReceivedRequest]

    @property
    def posts(self) -> list[Any]:
        """Return the bodies of the POST requests."""
        return [each.body for each in self.received if each.method == "POST"]


@asynccontextmanager
async def serving(answer: Handler, *, tls: Any = None) -> AsyncIterator[RunningServer]:
    """Serve on a free port of this machine; `answer` handles every request except GET `/`."""
    received: list[ReceivedRequest] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        text = await request.text()
        found = ReceivedRequest(
            request.method, request.path, dict(request.headers), json.loads(text) if text else None, request
        )
        received.append(found)
        if request.method == "GET" and request.path == "/":
            return web.Response(status=405)
        return await answer(found)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield RunningServer(f"{'https' if tls else 'http'}://127.0.0.1:{port}", received)
    finally:
        await runner.cleanup()


def scripted(*answers: object) -> Handler:
    """Return a handler that gives each answer once: a response, a function of the request, or a value for JSON."""
    rest = iter(answers)

    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        found = next(rest)
        if callable(found):
            found = await found(received)
        return found if isinstance(found, web.StreamResponse) else web.json_response(found)

    return answer


def sse(*events: object, ends: bool = True) -> Callable[[ReceivedRequest], Awaitable[web.StreamResponse]]:
    """Return an answer of server-sent events. Texts are sent unchanged. If `ends` is False, it stays open."""
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return streamed("text/event-stream", *(f"data: {text}\n\n" for text in texts), ends=ends)


def streamed(
    content_type: str, *pieces: str, ends: bool = True
) -> Callable[[ReceivedRequest], Awaitable[web.StreamResponse]]:
    """Return an answer that is sent in `pieces`. If `ends` is False, the connection stays open."""

    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(received.request)
        for piece in pieces:
            await response.write(piece.encode())
        if not ends:
            await asyncio.Event().wait()
        return response

    return answer


def build_context(**more: Any) -> AgentContext:
    """Return the context of an agent."""
    settings: dict[str, Any] = {
        "folder": Path.cwd(),
        "env": {},
        "timeout": PATIENT_S,
        "workers": 1,
        "concurrency": 8,
        "read_recording": None,
        **more,
    }
    return AgentContext(**settings)


async def run_cases_over_http(
    options: Mapping[str, object],
    cases: Iterable[EvalCase],
    *,
    throttle: Throttle | None = None,
    timeouts: Mapping[str, float] | None = None,
    trace: bool = False,
    **context: Any,
) -> dict[str, CaseRun]:
    """Run cases with an agent of kind `http` and return the runs by case id. `timeouts` has seconds by case id."""
    found: dict[str, CaseRun] = {}

    async def note(request: RunRequest, run: CaseRun) -> None:
        found[request.case.eval_id] = run

    agent = HttpAgentOptions.model_validate({"start_timeout": PATIENT_S, **options}).build(
        build_context(**context)
    )
    create_trace = RunTrace if trace else None
    async with Hurried(agent, timeouts or {}) as hurried:
        requests = [RunRequest(case, 1) for case in cases]
        await run_requests(
            hurried, requests, concurrency=8, on_finished=note, throttle=throttle, create_trace=create_trace
        )
    return found


async def run_case(options: Mapping[str, object], case: EvalCase, **context: Any) -> CaseRun:
    """Run one case and return its run."""
    return (await run_cases_over_http(options, [case], **context))[case.eval_id]

"""The APIs of tracing tools, by servers that answer in their form and refuse unknown parameters.

The names of parameters and fields are those of the tools' descriptions of their APIs: Langfuse
(web/public/generated/api/openapi.yml at 6275144614), Phoenix (openapi.json of arize-phoenix 20), LangSmith
(reference of RunQueryParams and RunQueryResponse), Logfire (its page "Export your Logfire data") and Jaeger
(the query service's /api/traces).
"""

import asyncio
import base64
import json
import os
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evalgate.core.errors import InvalidInputError
from evalgate.integrations.trace_sources.api_client import TraceQuery
from evalgate.integrations.trace_sources.conversations import ObservedConversation, build_conversations
from evalgate.integrations.trace_sources.sources import fetch_traces
from tests.integrations.trace_sources.exports import (
    Step,
    list_langfuse_traces,
    list_langsmith_runs,
    list_logfire_rows,
    list_phoenix_spans,
    list_steps,
    to_jaeger,
    to_otlp,
)
from tests.integrations.trace_sources.test_conversations import TURNS, strip_turns

STEPS = list_steps(TURNS)
SINCE = datetime(2026, 9, 1, tzinfo=UTC)

PARAMETERS: Mapping[str, frozenset[str]] = {
    "/api/public/traces": frozenset(
        [
            "page",
            "limit",
            "userId",
            "name",
            "sessionId",
            "fromTimestamp",
            "toTimestamp",
            "orderBy",
            "tags",
            "version",
            "release",
            "environment",
            "fields",
            "filter",
        ]
    ),
    "/api/public/traces/{id}": frozenset(["fields"]),
    "/v1/projects/{id}": frozenset(),
    "/v1/projects/{id}/spans": frozenset(
        [
            "cursor",
            "limit",
            "start_time",
            "end_time",
            "trace_id",
            "parent_id",
            "name",
            "span_kind",
            "status_code",
            "attribute",
        ]
    ),
    "/v1/projects/{id}/span_annotations": frozenset(
        ["span_ids", "include_annotation_names", "exclude_annotation_names", "cursor", "limit", "identifier"]
    ),
    "/api/v1/sessions": frozenset(["name", "name_contains", "id", "limit", "offset"]),
    "/v1/query": frozenset(["sql", "min_timestamp", "max_timestamp", "limit", "row_oriented", "json_rows"]),
    "/api/traces": frozenset(
        ["service", "operation", "tags", "limit", "start", "end", "minDuration", "maxDuration", "lookback"]
    ),
}
LANGSMITH_BODY = frozenset(
    [
        "id",
        "trace",
        "parent_run",
        "run_type",
        "session",
        "reference_example",
        "execution_order",
        "start_time",
        "end_time",
        "error",
        "query",
        "filter",
        "trace_filter",
        "tree_filter",
        "is_root",
        "data_source_type",
        "skip_pagination",
        "search_filter",
        "cursor",
        "limit",
        "select",
        "order",
        "skip_prev_cursor",
    ]
)


@asynccontextmanager
async def serve(
    routes: Mapping[str, Callable[[web.Request], Any]], headers: Mapping[str, str]
) -> AsyncIterator[str]:
    """Serve JSON. The first request of each path is refused with status 429."""
    refused: set[str] = set()

    def build_handler(path: str, answer: Callable[[web.Request], Any]) -> Any:
        async def handle(request: web.Request) -> web.Response:
            unknown = set(request.query) - PARAMETERS.get(path, frozenset())
            if unknown or any(request.headers.get(name) != value for name, value in headers.items()):
                return web.json_response({"detail": f"{unknown}"}, status=400 if unknown else 401)
            if path not in refused:
                refused.add(path)
                return web.json_response({}, status=429, headers={"Retry-After": "0"})
            found = answer(request)
            return web.json_response(await found if hasattr(found, "__await__") else found)

        return handle

    application = web.Application()
    for path, answer in routes.items():
        application.router.add_route("*", path, build_handler(path, answer))
    async with TestServer(application) as server:
        yield str(server.make_url("/")).rstrip("/")


async def fetch(
    name: str, endpoint: str, environ: Mapping[str, str], query: TraceQuery | None = None
) -> ObservedConversation:
    batch = await fetch_traces(name, query or TraceQuery(project="shop", since=SINCE), environ, endpoint)
    assert batch.problems == ()
    (found,) = build_conversations(batch.traces)[0]
    assert strip_turns(found.turns) == [turn.to_case_turn() for turn in TURNS]
    return found


async def test_langfuse() -> None:
    traces = list_langfuse_traces(STEPS)
    traces[0]["scores"] = [{"name": "user", "value": 0.0, "dataType": "NUMERIC"}]
    traces[0]["tags"] = ["billing"]
    whole = {trace["id"]: trace for trace in traces}

    def list_page(request: web.Request) -> object:
        assert request.query.getall("tags") == ["billing", "vip"]
        page = int(request.query["page"])
        # The list has ids in the place of observations and scores.
        rows = [{**trace, "observations": ["o1"], "scores": ["s1"]} for trace in traces[page - 1 : page]]
        return {"data": rows, "meta": {"page": page, "limit": 1, "totalItems": 3, "totalPages": 3}}

    routes = {
        "/api/public/traces": list_page,
        "/api/public/traces/{id}": lambda request: whole[request.match_info["id"]],
    }
    keys = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk"}
    async with serve(routes, {"Authorization": "Basic cGs6c2s="}) as endpoint:
        found = await fetch("langfuse", endpoint, keys, TraceQuery(filter="billing, vip"))
    assert found.url == f"{endpoint}/project/p1/traces/{traces[0]['id']}"
    assert (found.feedback, found.tags) == ({"user": 0.0}, ("billing",))


async def test_langsmith() -> None:
    runs = list_langsmith_runs(STEPS, langchain=True)
    runs[0]["feedback_stats"] = {"user_score": {"n": 1, "avg": 1.0}}

    async def query(request: web.Request) -> object:
        body = await request.json()
        assert set(body) <= LANGSMITH_BODY
        assert body["session"] == ["p1"]
        assert body["limit"] <= 100
        wanted = [
            run
            for run in runs
            if (not body.get("is_root") or not run["parent_run_id"])
            and run["trace_id"] == body.get("trace", run["trace_id"])
        ]
        start = int(body.get("cursor", 0))
        after = str(start + 2) if start + 2 < len(wanted) else None
        return {"runs": wanted[start : start + 2], "cursors": {"next": after, "prev": None}}

    routes = {"/api/v1/sessions": lambda _: [{"id": "p1", "name": "shop"}], "/api/v1/runs/query": query}
    async with serve(routes, {"x-api-key": "lsv2"}) as endpoint:
        found = await fetch("langsmith", endpoint, {"LANGSMITH_API_KEY": "lsv2"})
    assert found.feedback == {"user_score": 1.0}
    assert found.url.startswith("https://smith.langchain.com/o/t1/projects/p/p1/r/")


async def test_phoenix() -> None:
    spans = list_phoenix_spans(STEPS)

    def list_page(request: web.Request) -> object:
        start = int(request.query.get("cursor", 0))
        after = str(start + 4) if start + 4 < len(spans) else None
        return {"data": spans[start : start + 4], "next_cursor": after}

    def list_annotations(request: web.Request) -> object:
        first = spans[0]["context"]["span_id"]
        note = {"span_id": first, "name": "user", "result": {"label": "thumbs-down", "score": None}}
        return {"data": [note] if first in request.query.getall("span_ids") else [], "next_cursor": None}

    routes = {
        "/v1/projects/{id}": lambda _: {"data": {"id": "UHJvamVjdDox", "name": "shop"}},
        "/v1/projects/{id}/spans": list_page,
        "/v1/projects/{id}/span_annotations": list_annotations,
    }
    async with serve(routes, {"Authorization": "Bearer k"}) as endpoint:
        found = await fetch("phoenix", endpoint, {"PHOENIX_API_KEY": "k"})
    assert found.feedback == {"user": "thumbs-down"}
    assert found.url == f"{endpoint}/projects/UHJvamVjdDox/traces/{STEPS[0].trace}"


async def test_a_trace_of_phoenix_is_whole_when_others_run_at_the_same_time() -> None:
    newest = STEPS[-1].trace
    spans = list_phoenix_spans(STEPS)
    own = [span for span in spans if span["context"]["trace_id"] == newest]
    others = [span for span in spans if span["context"]["trace_id"] != newest]
    listed = [own[0], others[0], *own[1:], *others[1:]]
    assert len(own) >= 2

    def list_page(request: web.Request) -> object:
        start = int(request.query.get("cursor", 0))
        return {"data": listed[start : start + 2], "next_cursor": str(start + 2)}

    routes = {
        "/v1/projects/{id}": lambda _: {"data": {"id": "x"}},
        "/v1/projects/{id}/spans": list_page,
        "/v1/projects/{id}/span_annotations": lambda _: {"data": [], "next_cursor": None},
    }
    async with serve(routes, {}) as endpoint:
        batch = await fetch_traces("phoenix", TraceQuery(limit=1), {}, endpoint)
    (trace,) = batch.traces
    assert (trace.info.trace_id, len(trace.spans)) == (newest, len(own))


async def test_logfire() -> None:
    rows = list_logfire_rows(STEPS)

    def query(request: web.Request) -> object:
        sql = request.query["sql"]
        if "group by" in sql:
            return {
                "columns": [],
                "rows": [{"trace_id": name} for name in {row["trace_id"]: 0 for row in rows}],
            }
        return {"columns": [], "rows": [row for row in rows if f"'{row['trace_id']}'" in sql]}

    async with serve({"/v1/query": query}, {"Authorization": "Bearer t"}) as endpoint:
        await fetch("logfire", endpoint, {"LOGFIRE_READ_TOKEN": "t"})


async def test_jaeger() -> None:
    def query(request: web.Request) -> object:
        assert request.query["service"] == "shop"
        assert int(request.query["start"]) == int(SINCE.timestamp() * 1e6)
        return {**json.loads(to_jaeger(STEPS)), "total": 0, "errors": None}

    async with serve({"/api/traces": query}, {}) as endpoint:
        found = await fetch("jaeger", endpoint, {})
    assert found.url == f"{endpoint}/trace/{STEPS[0].trace}"


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("langfuse", "LANGFUSE_PUBLIC_KEY"),
        ("langsmith", "LANGSMITH_API_KEY"),
        ("logfire", "LOGFIRE_READ_TOKEN"),
    ],
)
async def test_missing_keys_are_named(name: str, variable: str) -> None:
    with pytest.raises(InvalidInputError, match=variable):
        await fetch_traces(name, TraceQuery(), {})


async def test_refusals_are_explained() -> None:
    async with serve({"/v1/query": lambda _: {}}, {"Authorization": "Bearer right"}) as endpoint:
        with pytest.raises(InvalidInputError, match="status 401: is the key right"):
            await fetch_traces("logfire", TraceQuery(), {"LOGFIRE_READ_TOKEN": "wrong"}, endpoint)
    with pytest.raises(InvalidInputError, match="Cannot connect"):
        await fetch_traces("phoenix", TraceQuery(), {}, "http://127.0.0.1:1")
    with pytest.raises(InvalidInputError, match="is no address"):
        await fetch_traces("phoenix", TraceQuery(), {}, "ftp://x")


async def test_answers_that_are_no_json_are_told() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="<html>login</html>", content_type="text/html")

    application = web.Application()
    application.router.add_get("/v1/query", answer)
    async with TestServer(application) as server:
        endpoint = str(server.make_url("/"))
        with pytest.raises(InvalidInputError, match="did not answer with JSON: <html>login"):
            await fetch_traces("logfire", TraceQuery(), {"LOGFIRE_READ_TOKEN": "t"}, endpoint)


if "EVALGATE_TEST_PHOENIX" in os.environ:  # no skip: under CI a skipped test is a gap

    async def test_a_real_phoenix() -> None:
        """With `pip install arize-phoenix` (20.26), `phoenix serve` and its address in EVALGATE_TEST_PHOENIX.

        The packages take 855 MB and the first start two minutes, so no environment of the tests has them.
        """
        endpoint = os.environ["EVALGATE_TEST_PHOENIX"]
        project = f"evalgate-{uuid.uuid4().hex[:8]}"
        ids = {step.trace: uuid.uuid4().hex for step in STEPS}
        spans = [{**step.__dict__, "trace": ids[step.trace], "id": uuid.uuid4().hex[:16]} for step in STEPS]
        parents = {step.id: span["id"] for step, span in zip(STEPS, spans, strict=True)}
        steps = [Step(**{**span, "parent": parents.get(span["parent"], "")}) for span in spans]
        request = json.loads(to_otlp(steps, "openinference"))
        name = {"key": "openinference.project.name", "value": {"stringValue": project}}
        request["resourceSpans"][0]["resource"] = {"attributes": [name]}
        for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for key in ("traceId", "spanId", "parentSpanId"):
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        body = ParseDict(request, ExportTraceServiceRequest()).SerializeToString()
        form = {"Content-Type": "application/x-protobuf"}
        async with ClientSession() as session:
            async with session.post(f"{endpoint}/v1/traces", data=body, headers=form) as response:
                assert response.status == 200
            for _ in range(40):
                async with session.get(f"{endpoint}/v1/projects/{project}/spans") as response:
                    if response.status == 200 and len((await response.json())["data"]) == len(STEPS):
                        break
                await asyncio.sleep(0.5)
            result = {"label": "thumbs-down", "score": 0}
            note = {"span_id": steps[0].id, "name": "user", "annotator_kind": "HUMAN", "result": result}
            path = f"{endpoint}/v1/span_annotations?sync=true"
            async with session.post(path, json={"data": [note]}) as response:
                assert response.status == 200
        found = await fetch("phoenix", endpoint, {}, TraceQuery(project=project))
        assert found.feedback == {"user": 0}

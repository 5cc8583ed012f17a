"""The APIs of tracing tools, by servers that answer in their form and refuse unknown parameters.

The names of parameters and fields are those of the tools' descriptions of their APIs: Langfuse
(fern/apis/server/definition of August 2026; that of before version 4: its openapi.yml at 6275144614), Phoenix (openapi.json of arize-phoenix 20), LangSmith
(reference of RunQueryParams and RunQueryResponse), Logfire (its page "Export Data" and the requests that its SDK's tests recorded) and Jaeger
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
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evalgate.cli.import_traces import ImportOptions, import_traces
from evalgate.core.errors import InvalidInputError
from evalgate.integrations.trace_sources import logfire
from evalgate.integrations.trace_sources.api_client import TraceQuery
from evalgate.integrations.trace_sources.conversations import ObservedConversation, build_conversations
from evalgate.integrations.trace_sources.sources import APIS, fetch_traces
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.redaction.redactor import Redactor
from tests.integrations.trace_sources.exports import (
    Step,
    list_langfuse_observations,
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
    "/api/public/v2/observations": frozenset(
        [
            *("fields", "expandMetadata", "limit", "cursor", "parseIoAsJson", "name", "userId", "sessionId"),
            *("type", "traceId", "level", "parentObservationId", "isRootObservation", "environment"),
            *("fromStartTime", "toStartTime", "version", "filter"),
        ]
    ),
    "/api/public/v3/scores": frozenset(
        [
            *("limit", "cursor", "fields", "id", "name", "source", "dataType", "environment", "configId"),
            *("queueId", "authorUserId", "value", "valueMin", "valueMax", "traceId", "sessionId"),
            *("observationId", "experimentId", "fromTimestamp", "toTimestamp"),
        ]
    ),
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


def list_langfuse_page(request: web.Request) -> dict[str, Any]:
    """Answer as Langfuse 4 with pages of three."""
    wanted = request.query
    groups = set(wanted["fields"].split(","))
    assert groups <= {"core", "basic", "time", "io", "metadata", "model", "usage", "prompt", "trace_context"}
    assert 1 <= int(wanted["limit"]) <= 1000
    if "filter" in wanted:
        assert json.loads(wanted["filter"]) == [
            {"type": "arrayOptions", "column": "tags", "operator": "all of", "value": ["billing", "vip"]}
        ]
    hidden = set() if "io" in groups else {"input", "output"}
    rows = [
        {key: value for key, value in row.items() if key not in hidden}
        for row in list_langfuse_observations(STEPS)
        if row["traceId"] == wanted.get("traceId", row["traceId"])
        and (row["isRootObservation"] or wanted.get("isRootObservation") != "true")
    ]
    start = int(wanted.get("cursor", 0))
    after = {"cursor": str(start + 3)} if start + 3 < len(rows) else {}
    return {"data": rows[start : start + 3], "meta": after}


async def test_langfuse() -> None:
    first = list_langfuse_traces(STEPS)[0]["id"]
    score = {"id": "s", "projectId": "p1", "source": "API", "environment": "production"}
    scores = [
        {
            **score,
            "name": "user",
            "dataType": "BOOLEAN",
            "value": False,
            "subject": {"kind": "trace", "id": first},
        },
        {
            **score,
            "name": "tone",
            "dataType": "CATEGORICAL",
            "value": "cold",
            "subject": {"kind": "observation", "id": "o", "traceId": first},
        },
        {
            **score,
            "name": "note",
            "dataType": "TEXT",
            "value": "x",
            "subject": {"kind": "trace", "id": first},
        },
    ]

    def list_scores(request: web.Request) -> object:
        assert set(request.query["traceId"].split(",")) <= {step.trace for step in STEPS}
        assert (request.query["fields"], request.query["limit"]) == ("subject", "100")
        at = int(request.query.get("cursor", 0))
        more = {"cursor": str(at + 1)} if at < 2 else {}
        return {"data": scores[at : at + 1], "meta": {"limit": 100, **more}}

    routes = {"/api/public/v2/observations": list_langfuse_page, "/api/public/v3/scores": list_scores}
    keys = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk"}
    async with serve(routes, {"Authorization": "Basic cGs6c2s="}) as endpoint:
        found = await fetch("langfuse", endpoint, keys, TraceQuery(filter="billing, vip"))
        newest = await fetch_traces("langfuse", TraceQuery(limit=1), keys, endpoint)
    assert found.url == f"{endpoint}/project/p1/traces/{first}"
    assert (found.feedback, found.tags) == ({"user": 0.0, "tone": "cold"}, ("billing",))
    assert [trace.info.trace_id for trace in newest.traces] == [STEPS[-1].trace]


async def test_langfuse_before_version_4() -> None:
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


def select_logfire_rows(sql: str, limit: int) -> list[dict[str, Any]]:
    """Answer the two queries of an import, in the order of the SQL, at most two rows at a time."""
    rows = list_logfire_rows(STEPS)
    if "group by" in sql:
        assert limit == int(sql.rpartition("limit ")[2])
        return [{"trace_id": name} for name in {row["trace_id"]: 0 for row in rows}]
    start = int(sql.rpartition(" offset ")[2]) if " offset " in sql else 0
    return [row for row in rows if f"'{row['trace_id']}'" in sql][start:][: min(limit, 2)]


@pytest.mark.parametrize("version", [1, 2])
async def test_logfire(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfire, "_MOST_ROWS", 2)

    async def query(request: web.Request) -> object:
        body = await request.json()
        assert set(body) <= {"sql", "min_timestamp", "max_timestamp", "limit"}
        assert datetime.fromisoformat(body["min_timestamp"]) <= SINCE
        return {"schema": {"fields": []}, "data": select_logfire_rows(body["sql"], body["limit"])}

    def query_old(request: web.Request) -> object:
        assert request.method == "GET"
        rows = select_logfire_rows(request.query["sql"], int(request.query["limit"]))
        return {"columns": [], "rows": rows}

    routes = {"/v1/query": query_old} if version == 1 else {"/v2/query": query}
    async with serve(routes, {"Authorization": "Bearer t"}) as endpoint:
        await fetch("logfire", endpoint, {"LOGFIRE_READ_TOKEN": "t"}, TraceQuery(since=SINCE))


@pytest.mark.parametrize(
    ("token", "region"), [("pylf_v1_eu_abc", "eu"), ("pylf_v1_us_abc", "us"), ("pylf_v1_local_abc", "us")]
)
def test_region_of_logfire_is_that_of_the_token(token: str, region: str) -> None:
    found = APIS["logfire"].get_default_endpoint({"LOGFIRE_READ_TOKEN": token})
    assert found == f"https://logfire-{region}.pydantic.dev"


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


@pytest.mark.parametrize(
    ("name", "query", "option"),
    [
        ("phoenix", TraceQuery(filter="x"), "--filter"),
        ("langfuse", TraceQuery(project="x"), "--project"),
        ("logfire", TraceQuery(project="x"), "--project"),
    ],
)
async def test_an_option_that_an_api_cannot_use_is_refused(name: str, query: TraceQuery, option: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name}: its API has no use for `{option}`: leave it out"):
        await fetch_traces(name, query, {})


async def test_refusals_are_explained() -> None:
    async with serve({"/v2/query": lambda _: {}}, {"Authorization": "Bearer right"}) as endpoint:
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
    application.router.add_post("/v2/query", answer)
    async with TestServer(application) as server:
        endpoint = str(server.make_url("/"))
        with pytest.raises(InvalidInputError, match="did not answer with JSON: <html>login"):
            await fetch_traces("logfire", TraceQuery(), {"LOGFIRE_READ_TOKEN": "t"}, endpoint)


async def test_a_page_that_comes_again_is_an_error() -> None:
    span = list_phoenix_spans(STEPS)[0]
    observation = list_langfuse_observations(STEPS)[0]
    keys = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk"}
    routes = {
        "/v1/projects/{id}": lambda _: {"data": {"id": "x"}},
        "/v1/projects/{id}/spans": lambda _: {"data": [span], "next_cursor": "a"},
        "/api/public/v2/observations": lambda _: {"data": [observation], "meta": {"cursor": "a"}},
    }
    async with serve(routes, {}) as endpoint:
        for name in ("phoenix", "langfuse"):
            with pytest.raises(
                InvalidInputError, match=f"{name}: .* names the same next page again and again"
            ):
                await fetch_traces(name, TraceQuery(limit=7), keys, endpoint)


async def test_an_answer_that_is_no_object_is_an_error() -> None:
    async with serve({"/v2/query": lambda _: [1], "/api/traces": lambda _: "x"}, {}) as endpoint:
        with pytest.raises(
            InvalidInputError, match=r"logfire: /v2/query did not answer with an object: \[1\]"
        ):
            await fetch_traces("logfire", TraceQuery(), {"LOGFIRE_READ_TOKEN": "t"}, endpoint)
        with pytest.raises(InvalidInputError, match="jaeger: /api/traces did not answer with an object: x"):
            await fetch_traces("jaeger", TraceQuery(project="shop"), {}, endpoint)


@pytest.mark.parametrize(("name", "path"), [("langfuse", "/api/public/traces"), ("logfire", "/v1/query")])
async def test_an_address_of_another_server_is_told(name: str, path: str) -> None:
    keys = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk", "LOGFIRE_READ_TOKEN": "t"}
    async with serve({}, {}) as endpoint:
        with pytest.raises(InvalidInputError, match=f"{path} answered with status 404"):
            await fetch_traces(name, TraceQuery(), keys, endpoint)


async def test_a_project_without_traces_gives_none() -> None:
    keys = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk", "LOGFIRE_READ_TOKEN": "t"}
    routes = {
        "/api/public/v2/observations": lambda _: {"data": [], "meta": {}},
        "/v2/query": lambda _: {"data": []},
        "/api/v1/sessions": lambda _: [{"id": "p1"}],
        "/api/v1/runs/query": lambda _: {"runs": [], "cursors": {"next": None}},
        "/v1/projects/{id}": lambda _: {"data": {"id": "x"}},
        "/v1/projects/{id}/spans": lambda _: {"data": [], "next_cursor": None},
        "/api/traces": lambda _: {"data": [], "errors": None},
    }
    async with serve(routes, {}) as endpoint:
        for name, api in APIS.items():
            query = TraceQuery(project="" if "project" in api.unused else "shop")
            found = await fetch_traces(name, query, {**keys, "LANGSMITH_API_KEY": "k"}, endpoint)
            assert (found.traces, found.problems) == ((), ())


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


async def test_an_api_that_fails_midway_keeps_what_came(tmp_path: Path) -> None:
    traces = [
        {
            "id": f"{number:032x}",
            "timestamp": f"2026-09-0{number}T10:00:00Z",
            "sessionId": "s1" if number == 3 else None,
            "bookmarked": False,
            "input": f"Where is order {number}?",
            "output": "On its way.",
        }
        for number in range(5, 0, -1)
    ]
    broken = True

    def find_trace(request: web.Request) -> object:
        if broken and request.match_info["id"].endswith("1"):
            raise web.HTTPBadRequest
        return next(trace for trace in traces if trace["id"] == request.match_info["id"])

    routes = {
        "/api/public/traces": lambda _: {"data": traces, "meta": {"totalPages": 1}},
        "/api/public/traces/{id}": find_trace,
    }
    keys = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk"}
    redactor = LiveRedactor(Redactor.from_environment({}))
    async with serve(routes, {}) as endpoint:
        options = ImportOptions("langfuse", "a.evalset.json", endpoint=endpoint)
        first = await asyncio.to_thread(import_traces, options, tmp_path, keys, redactor)
        broken = False
        second = await asyncio.to_thread(import_traces, options, tmp_path, keys, redactor)
        third = await asyncio.to_thread(import_traces, options, tmp_path, keys, redactor)
    # Trace 3 is of a session, of which trace 1 or an older one may be; 2 was read last.
    assert [name.rpartition("-")[0][-1] for name in first.added] == ["4", "5"]
    assert not first.is_whole
    (problem,) = first.problems
    assert "answered with status 400" in problem
    assert problem.endswith("Repeat the command: it adds the rest")
    assert [name.rpartition("-")[0][-1] for name in second.added] == ["1", "2", "3"]
    assert (second.is_whole, second.problems, third.added) == (True, (), ())

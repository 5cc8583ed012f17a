"""LangSmith: exports of runs (JSON lines, bulk exports) and its API."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from evalgate.agents.tracing.chat_messages import decode_json, get_message_text, parse_messages
from evalgate.agents.tracing.trace_formats import Span
from evalgate.core.errors import InvalidInputError
from evalgate.integrations.trace_sources.api_client import ApiClient, TraceQuery
from evalgate.integrations.trace_sources.traces import (
    TraceInfo,
    TraceItem,
    filter_texts,
    get_dict,
    get_list,
    get_text,
    parse_time,
)

_PAGE = 100
_SITE = "https://smith.langchain.com"
_FIELDS = (
    *("id", "name", "run_type", "trace_id", "parent_run_id", "start_time", "end_time", "inputs", "outputs"),
    *("error", "extra", "tags", "feedback_stats", "app_path", "session_id", "dotted_order"),
)


class LangSmithReader:
    """Reader of LangSmith's runs, which are its spans."""

    def matches_row(self, row: Mapping[str, Any]) -> bool:
        """Return True if the object has the keys of a run."""
        return "run_type" in row and "id" in row

    def read_row(self, row: Mapping[str, Any]) -> Iterable[TraceItem]:
        """Yield the run as a span. If the run is the root of a trace, yield facts about the trace, too."""
        trace_id = get_text(row, "trace_id") or get_text(row, "id")
        parent = get_text(row, "parent_run_id")
        sent, answered = decode_json(row.get("inputs")), decode_json(row.get("outputs"))
        extra = decode_json(row.get("extra"))
        metadata = get_dict(extra if isinstance(extra, dict) else {}, "metadata")
        error = get_text(row, "error")
        yield Span(
            trace_id=trace_id,
            span_id=get_text(row, "id"),
            parent_id=parent,
            name=get_text(row, "name"),
            start=parse_time(row.get("start_time")),
            end=parse_time(row.get("end_time")),
            attributes={
                "langsmith.span.kind": get_text(row, "run_type"),
                "input.value": sent,
                "output.value": answered,
                "metadata": metadata,
                "tool.id": _find_call_id(answered),
            },
            error=error,
        )
        if not parent:
            path = get_text(row, "app_path")
            questions = [m for m in parse_messages(sent, "user") if m["role"] == "user"]
            answers = [m for m in parse_messages(answered, "assistant") if m["role"] == "assistant"]
            names = ("thread_id", "session_id", "conversation_id")
            yield TraceInfo(
                trace_id=trace_id,
                conversation_id=get_text(metadata, *names) or get_text(row, "thread_id"),
                url=f"{_SITE}{path}" if path.startswith("/") else path,
                tags=tuple(filter_texts(get_list(row, "tags"))),
                feedback=dict(_iter_feedback(get_dict(row, "feedback_stats"))),
                error=error,
                question=get_message_text(questions[-1]) if questions else _find_single_text(sent),
                answer=get_message_text(answers[-1]) if answers else _find_single_text(answered),
            )


def _find_single_text(found: object) -> str:
    """Return the only text in an object such as `{"question": "…"}`; "" if it has no text or several."""
    texts = [each for each in found.values() if isinstance(each, str)] if isinstance(found, dict) else []
    return texts[0] if len(texts) == 1 else ""


def _find_call_id(answered: object) -> str:
    for message in parse_messages(answered, "tool") if isinstance(answered, dict) else ():
        for part in message["parts"]:
            if part["type"] == "tool_call_response":
                return str(part["id"])
    return ""


def _iter_feedback(stats: Mapping[str, Any]) -> Iterable[tuple[str, float | str]]:
    for name, found in stats.items():
        if isinstance(found, dict) and isinstance(found.get("avg"), int | float):
            yield name, found["avg"]
        elif isinstance(found, dict) and isinstance(found.get("values"), dict) and found["values"]:
            yield name, str(next(iter(found["values"])))


class LangSmithApi:
    """Reader of the newest traces from LangSmith's API.

    It asks `POST /api/v1/runs/query` for the root runs of the traces, and then for all runs of each trace. A
    run of LangSmith is a span.
    """

    variables = ("LANGSMITH_ENDPOINT", "LANGSMITH_API_KEY", "LANGSMITH_PROJECT", "LANGSMITH_WORKSPACE_ID")
    unused: tuple[str, ...] = ()

    def get_default_endpoint(self, environ: Mapping[str, str]) -> str:  # noqa: ARG002
        """Return the address of LangSmith's cloud."""
        return "https://api.smith.langchain.com"

    def build_headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the headers with the API key, and with the workspace if the environment names one.

        Raises:
            InvalidInputError: the key is missing.
        """
        key, workspace = environ.get("LANGSMITH_API_KEY"), environ.get("LANGSMITH_WORKSPACE_ID")
        if not key:
            raise InvalidInputError("langsmith: set LANGSMITH_API_KEY")
        return {"x-api-key": key, **({"x-tenant-id": workspace} if workspace else {})}

    async def iter_rows(
        self, client: ApiClient, query: TraceQuery, environ: Mapping[str, str]
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the runs of the newest traces. `query.filter` is an expression in LangSmith's language.

        Raises:
            InvalidInputError: there is no such project, or the API fails.
        """
        name = query.project or environ.get("LANGSMITH_PROJECT") or "default"
        projects = await client.get_json("/api/v1/sessions", {"name": name})
        listed = projects if isinstance(projects, list) else []
        ids = [get_text(each, "id") for each in listed if isinstance(each, dict)]
        if not ids:
            raise InvalidInputError(f"langsmith: there is no project {name!r}: name it with --project")
        wanted: dict[str, object] = {"session": ids[:1], "is_root": True, "select": list(_FIELDS)}
        if query.since:
            wanted["start_time"] = query.since.isoformat()
        if query.until:
            wanted["end_time"] = query.until.isoformat()
        if query.filter:
            wanted["filter"] = query.filter
        async for root in _iter_pages(client, wanted, query.limit):
            trace = get_text(root, "trace_id") or get_text(root, "id")
            within = {"session": ids[:1], "trace": trace, "select": list(_FIELDS)}
            async for run in _iter_pages(client, within, 10_000):
                yield run


async def _iter_pages(
    client: ApiClient, body: Mapping[str, object], limit: int
) -> AsyncIterator[Mapping[str, Any]]:
    cursor: str = ""
    given = 0
    while given < limit:
        more = {"cursor": cursor} if cursor else {}
        page = await client.post_object(
            "/api/v1/runs/query", {**body, "limit": min(_PAGE, limit - given), **more}
        )
        runs = [run for run in get_list(page, "runs") if isinstance(run, dict)]
        for run in runs:
            yield run
        given += len(runs)
        cursor = get_text(get_dict(page, "cursors"), "next")
        if not cursor or not runs:
            return

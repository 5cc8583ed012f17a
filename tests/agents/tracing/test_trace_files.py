"""Trace files that are replayed instead of an agent."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.agents.replay import ReplayAgentOptions
from evalgate.agents.tracing.trace_formats import is_trace_file
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import EvalSet, Reply, ToolCall, ToolResult
from evalgate.integrations.recordings import read_recording
from evalgate.runner.scheduler import RunRequest, run_requests
from tests.agents.http.server import build_context
from tests.agents.play import a_talk

TURNS = [("Rain in Paris?", "Paris", "No."), ("In Oslo?", "Oslo", "Snow.")]


def to_any_value(value: object) -> dict[str, object]:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def build_attributes(**found: object) -> list[dict[str, object]]:
    return [
        {"key": f"gen_ai.{key.replace('__', '.')}", "value": to_any_value(value)}
        for key, value in found.items()
    ]


def build_messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def build_export(number: int) -> dict[str, Any]:
    question, city, response = TURNS[number]
    base = {"traceId": f"{number + 1:032x}", "parentSpanId": ""}
    chat = build_attributes(
        operation__name="chat",
        conversation__id="rain",
        input__messages=build_messages("user", question),
        output__messages=build_messages("assistant", response),
    )
    tool = build_attributes(
        operation__name="execute_tool",
        tool__name="look",
        tool__call__id="1",
        tool__call__arguments=json.dumps({"at": city}),
        tool__call__result="seen",
    )
    start = 1_700_000_000_000_000_000 + number * 1_000
    spans = [
        {
            **base,
            "spanId": "00000000000000a1",
            "name": "chat",
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + 5),
            "attributes": chat,
        },
        {
            **base,
            "spanId": "00000000000000a2",
            "name": "tool",
            "startTimeUnixNano": str(start + 1),
            "endTimeUnixNano": str(start + 2),
            "attributes": tool,
        },
    ]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": spans}]}]}


def build_jaeger() -> dict[str, Any]:
    def tags(found: list[dict[str, Any]]) -> list[dict[str, object]]:
        return [
            {"key": each["key"], "type": "string", "value": each["value"]["stringValue"]} for each in found
        ]

    traces = []
    for number in range(len(TURNS)):
        spans = build_export(number)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        traces.append(
            {
                "traceID": spans[0]["traceId"],
                "processes": {"p1": {"serviceName": "weather", "tags": []}},
                "spans": [
                    {
                        "traceID": span["traceId"],
                        "spanID": span["spanId"],
                        "operationName": span["name"],
                        "references": [],
                        "startTime": int(span["startTimeUnixNano"]) // 1_000 + position,
                        "duration": 1,
                        "tags": tags(span["attributes"]),
                        "logs": [],
                        "processID": "p1",
                    }
                    for position, span in enumerate(spans)
                ],
            }
        )
    return {"data": traces}


def write_traces(path: Path, kind: str) -> Path:
    exports = [build_export(1), build_export(0)]  # in no order
    texts = {
        "otlp": json.dumps(
            {"resourceSpans": [group for export in exports for group in export["resourceSpans"]]}, indent=1
        ),
        "lines": "\n".join(map(json.dumps, exports)) + "\n",
        "jaeger": json.dumps(build_jaeger()),
    }
    path.write_text(texts[kind])
    return path


@pytest.mark.parametrize("kind", ["otlp", "lines", "jaeger"])
async def test_trace_file_is_replayed(tmp_path: Path, kind: str) -> None:
    path = write_traces(tmp_path / "traces.json", kind)

    def read(name: str) -> EvalSet:
        found = read_recording(tmp_path / name, name)
        assert isinstance(found, EvalSet)
        return found

    agent = ReplayAgentOptions(path=path.name).build(build_context(read_recording=read))
    runs = []

    async def note(request: RunRequest, run: Any) -> None:
        runs.append(run)

    async with agent:
        await run_requests(
            agent,
            [RunRequest(a_talk("rain", *[turn[0] for turn in TURNS]), 1)],
            concurrency=1,
            on_finished=note,
        )
    assert runs[0].failure is None
    assert runs[0].replies == tuple(
        Reply(response, (ToolCall("look", {"at": city}, "1"), ToolResult("look", "seen", "1")))
        for _, city, response in TURNS
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"resourceSpans": []}', "t.json:1:1: there is no span in the traces"),
        (
            '{"resourceSpans": {}}',
            "t.json:1:1: is no export request of OTLP: it is no object with a list `resourceSpans`",
        ),
        ('{"resourceSpans": []', "t.json:1:21: not JSON: Expecting ',' delimiter"),
        ('{"resourceSpans": []}\n{', "t.json:2:1: the line is not JSON"),
    ],
)
def test_invalid_trace_files_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    assert is_trace_file(path)
    with pytest.raises(InvalidInputError) as caught:
        read_recording(path, "t.json")
    assert str(caught.value) == problem


def test_duplicate_span_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("\n".join(json.dumps(build_export(number)) for number in (0, 1, 0, 0)))

    found = read_recording(path, "t.json")

    assert isinstance(found, EvalSet)
    (case,) = found.cases
    assert [len(turn.expected.tool_calls) for turn in case.turns] == [1, 1]
    assert [turn.expected.response for turn in case.turns] == ["No.", "Snow."]


@pytest.mark.parametrize("id_", [["p1"], {}, None, 7, "other"])
def test_unknown_jaeger_process_has_no_tags(tmp_path: Path, id_: object) -> None:
    traces = build_jaeger()
    for trace in traces["data"]:
        for span in trace["spans"]:
            span["processID"] = id_
    path = tmp_path / "t.json"
    path.write_text(json.dumps(traces))

    found = read_recording(path, "t.json")

    assert isinstance(found, EvalSet)
    assert [case.eval_id for case in found.cases] == ["rain"]


@pytest.mark.parametrize("id_", ["é", "not an id", "", None, 7])
def test_any_trace_id_is_accepted(tmp_path: Path, id_: object) -> None:
    export = build_export(0)
    for span in export["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span["traceId"] = id_
    path = tmp_path / "t.json"
    path.write_text(json.dumps(export))

    found = read_recording(path, "t.json")

    assert isinstance(found, EvalSet)
    assert [case.eval_id for case in found.cases] == ["rain"]

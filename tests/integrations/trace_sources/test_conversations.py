"""A conversation that is exported in any form comes back as it was."""

import base64
import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evalgate.agents.tracing.span_steps import convert_spans
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import CaseTurn, Event, Message, ToolCall, ToolResult
from evalgate.integrations.trace_sources.conversations import ObservedConversation, build_conversations
from evalgate.integrations.trace_sources.langfuse import LangfuseReader
from evalgate.integrations.trace_sources.sources import read_trace_file
from tests.integrations.trace_sources.exports import (
    FILES,
    Call,
    Step,
    Turn,
    list_langsmith_runs,
    list_steps,
    to_otlp,
)

TURNS = [
    Turn(
        "Where is order 7?",
        "It is late. I refunded it.",
        [
            Call("lookup_order", {"order": 7}, {"status": "late"}),
            Call("refund", {"order": 7, "reason": "late"}, {"ok": True}),
        ],
    ),
    Turn("And order 8?", "It is on its way.", [Call("lookup_order", {"order": 8}, {"status": "sent"})]),
    Turn("Thanks!", "You are welcome."),
]


def strip(event: Event) -> Event:
    return replace(event, author=None) if isinstance(event, Message) else replace(event, id=None, author=None)


def strip_turns(turns: Sequence[CaseTurn]) -> list[CaseTurn]:
    """Return the turns without ids and authors."""
    return [
        replace(turn, expected=replace(turn.expected, events=tuple(map(strip, turn.expected.events))))
        for turn in turns
    ]


def read(folder: Path, text: str, name: str = "traces.json") -> list[ObservedConversation]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    batch = read_trace_file(path, name)
    assert batch.problems == ()
    found, unusable = build_conversations(batch.traces)
    assert unusable == []
    return found


@pytest.mark.parametrize("one_trace", [False, True], ids=["trace_per_turn", "one_trace"])
@pytest.mark.parametrize("kind", FILES)
def test_every_export_comes_back_equal(tmp_path: Path, kind: str, one_trace: bool) -> None:
    (found,) = read(tmp_path, FILES[kind](list_steps(TURNS, one_trace=one_trace)))
    assert strip_turns(found.turns) == [turn.to_case_turn() for turn in TURNS]
    assert found.tool_path == (("lookup_order", "refund"), ("lookup_order",), ())


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).map(
    lambda text: f"say {text.strip()}"
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=4,
)
CALLS = st.builds(
    Call,
    name=st.sampled_from(["lookup", "refund", "search_flights"]),
    args=st.dictionaries(st.sampled_from(["order", "city", "to"]), VALUES, max_size=3),
    result=st.dictionaries(st.sampled_from(["status", "rows"]), VALUES, min_size=1, max_size=2),
)
CONVERSATIONS = st.lists(
    st.builds(Turn, question=WORDS, answer=WORDS, calls=st.lists(CALLS, max_size=3)),
    min_size=1,
    max_size=3,
    unique_by=lambda turn: turn.question,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=CONVERSATIONS, kind=st.sampled_from(sorted(FILES)), one_trace=st.booleans())
def test_generated_conversations_come_back_equal(
    tmp_path: Path, turns: list[Turn], kind: str, one_trace: bool
) -> None:
    (found,) = read(tmp_path, FILES[kind](list_steps(turns, one_trace=one_trace)))
    assert strip_turns(found.turns) == [turn.to_case_turn() for turn in turns]


def without_session(text: str) -> str:
    return text.replace("session.id", "other").replace("gen_ai.conversation.id", "other")


def test_history_joins_traces_without_a_session(tmp_path: Path) -> None:
    other = [Turn("Hello", "Hi")]
    steps = list_steps(TURNS)
    late = [replace(step, trace="f" * 32, id=f"f{step.id[1:]}") for step in list_steps(other)]
    (found, second) = read(tmp_path, without_session(FILES["otlp_genai"]([*steps, *late])))
    assert [len(found.turns), len(second.turns)] in ([3, 1], [1, 3])


def test_missing_traces_are_read_from_the_history(tmp_path: Path) -> None:
    steps = list_steps(TURNS)
    last = [step for step in steps if step.trace == steps[-1].trace]
    (found,) = read(tmp_path, FILES["otlp_openinference"](last))
    assert strip_turns(found.turns) == [turn.to_case_turn() for turn in TURNS]


@pytest.mark.parametrize("kind", ["otlp_genai", "otlp_openinference", "otlp_openllmetry", "langsmith"])
def test_models_alone_tell_the_calls(tmp_path: Path, kind: str) -> None:
    models = [step for step in list_steps(TURNS) if step.kind != "tool"]
    (found,) = read(tmp_path, FILES[kind](models))
    assert strip_turns(found.turns) == [turn.to_case_turn() for turn in TURNS]


def test_a_loop_of_calls_in_several_traces_is_one_turn(tmp_path: Path) -> None:
    """An instrumented client without a span of the agent: each request is a trace of its own."""
    models: list[Step] = [
        replace(step, trace=f"{number + 100:032x}", parent="")
        for number, step in enumerate(list_steps(TURNS))
        if step.kind == "model"
    ]
    (found,) = read(tmp_path, without_session(FILES["otlp_genai"](models)))
    assert strip_turns(found.turns) == [turn.to_case_turn() for turn in TURNS]


def test_a_call_before_the_first_request_belongs_to_the_turn_of_its_agent(tmp_path: Path) -> None:
    """A turn may begin with a call that no model asked for, such as retrieval."""
    steps = [
        step
        for step in list_steps(TURNS, one_trace=True)
        if not (step.kind == "model" and "tool_calls" in step.answer)
    ]
    (found,) = read(tmp_path, FILES["otlp_genai"](steps))
    assert strip_turns(found.turns) == [turn.to_case_turn() for turn in TURNS]


def test_turns_that_began_at_one_time_are_read(tmp_path: Path) -> None:
    steps = [replace(step, start=0) for step in list_steps(TURNS, one_trace=True)]
    (found,) = read(tmp_path, FILES["otlp_genai"](steps))
    assert found.turns


def test_a_case_has_the_same_id_in_every_import(tmp_path: Path) -> None:
    found = [read(tmp_path, FILES[kind](list_steps(TURNS)))[0] for kind in ("jaeger", "phoenix")]
    ids = {each.build_case_id(each.turns[0].user.text) for each in found}
    assert len(ids) == 1
    assert ids.pop().startswith("where_is_order_7-")


def test_cycles_of_parents_end(tmp_path: Path) -> None:
    steps = list_steps(TURNS[:1])
    knotted = [replace(step, parent=steps[(at + 1) % len(steps)].id) for at, step in enumerate(steps)]
    (found,) = read(tmp_path, FILES["otlp_genai"](knotted))
    assert strip_turns(found.turns) == [TURNS[0].to_case_turn()]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1:1: neither JSON, nor CSV, nor OTLP in Protobuf"),
        ("[]", "1:1: there is no trace in the file"),
        ('{"a": 1}', "1:1: no object of a known tracing tool (keys: a)"),
        ('{"resourceSpans": 3}', "1:1: is no export request of OTLP"),
        ('{"resourceSpans": ', "1:19: not JSON"),
        ("[" * 100_000, "1:1: the JSON nests too deep"),
        ("[1, 2]", "1:1: an object was expected, not int"),
        ("\x00\x01", "1:1: neither JSON"),
    ],
)
def test_hostile_files_are_problems_with_a_place(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "traces.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        read_trace_file(path, "traces.json")
    assert f"traces.json:{problem}" in str(caught.value)


def test_broken_lines_are_told_and_the_others_read(tmp_path: Path) -> None:
    lines = FILES["phoenix"](list_steps(TURNS)).splitlines()
    path = tmp_path / "spans.jsonl"
    path.write_text("\n".join([lines[0], '{"context": ', '{"x": 1}', *lines[1:]]))
    batch = read_trace_file(path, "spans.jsonl")
    assert [str(problem).partition(": ")[0] for problem in batch.problems] == [
        "spans.jsonl:2:1",
        "spans.jsonl:3:1",
    ]
    assert len(batch.traces) == 3


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_text_with_another_line_separator_is_part_of_its_line(tmp_path: Path, mark: str, end: str) -> None:
    line = json.dumps(json.loads(to_otlp(list_steps(TURNS))), ensure_ascii=False)
    whole = [line.replace("lookup_order", f"lookup{mark}{number}") for number in (1, 2)]
    path = tmp_path / "traces.jsonl"
    path.write_bytes(end.join([*whole, ""]).encode())
    batch = read_trace_file(path, "traces.jsonl")
    assert (batch.rows, batch.problems) == (2, ())


HOSTILE_VALUES = [[], {}, [1], {"x": []}, "é", -1, 10**400, 1.5, True, None]


@pytest.mark.parametrize("value", HOSTILE_VALUES, ids=lambda value: str(value)[:8])
@pytest.mark.parametrize(
    "row",
    [
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "a", "status": {"code": "?"}}]}]}]},
        {"data": [{"spans": [{"traceID": "a", "tags": [{"key": "error", "value": "?"}]}]}]},
        {"data": [{"spans": [{"traceID": "a", "startTime": "?", "duration": "?"}]}]},
        {"traceId": "a", "id": "b", "timestamp": "?", "duration": "?"},
        {"traceId": "a", "type": "SPAN", "startTime": "?", "isRootObservation": "?", "scores": "?"},
        {"id": "a", "timestamp": "?", "sessionId": "s", "scores": [{"dataType": "?", "value": 1}]},
        {"id": "a", "timestamp": 1, "sessionId": "s", "scores": [{"name": "n", "value": "?"}]},
    ],
    ids=["otlp_status", "jaeger_error", "jaeger_time", "zipkin_time", "observation", "score_type", "score"],
)
def test_a_value_of_any_type_is_left_out(tmp_path: Path, row: object, value: object) -> None:
    path = tmp_path / "traces.json"
    path.write_text(json.dumps(row).replace('"?"', json.dumps(value)))
    batch = read_trace_file(path, "traces.json")
    assert batch.problems == ()
    for trace in batch.traces:
        convert_spans(trace.spans, 0)
    build_conversations(batch.traces)


def test_a_root_observation_in_snake_case_has_the_facts_of_its_trace() -> None:
    row = {"trace_id": "t1", "type": "SPAN", "id": "a", "isRootObservation": True, "session_id": "s"}
    assert {item.trace_id for item in LangfuseReader().read_row(row)} == {"t1"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=st.sampled_from(sorted(FILES)))
def test_wrong_types_anywhere_never_raise(tmp_path: Path, data: st.DataObject, kind: str) -> None:
    """Any value within an export may be of any type: what cannot be read is left out or told."""
    text = FILES[kind](list_steps(TURNS[:2]))
    lines = text.splitlines() if kind not in {"jaeger", "zipkin"} else [text]
    whole = [json.loads(line) for line in lines]
    for _ in range(3):
        node: object = whole
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))  # type: ignore[arg-type]
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            inner = node[key]  # type: ignore[index]
            if not isinstance(inner, dict | list) or data.draw(st.integers(0, 5)) == 0:
                node[key] = data.draw(JSON)  # type: ignore[index]
                break
            node = inner
    path = tmp_path / "traces.json"
    path.write_text("\n".join(json.dumps(each) for each in whole))
    try:
        batch = read_trace_file(path, "traces.json")
    except InvalidInputError:
        return
    for found in build_conversations(batch.traces)[0]:
        assert found.build_case_id(found.turns[0].user.text)
        assert found.turns
        for turn in found.turns:
            assert isinstance(turn.user.text, str)
            assert all(isinstance(each, ToolCall | ToolResult | Message) for each in turn.expected.events)


def test_otlp_in_protobuf_and_runs_of_langsmith_as_csv_are_files_too(tmp_path: Path) -> None:
    steps = list_steps(TURNS)
    request = json.loads(to_otlp(steps))
    for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            span[key] = base64.b64encode(bytes.fromhex(span.get(key, ""))).decode()
    message = ParseDict(request, ExportTraceServiceRequest())
    (tmp_path / "traces.bin").write_bytes(message.SerializeToString())
    runs = list_langsmith_runs(steps)
    with (tmp_path / "runs.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for run in runs for key in run)))
        writer.writeheader()
        for run in runs:
            writer.writerow(
                {
                    key: json.dumps(value) if isinstance(value, dict | list) else value
                    for key, value in run.items()
                }
            )
    for name in ("traces.bin", "runs.csv"):
        found, unusable = build_conversations(read_trace_file(tmp_path / name, name).traces)
        assert unusable == []
        (conversation,) = found
        assert strip_turns(conversation.turns) == [turn.to_case_turn() for turn in TURNS], name

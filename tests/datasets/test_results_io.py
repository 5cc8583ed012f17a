import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    AgentInfo,
    Attempt,
    CaseChange,
    CaseMetric,
    CaseResult,
    Comparison,
    Failure,
    Message,
    MetricSummary,
    Record,
    Reply,
    RunMetric,
    RunResult,
    ToolCall,
    ToolResult,
    Totals,
    TraceSpan,
    TurnMetric,
    TurnResult,
    Usage,
    Verdict,
)
from evalgate.datasets.results_encoder import as_tree
from evalgate.datasets.results_io import build_record_schema, dump_record, load_record
from tests.builders import a_case_result, a_record, a_reply, a_run_result, a_turn_result
from tests.situations import GOLDEN

SCHEMA = Path(__file__).parents[2] / "docs" / "results.schema.json"

TEXT = st.text()
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)


def few(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=2).map(tuple)


CALLS = st.builds(ToolCall, TEXT, st.none() | OBJECT, st.none() | TEXT, st.none() | TEXT)
RESULTS = st.builds(ToolResult, TEXT, JSON, st.none() | TEXT)
MESSAGES = st.builds(Message, TEXT, st.none() | TEXT)
REPLIES = st.none() | st.builds(Reply, st.none() | TEXT, few(CALLS | RESULTS | MESSAGES))
SCORES = st.none() | NUMBER
STATUSES = st.sampled_from(["passed", "failed", "errored", "not_evaluated"])
TURNS = st.builds(
    TurnResult,
    TEXT,
    REPLIES,
    REPLIES,
    few(st.builds(TurnMetric, TEXT, SCORES, STATUSES, TEXT, st.none() | OBJECT)),
)
USAGE = st.none() | st.builds(Usage, st.integers(0), st.integers(0), NUMBER)
FAILURE = st.builds(Failure, TEXT, TEXT, TEXT)
SPANS = st.builds(
    TraceSpan,
    TEXT,
    TEXT,
    st.sampled_from(["agent", "model", "tool", "other"]),
    st.integers(0),
    NUMBER,
    NUMBER,
    TEXT,
    TEXT,
    USAGE,
    JSON,
    JSON,
    TEXT,
    OBJECT,
)
RUNS = st.builds(
    RunResult,
    st.integers(1),
    st.sampled_from(["answered", "crashed", "timed_out", "faulted", "not_run"]),
    NUMBER,
    few(TURNS),
    few(st.builds(RunMetric, TEXT, SCORES, STATUSES, TEXT)),
    USAGE,
    st.none() | FAILURE,
    st.none() | OBJECT,
    few(st.builds(Attempt, st.sampled_from(["crashed", "timed_out"]), FAILURE, NUMBER, USAGE)),
    st.booleans(),
    USAGE,
    session_id=TEXT,
    user_id=TEXT,
    trace=few(SPANS),
)
CASES = st.builds(
    CaseResult,
    TEXT,
    TEXT,
    STATUSES,
    few(st.builds(CaseMetric, TEXT, SCORES, NUMBER, STATUSES, TEXT)),
    few(RUNS),
    TEXT,
    TEXT,
    st.integers(0),
)
CHANGES = st.builds(
    CaseChange,
    TEXT,
    TEXT,
    st.sampled_from(["newly_failing", "new"]),
    st.none() | STATUSES,
    st.none() | STATUSES,
)
RECORDS = st.builds(
    Record,
    TEXT,
    st.datetimes().map(datetime.isoformat),
    NUMBER,
    st.builds(AgentInfo, TEXT, TEXT),
    st.integers(1),
    st.builds(Verdict, st.sampled_from(["pass", "error"]), st.integers(0, 130), few(TEXT)),
    few(
        st.builds(
            MetricSummary,
            TEXT,
            SCORES,
            NUMBER,
            STATUSES,
            SCORES,
            SCORES,
            st.integers(),
            st.integers(),
            st.integers(),
            few(TEXT),
        )
    ),
    few(CASES),
    st.builds(Totals, st.integers(0), cost_usd=NUMBER),
    st.none() | st.builds(Comparison, TEXT, st.none() | TEXT, st.none() | TEXT, few(CHANGES), st.integers(0)),
    few(TEXT),
)


@settings(max_examples=200)
@given(RECORDS)
def test_a_record_survives_the_round_trip(record: Record) -> None:
    assert load_record(dump_record(record), "results.json") == record


@given(RECORDS)
def test_cases_have_the_fields_and_the_order_that_the_layout_says(record: Record) -> None:
    cases = json.loads(dump_record(record), object_pairs_hook=list)[-1][1]
    expected = json.dumps([as_tree(case) for case in record.cases])
    assert cases == json.loads(expected, object_pairs_hook=list)


@given(RECORDS)
def test_what_is_written_follows_the_schema(record: Record) -> None:
    VALIDATOR.validate(json.loads(dump_record(record)))


VALIDATOR = Draft202012Validator(build_record_schema())


@pytest.mark.parametrize("situation", GOLDEN.values(), ids=list(GOLDEN))
def test_situations_survive_the_round_trip_and_follow_the_schema(situation: Any) -> None:
    text = dump_record(situation())
    VALIDATOR.validate(json.loads(text))
    assert dump_record(load_record(text, "results.json")) == text


def test_the_published_schema_is_in_step(request: pytest.FixtureRequest) -> None:
    expected = json.dumps(build_record_schema(), indent=2) + "\n"
    if request.config.getoption("--update-golden"):
        SCHEMA.write_text(expected, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == expected


def test_a_run_without_a_trace_has_no_key_for_it() -> None:
    assert '"trace"' not in dump_record(a_record(a_case_result()))


def test_each_case_stands_on_its_own_line() -> None:
    lines = dump_record(a_record(a_case_result("one"), a_case_result("two"))).splitlines()
    assert [json.loads(line.rstrip(","))["eval_id"] for line in lines if line.startswith('{"')] == [
        "one",
        "two",
    ]
    assert '"schema_version": 1,' in lines[1]


def test_the_keys_that_programs_rely_on_always_stand() -> None:
    document = json.loads(dump_record(a_record(a_case_result())))
    assert document["comparison"] is None
    assert {"baseline", "delta", "n", "errors"} <= document["metrics"][0].keys()
    run = document["cases"][0]["runs"][0]
    assert {"run", "outcome", "duration_s", "usage", "turns", "metrics"} <= run.keys()
    assert {"user", "expected", "actual", "metrics"} == run["turns"][0].keys()
    assert {"cases", "passed", "failed", "errored", "not_evaluated", "cost_usd"} <= document["totals"].keys()


def _with_args(args: Any) -> Record:
    turn = a_turn_result(actual=a_reply("x", ToolCall("tool", args)))
    return a_record(a_case_result("\ud800 lone", runs=(a_run_result(turn),)))


def _nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), None),
        (float("inf"), None),
        (10**5000, None),
        ({1}, "{1}"),
        (b"bytes", "b'bytes'"),
        ("\udfff", "\ufffd"),
        (Path("x"), repr(Path("x"))),
        (MappingProxyType({"a": 1}), {"a": 1}),
    ],
    ids=["nan", "infinity", "too many digits", "set", "bytes", "surrogate", "object", "mapping"],
)
def test_what_json_cannot_hold_loses_no_report(value: object, written: object) -> None:
    text = dump_record(_with_args({"key": value}))
    text.encode()
    (case,) = load_record(text, "results.json").cases
    actual = case.runs[0].turns[0].actual
    assert actual is not None
    assert actual.tool_calls[0].args == {"key": written}
    assert case.eval_id == "\ufffd lone"


def test_bottomless_nesting_loses_no_report() -> None:
    text = dump_record(_with_args(_nested(100_000)))
    assert "nested too deep" in text
    load_record(text, "results.json")


def test_the_record_prints_no_workflow_command() -> None:
    text = dump_record(a_record(a_case_result("##[add-mask]e")))
    assert "##[" not in text
    assert load_record(text, "results.json").cases[0].eval_id == "##[add-mask]e"


def test_printing_the_record_moves_no_text_and_the_reader_gets_it_all() -> None:
    hidden = "\x9b\u202e\u2028\x85\u2066"
    text = dump_record(a_record(a_case_result(hidden)))
    assert not set(hidden) & set(text)
    assert load_record(text, "results.json").cases[0].eval_id == hidden


def _changed(**changes: object) -> bytes:
    return json.dumps({**json.loads(dump_record(a_record(a_case_result()))), **changes}).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "r.json:1:1: is not JSON: "),
        (b"\xff\xfe", "r.json:1:1: is not JSON: "),
        (b'{"schema_version": 1, "n": NaN}', "r.json:1:28: is not JSON: "),
        (b"[" * 100_000, "r.json:1:202: is not JSON: "),
        (b"[]", "r.json: is not a results.json of evalgate: it has no schema_version"),
        (b'{"schema_version": "1"}', "r.json: is not a results.json of evalgate"),
        (b'{"schema_version": true}', "r.json: is not a results.json of evalgate"),
        (
            b'{"schema_version": 7}',
            "r.json: was written by a newer evalgate (schema 7; this one reads up to 1): upgrade evalgate",
        ),
        (_changed(cases=[{}]), "r.json:1:589: cases[0].eval_set_id: Field required"),
        (_changed(created_at="noon"), "r.json:1:66: created_at: Input should be a time in ISO 8601"),
        (_changed(duration_s="2"), "r.json:1:104: duration_s: Input should be a valid number"),
        (
            _changed(verdict={"status": "maybe", "exit_code": 0}),
            "r.json:1:198: verdict.status: Input should be 'pass'",
        ),
    ],
)
def test_bad_files_are_refused_with_a_reason(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        load_record(data, "r.json")
    assert str(caught.value).startswith(message)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_score_is_a_number(constant: str) -> None:
    """With NaN no score is below its threshold."""
    text = dump_record(a_record(a_case_result()))
    changed = re.sub(r'("(?:score|threshold)": *)[0-9.]+', rf"\g<1>{constant}", text)
    assert changed != text
    with pytest.raises(InvalidInputError, match="is not JSON"):
        load_record(changed, "r.json")


def test_every_problem_is_named_up_to_a_point() -> None:
    with pytest.raises(InvalidInputError) as caught:
        load_record(_changed(cases=[{}] * 10), "r.json")
    problems = [problem.message for problem in caught.value.problems]
    assert (
        problems[-1]
        == f"… and {len(('eval_set_id', 'eval_id', 'status', 'metrics', 'runs')) * 10 - 20} more problems"
    )
    assert len(problems) == 21


def test_an_event_of_an_unknown_type_is_named_by_its_path() -> None:
    document = json.loads(dump_record(a_record(a_case_result())))
    document["cases"][0]["runs"][0]["turns"][0]["actual"]["events"] = [{"type": "dance"}]
    with pytest.raises(
        InvalidInputError, match=r"cases\[0\]\.runs\[0\]\.turns\[0\]\.actual\.events\[0\]\.type: "
    ):
        load_record(json.dumps(document), "r.json")


def test_keys_of_a_later_version_are_ignored_and_a_byte_order_mark_too() -> None:
    record = a_record(a_case_result())
    assert load_record(b"\xef\xbb\xbf" + _changed(invented_later=1), "r.json") == record


def test_a_baseline_may_be_text_or_bytes() -> None:
    record = replace(a_record(a_case_result("Zoë")), notices=("日本",))
    assert load_record(dump_record(record), "r") == load_record(dump_record(record).encode(), "r") == record

"""A run that is encoded as a row and decoded again is equal."""

from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given

from evalgate.core.types import (
    Attempt,
    Failure,
    Message,
    ModelUsage,
    Reply,
    RunMetric,
    RunResult,
    ToolCall,
    ToolResult,
    TurnMetric,
    Usage,
)
from evalgate.datasets.results_io import dump_record
from evalgate.runner.checkpoint.row_codec import dump_run, load_run
from tests.builders import a_case_result, a_record, a_reply, a_run_result, a_turn_result
from tests.datasets.test_results_io import RUNS
from tests.situations import GOLDEN, hostile

SITUATIONS = {name: situation() for name, situation in GOLDEN.items()} | {"hostile": hostile()}


@given(RUNS)
def test_every_run_comes_back(run: RunResult) -> None:
    assert load_run(dump_run(run)) == run


@pytest.mark.parametrize("record", SITUATIONS.values(), ids=list(SITUATIONS))
def test_every_situation_comes_back(record: Any) -> None:
    runs = [run for case in record.cases for run in case.runs]
    assert [load_run(dump_run(run)) for run in runs] == runs
    assert all(b"\n" not in dump_run(run) for run in runs)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        10**5000,
        "\ud800",
        object,
        MappingProxyType({"a": [MappingProxyType({})]}),
        (1, ("x",)),
    ],
    ids=["nan", "infinity", "huge", "surrogate", "object", "mapping", "tuples"],
)
def test_what_the_model_forbids_is_mended_as_in_a_record(value: object) -> None:
    run = a_run_result(a_turn_result(actual=a_reply("done", ToolCall("t", {"x": value}))))
    again = load_run(dump_run(run))
    assert _recorded(again) == _recorded(run)


def _recorded(run: RunResult) -> str:
    return dump_record(a_record(a_case_result(runs=(run,))))


@pytest.mark.parametrize("kind", [RunMetric, TurnMetric, Usage, Failure, ToolCall, ToolResult, Message])
def test_what_is_kept_field_by_field_holds_no_data_of_ours(kind: Any) -> None:
    assert not [
        each.name for each in fields(kind) if is_dataclass(each.default) or "evalgate" in str(each.type)
    ]


def test_what_judging_used_comes_back() -> None:
    judge = ModelUsage(1, 2, 3, 0.5, 4, 5, Usage(6, 7, 0.25))
    run = replace(a_run_result(), judge=judge, user_usage=Usage(1, 2), earlier_attempts=(LOST,))
    assert load_run(dump_run(run)) == run


LOST = Attempt("crashed", Failure("killed", "gone"), 0.5, Usage(1))


def test_a_reply_that_is_missing_stays_missing() -> None:
    turn = replace(a_turn_result(), expected=None, actual=Reply(None))
    assert load_run(dump_run(a_run_result(turn))).turns == (turn,)


@pytest.mark.parametrize(
    "row",
    [
        b"",
        b"{}",
        b"2,[]",
        b"2,[],[]",
        b"4,null,[]",
        b'1,[1,"answered",0.5,[],null,null,null,[],false,null,null],[]',
        b'51,[1,"answered",0.5,[],null,null,null,[],false,null,null]',
    ],
)
def test_what_is_no_run_is_refused(row: bytes) -> None:
    with pytest.raises(ValueError, match="is no run"):
        load_run(row)


def test_what_is_no_event_is_refused() -> None:
    row = dump_run(a_run_result(a_turn_result(actual=a_reply("x", ToolCall("t")))))
    run = load_run(row.replace(b"tool_call", b"tool_cull"))
    with pytest.raises(ValueError, match="is no event"):
        _ = run.turns


@given(RUNS)
def test_every_run_is_written_as_it_was_before_it_was_kept(run: RunResult) -> None:
    again = load_run(dump_run(run))
    assert _recorded(again) == _recorded(run)
    assert _recorded(replace(again, confirms=True)) == _recorded(replace(run, confirms=True))


@pytest.mark.parametrize("record", SITUATIONS.values(), ids=list(SITUATIONS))
def test_every_situation_is_written_as_it_was(record: Any) -> None:
    for run in (run for case in record.cases for run in case.runs):
        assert _recorded(load_run(dump_run(run))) == _recorded(run)


def test_what_was_said_is_not_looked_at_until_somebody_asks() -> None:
    run = load_run(dump_run(a_run_result()))
    for read in (lambda: _recorded(run), lambda: run.metrics):
        read()
        with pytest.raises(AttributeError):
            object.__getattribute__(run, "turns")
    assert run.turns is run.turns == a_run_result().turns

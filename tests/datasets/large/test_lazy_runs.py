"""Turns that are decoded later are validated as strictly as others."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import TypeAdapter, ValidationError

from evalgate.core.types import CaseResult, Message, ToolCall, ToolResult
from evalgate.datasets.large.lazy_runs import ShardRun, read_shard_case
from evalgate.datasets.results_io import dump_record
from tests.builders import a_case_result, a_record, a_reply, a_run_result, a_turn_result
from tests.datasets.test_results_io import RUNS

WHOLE = TypeAdapter(CaseResult)
SAID = a_reply(
    "done",
    ToolCall("search", {"n": 1}, author="agent"),
    ToolResult("search", ["x"]),
    Message("one moment", payload={"a": None}),
)


def line_of(case: CaseResult) -> str:
    (line,) = [each for each in dump_record(a_record(case)).splitlines() if each.startswith('{"eval_set_id"')]
    return line


CASE = a_case_result(runs=(a_run_result(a_turn_result(actual=SAID)), a_run_result(run=2)))
LINE = line_of(CASE)


@settings(max_examples=60, deadline=None)
@given(RUNS)
def test_what_was_said_is_there_once_it_is_asked_for(run: Any) -> None:
    case = replace(CASE, runs=(run, *CASE.runs))
    found = read_shard_case(line_of(case).encode())
    assert all(isinstance(each, ShardRun) for each in found.runs)
    assert [each.turns for each in found.runs] == [each.turns for each in case.runs]
    assert (found, found.runs) == (case, case.runs)
    assert case.runs == found.runs


def test_a_run_is_not_made_of_what_was_said_before_that() -> None:
    run = read_shard_case(LINE.encode()).runs[0]
    with pytest.raises(AttributeError):
        object.__getattribute__(run, "turns")
    assert run.turns is run.turns
    assert object.__getattribute__(run, "turns") == CASE.runs[0].turns


@settings(max_examples=60, deadline=None)
@given(RUNS)
def test_the_scores_of_turns_are_there_without_what_was_said(run: Any) -> None:
    (found,) = read_shard_case(line_of(replace(CASE, runs=(run,))).encode()).runs
    assert isinstance(found, ShardRun)
    assert found.turn_scores is not None
    assert [*found.turn_scores] == [(each.name, each.score) for turn in run.turns for each in turn.metrics]
    with pytest.raises(AttributeError):
        object.__getattribute__(found, "turns")
    assert isinstance(changed := replace(found, confirms=True), ShardRun)
    assert changed.turn_scores is None


def test_a_run_that_is_changed_or_copied_has_its_turns() -> None:
    run = read_shard_case(LINE.encode()).runs[1]
    assert replace(run, confirms=True) == replace(CASE.runs[1], confirms=True)
    assert copy.copy(run) == CASE.runs[1]
    assert not hasattr(run, "no such field")


def test_a_line_is_not_read_again_for_each_of_its_runs() -> None:
    first, second = read_shard_case(LINE.encode()).runs
    assert isinstance(first, ShardRun)
    assert isinstance(second, ShardRun)
    made, written = first.load_turns(), first.load_turn_values()
    assert second.load_turns()
    assert second.load_turn_values()
    assert first.load_turns() is made
    assert first.load_turn_values() is written


REPLACED = [
    ('"user":"How is the weather?"', '"user":7'),
    ('"user":"How is the weather?",', ""),
    ('"expected":', '"expectee":'),
    ('"actual":{', '"actual":7,"act":{'),
    ('"response":"done"', '"response":["done"]'),
    ('"events":[{', '"events":[7,{'),
    ('"type":"message"', '"type":"massage"'),
    ('"text":"one moment"', '"text":null'),
    ('"name":"search"', '"name":1'),
    ('"args":{"n":1}', '"args":[1]'),
    ('"payload":{"a":null}', '"payload":"a"'),
    ('"turns":[{', '"turns":[[],{'),
    ('"turns":[', '"turns":{},"turnips":['),
    ('"turns":[', '"turnips":['),
    ('{"n":1}', '{"n":1'),
    ('{"n":1}', '{"n":01}'),
    ('"done"', '"do\x01ne"'),
    ('"done"', '"do\\ud800ne"'),
    ('"outcome":"answered"', '"outcome":"dozed"'),
    ('"run":1', '"run":"1"'),
]


@pytest.mark.parametrize(("was", "becomes"), REPLACED)
def test_a_damaged_line_is_refused_wherever_it_is(was: str, becomes: str) -> None:
    damaged = LINE.replace(was, becomes).encode()
    assert was in LINE
    with pytest.raises(ValidationError):
        WHOLE.validate_json(damaged, strict=True)
    with pytest.raises(ValueError, match="ShardCase"):
        read_shard_case(damaged)


@pytest.mark.parametrize(
    "value",
    ["NaN", "-Infinity", "1" + "0" * 400, "1" + "0" * 5000, "1e999", "-0.0", '"\\u202e\\ud83d\\ude00"'],
)
def test_odd_values_are_taken_or_refused_as_by_who_reads_the_whole(value: str) -> None:
    line = LINE.replace('"n":1', f'"n":{value}').encode()
    try:
        whole = WHOLE.validate_json(line, strict=True)
    except ValidationError:
        with pytest.raises(ValueError, match="ShardCase"):
            read_shard_case(line)
    else:
        assert repr(read_shard_case(line).runs[0].turns) == repr(whole.runs[0].turns)

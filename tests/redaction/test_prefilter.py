"""The prefilter of stored JSON misses nothing that a search of every text finds."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalgate.core.types import Failure, RunResult
from evalgate.redaction.live_redactor import JsonPrefilter, LiveRedactor
from evalgate.redaction.redactor import Redactor
from evalgate.runner.checkpoint.row_codec import dump_run
from tests.builders import a_case_result, a_record, a_reply, a_run_result, a_turn_result
from tests.redaction.test_laws import PIECES
from tests.redaction.test_nested_data import CANARY, KEYS

ODD = 'canary "quoted" \\ back\nline é'
REDACTOR = Redactor.from_environment({"A_TOKEN": CANARY, "B_SECRET": ODD})
TEXTS = (
    st.text(max_size=8)
    | st.lists(PIECES, max_size=6).map("".join)
    | st.sampled_from(
        [CANARY, "canary-\u200bvalue-1", ODD, ":", ":password", '"', "\\", "\x01", "::add-mask::x1y2z3"]
    )
)
NAMES = KEYS | TEXTS
DATA = st.recursive(
    TEXTS | st.none() | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=10,
)


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@example({"password": "$password=hunter2"})
@example({":max_token": "hunter2x"})
@example({":": {":password": "hunter2x"}})
@example([":", {":api_key": "abc123def"}])
@example({"a": '","password":"'})
@example({'api"key': "x", "apikey\n": "y"})
@example([ODD])
@example("password=\\hunter2")
@given(DATA)
def test_what_it_calls_clean_is_clean(value: Any) -> None:
    if JsonPrefilter(REDACTOR).is_clean([compact(value)]):
        heard: list[str] = []
        assert REDACTOR.redact_tree([value], heard.append) == [value]
        assert "add-mask" not in compact(value).lower()


@given(st.lists(DATA, min_size=2, max_size=5))
def test_what_it_has_seen_does_not_blind_it(values: list[Any]) -> None:
    look = JsonPrefilter(REDACTOR)
    for value in values:
        if look.is_clean([compact(value)]):
            assert REDACTOR.redact_tree([value]) == [value]


@pytest.mark.parametrize(
    "value",
    [
        "word",
        {"query": "red shoes", "limit": 3, "tags": ["a", "b"], "nested": {"deep": None}},
        'She said "no".\n\tTwice.',
        "größer – 👍",
        ["same", "same", {"same": "same"}],
        [[["x"]]] * 100,
    ],
)
def test_ordinary_data_is_clean_at_first_sight(value: object) -> None:
    look = JsonPrefilter(REDACTOR)
    assert look.is_clean([compact(value)])
    assert look.is_clean([compact(value)])


def test_what_is_deep_is_left_to_others() -> None:
    deep: object = "x"
    for _ in range(160):
        deep = [deep]
    assert not JsonPrefilter(Redactor()).is_clean([compact(deep)])


def looked_at(redactor: LiveRedactor, run: RunResult) -> RunResult:
    (hidden,) = redactor.redact_many([(run, dump_run(run).decode())])
    return hidden


@given(st.lists(DATA, min_size=2, max_size=5))
def test_what_it_calls_clean_together_is_clean_one_by_one(values: list[Any]) -> None:
    if JsonPrefilter(REDACTOR).is_clean([compact(value) for value in values]):
        for value in values:
            assert REDACTOR.redact_tree([value]) == [value]


def test_of_many_parts_only_those_with_a_secret_change() -> None:
    told = a_run_result(a_turn_result(actual=a_reply(f"my key is {CANARY}")))
    runs = [a_run_result(run=1), told, a_run_result(run=3)]
    first, hidden, last = LiveRedactor(REDACTOR).redact_many([(run, dump_run(run).decode()) for run in runs])
    assert (first is runs[0], last is runs[2]) == (True, True)
    assert hidden.turns[0].actual == a_reply("my key is ***")


def test_many_parts_that_hold_nothing_are_not_looked_at_again() -> None:
    runs = tuple(a_run_result(a_turn_result(f"question {number}"), run=number) for number in range(1, 100))
    redactor = LiveRedactor(REDACTOR)
    assert redactor.redact_many([(run, dump_run(run).decode()) for run in runs]) == list(runs)
    record = a_record(a_case_result(runs=runs))
    assert redactor.redact_tree(record) is record


def test_a_part_that_was_looked_at_is_not_looked_at_again() -> None:
    run = a_run_result()
    redactor = LiveRedactor(REDACTOR)
    assert looked_at(redactor, run) is run
    record = a_record(a_case_result(runs=(run,)))
    assert redactor.redact_tree(record) is record


def test_a_part_with_a_secret_is_hidden_at_once_and_in_the_whole() -> None:
    run = a_run_result(a_turn_result(actual=a_reply(f"my key is {CANARY}")))
    redactor = LiveRedactor(REDACTOR)
    hidden = looked_at(redactor, run)
    assert hidden.turns[0].actual == a_reply("my key is ***")
    assert CANARY not in str(redactor.redact_tree(a_record(a_case_result(runs=(run,)))))


def test_a_secret_that_is_announced_later_is_hidden_in_parts_that_were_clean_before() -> None:
    early = a_run_result(a_turn_result(actual=a_reply("I saw zebra-crossing-77")))
    late = a_run_result(outcome="crashed", failure=Failure("exited", "x", "::add-mask::zebra-crossing-77"))
    redactor = LiveRedactor(REDACTOR)
    assert looked_at(redactor, early) is early
    looked_at(redactor, late)
    record = a_record(a_case_result("a", runs=(early,)), a_case_result("b", runs=(late,)))
    assert "zebra" not in str(redactor.redact_tree(record))


def test_an_announcement_anywhere_in_the_whole_reaches_parts_that_were_clean_before() -> None:
    early = a_run_result(a_turn_result(actual=a_reply("I saw zebra-crossing-77")))
    redactor = LiveRedactor(REDACTOR)
    assert looked_at(redactor, early) is early
    record = a_record(a_case_result(runs=(early,)), notices=("::add-mask::zebra-crossing-77",))
    heard_in_case = a_case_result("::add-mask::zebra-crossing-77")
    assert "zebra" not in str(redactor.redact_tree(a_record(*record.cases, heard_in_case)))

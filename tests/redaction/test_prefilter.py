"""The prefilter of stored JSON misses nothing that a search of every text finds."""

import base64
import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from evalgate.core.types import Failure, RunResult
from evalgate.redaction import patterns
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.redaction.prefilter import JsonPrefilter
from evalgate.redaction.redactor import Redactor
from evalgate.runner.checkpoint.row_codec import dump_run
from tests.builders import a_case_result, a_record, a_reply, a_run_result, a_turn_result
from tests.redaction.test_laws import CONTEXTS, PIECES, TOKENS
from tests.redaction.test_nested_data import CANARY, KEYS

ODD = 'canary "quoted" \\ back\nline é'
REDACTOR = Redactor.from_environment({"A_TOKEN": CANARY, "B_SECRET": ODD})
PREFILTER = JsonPrefilter(REDACTOR.needles)
MORE_PIECES = [
    *TOKENS,
    *(base64.b64encode(token.encode()).decode() for token in TOKENS),
    *(quote(token, safe="") for token in TOKENS),
    *("\t", "-", "_", "s", "2", "Id", "value", "name", "=>", "->", ">", ",", "%3D", "u003d", "b", "…", "..."),
    *(
        "digest ",
        "basic ",
        "-u",
        "--user ",
        "İ",
        "\u212a",
        "ı",
        "é",
        "add-mask",
        "auth",
        "Key",
        "KEY",
        "Pass",
    ),
    *("webhook", "cookie", "apiKey", "max_", "iz", "x1y2z3", "abcdef", "Zürich9", "12345678"),
]
TEXTS = (
    st.text(max_size=8)
    | st.lists(PIECES | st.sampled_from(MORE_PIECES), max_size=6).map("".join)
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


def compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


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
    if PREFILTER.is_clean(compact(value)):
        heard: list[str] = []
        assert REDACTOR.redact_tree([value], heard.append) == [value]
        assert b"add-mask" not in compact(value).lower()


@pytest.mark.parametrize("sign", [sign for sign in patterns.SHAPES if sign != patterns.PRIVATE_KEY])
@settings(max_examples=3)
@given(st.data(), CONTEXTS, CONTEXTS)
def test_it_finds_every_shape_of_a_token(sign: str, data: st.DataObject, before: str, after: str) -> None:
    token = data.draw(st.from_regex(patterns.SHAPES[sign]))
    assume(re.search(patterns.SHAPES[sign], f"{before}\n{token}{after}"))
    assert not PREFILTER.is_clean(compact(f"{before}\n{token}{after}"))


@given(NAMES | st.lists(st.sampled_from(MORE_PIECES), max_size=3).map("".join), TEXTS)
def test_it_finds_every_key_that_names_a_secret(key: str, value: str) -> None:
    if patterns.is_secret_value(key, value):
        assert not PREFILTER.is_clean(compact({key: [1, value]}))
        assert not PREFILTER.is_clean(compact({key: value}))


@pytest.mark.parametrize(
    "value",
    [
        "word",
        "The key is: ask for the author's token. task-oriented, e.g. Unfortunately...",
        {"path": "/home/a", "max_tokens": 12, "author": "x1", "passed": "2 of 3"},
        {"query": "red shoes", "limit": 3, "tags": ["a", "b"], "nested": {"deep": None}},
        'She said "no".\n\tTwice.',
        "größer – 👍",
        ["same", "same", {"same": "same"}],
        [[["x"]]] * 100,
    ],
)
def test_ordinary_data_is_clean_at_first_sight(value: object) -> None:
    assert PREFILTER.is_clean(compact(value))


def test_what_is_deep_is_left_to_others() -> None:
    deep: object = "x"
    for _ in range(160):
        deep = [deep]
    assert not PREFILTER.is_clean(compact(deep))


def looked_at(redactor: LiveRedactor, run: RunResult) -> RunResult:
    (hidden,) = redactor.redact_many([(run, dump_run(run))])
    return hidden


def test_of_many_parts_only_those_with_a_secret_change() -> None:
    told = a_run_result(a_turn_result(actual=a_reply(f"my key is {CANARY}")))
    runs = [a_run_result(run=1), told, a_run_result(run=3)]
    first, hidden, last = LiveRedactor(REDACTOR).redact_many([(run, dump_run(run)) for run in runs])
    assert (first is runs[0], last is runs[2]) == (True, True)
    assert hidden.turns[0].actual == a_reply("my key is ***")


def test_many_parts_that_hold_nothing_are_not_looked_at_again() -> None:
    runs = tuple(a_run_result(a_turn_result(f"question {number}"), run=number) for number in range(1, 100))
    redactor = LiveRedactor(REDACTOR)
    assert redactor.redact_many([(run, dump_run(run)) for run in runs]) == list(runs)
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


@pytest.mark.parametrize("notice", ["This change edits refunds.json", "This change edits refu\u200bnds.json"])
def test_no_announcement_hides_a_notice_of_the_gate(notice: str) -> None:
    announced = "::add-mask::This change edits refunds.json\n::add-mask::zebra-crossing-77"
    run = a_run_result(a_turn_result(actual=a_reply(f"{announced}\nI saw zebra-crossing-77")))
    redactor = LiveRedactor(REDACTOR)
    redactor.protect_notices((notice,))

    record = redactor.redact_tree(a_record(a_case_result(runs=(run,)), notices=(notice,)))

    assert record.notices == (notice,)
    assert "zebra" not in str(record)
    assert redactor.redact_text(notice, record) == notice

"""A result is the same baseline in any layout; in evalgate's own layout it is read case by case."""

import json

import pytest
from hypothesis import given, settings

from evalgate.baselines.history import build_baseline
from evalgate.baselines.serialization import load_baseline_or_results
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Record
from evalgate.datasets.results_io import dump_record, load_record
from tests.builders import a_case_result, a_record, a_reply, a_run_result, a_turn_result
from tests.datasets.test_results_io import RECORDS


def read(text: str) -> object:
    return load_baseline_or_results(text.encode(), "results.json")


@settings(max_examples=50, deadline=None)
@given(RECORDS)
def test_the_layout_of_a_result_makes_no_difference(record: Record) -> None:
    text = dump_record(record)
    found = load_baseline_or_results(text.encode(), "results.json")
    assert found == read(json.dumps(json.loads(text)))
    assert found == build_baseline(load_record(text, ""), path="results.json")


def test_the_first_run_that_was_answered_says_what_the_agent_did() -> None:
    crashed = a_run_result(run=1, outcome="crashed")
    answered = a_run_result(a_turn_result(actual=a_reply("There is none.")), run=2)
    case = a_case_result("a", runs=(crashed, answered))
    found = load_baseline_or_results(dump_record(a_record(case)).encode(), "results.json")
    assert found.cases[0].replies == (a_reply("There is none."),)


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ('"eval_id":"b"', '"eval_id":7', r"results.json:42:35: cases\[1\].eval_id: .* valid string"),
        ('{"eval_set_id"', '{{"eval_set_id"', "results.json:.*"),
        ('"schema_version": 1', '"schema_version": 99', "newer evalgate"),
    ],
)
def test_what_is_wrong_is_told_as_of_any_result(good: str, bad: str, message: str) -> None:
    text = dump_record(a_record(a_case_result("a"), a_case_result("b")))
    assert good in text
    with pytest.raises(InvalidInputError, match=message):
        read(text.replace(good, bad))

"""Review of observed cases, in files that cannot be edited in place."""

import json
from pathlib import Path

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.datasets.case_review import drop_cases, format_case_json, open_review, replace_case_json

OLD = "old.evalset.json"


def test_a_case_of_an_old_format_is_not_corrected_and_the_way_out_is_named(tmp_path: Path) -> None:
    rows = [
        {"name": name, "data": [{"query": "Hi", "reference": "Hello"}], "initial_session": {}}
        for name in "ab"
    ]
    (tmp_path / OLD).write_text(json.dumps(rows))
    (tmp_path / "old.cases.yaml").write_text("cases: {a: {status: observed}}\n")
    review = open_review(tmp_path / OLD, OLD)
    assert [case.eval_id for case in review.open_cases] == ["a"]
    sentence = (
        "old.evalset.json: has the format adk-legacy: convert it first: "
        "`evalgate convert old.evalset.json --to adk --out NEW.evalset.json`"
    )
    for attempt in (
        lambda: format_case_json(review, "a"),
        lambda: replace_case_json(review, "a", "{}"),
        lambda: drop_cases(review, ["a"]),
    ):
        with pytest.raises(InvalidInputError) as error:
            attempt()
        assert str(error.value) == sentence
    with pytest.raises(InvalidInputError, match="there is no case 'c'"):
        format_case_json(review, "c")

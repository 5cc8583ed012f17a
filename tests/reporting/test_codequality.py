"""GitLab's Code Quality report."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from evalgate.core.types import CaseMetric, CaseResult, Failure, Quarantine, Record
from evalgate.reporting.codequality import CodeQualityReport
from tests.builders import RESPONSE, TRAJECTORY, a_case_result, a_record, a_run_result
from tests.situations import GOLDEN, HOSTILE, green, huge, regression

SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "additionalProperties": False,
        "properties": {
            "description": {"type": "string", "minLength": 1, "maxLength": 1000},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": r"^(?!\.{0,2}/)[^\n]+$"},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}
"""The form that GitLab documents, and what we hold ourselves to within it."""

TEXT = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    [HOSTILE, "", "../../etc", "/x"]
)


def issues(record: Record, folder: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(CodeQualityReport(folder).render(record))
    Draft202012Validator(SCHEMA).validate(found)
    prints = [each["fingerprint"] for each in found]
    assert len(set(prints)) == len(prints)
    return found


def failed(eval_id: str = "paris") -> CaseResult:
    metrics = (
        CaseMetric(TRAJECTORY, 0.5, 1.0, "failed", "call 2 differs"),
        CaseMetric(RESPONSE, None, 0.8, "errored", "the judge broke"),
        CaseMetric("safety_v1", 1.0, 1.0, "passed"),
    )
    return a_case_result(eval_id, "failed", metrics=metrics, line=17)


@pytest.mark.parametrize("situation", GOLDEN.values(), ids=list(GOLDEN))
def test_every_situation_has_the_form_that_gitlab_reads(situation: object) -> None:
    assert callable(situation)
    issues(situation())


def test_a_green_run_has_no_issues() -> None:
    assert CodeQualityReport().render(green()) == "[]\n"


def test_each_failed_metric_is_an_issue_on_the_line_of_the_case() -> None:
    first, second = issues(a_record(failed()), folder="services/desk")
    assert first | {"fingerprint": ""} == {
        "description": f"travel/paris: {TRAJECTORY} 0.50 < 1.00: call 2 differs",
        "check_name": f"evalgate/{TRAJECTORY}",
        "fingerprint": "",
        "severity": "major",
        "location": {"path": "services/desk/evals/travel.evalset.json", "lines": {"begin": 17}},
    }
    assert second["check_name"] == f"evalgate/{RESPONSE}"


def test_an_agent_that_crashed_is_one_issue_under_that_name() -> None:
    run = a_run_result(outcome="crashed", failure=Failure("exception", "ValueError: no"))
    (issue,) = issues(a_record(replace(failed(), status="errored", runs=(run,))))
    assert issue["check_name"] == "evalgate/crashed"
    assert issue["severity"] == "critical"
    assert "ValueError: no" in issue["description"]


def test_a_newly_failing_case_is_a_blocker() -> None:
    severities = {each["description"].split(":")[0]: each["severity"] for each in issues(regression())}
    assert severities == {"travel/paris": "blocker", "travel/rome": "major"}


def test_a_quarantined_case_is_no_issue() -> None:
    quarantined = replace(failed(), quarantine=Quarantine("anna", "flaky", "2026-12-31"))
    assert issues(a_record(quarantined)) == []


def test_the_fingerprint_stays_when_scores_lines_and_reasons_change() -> None:
    metrics = (CaseMetric(TRAJECTORY, 0.1, 1.0, "failed", "another reason"),)
    (before, _), (after,) = (
        issues(a_record(failed())),
        issues(a_record(replace(failed(), metrics=metrics, line=99))),
    )
    assert before["fingerprint"] == after["fingerprint"]
    assert before["description"] != after["description"]


def test_the_folder_of_the_gate_is_part_of_the_path_and_not_of_the_fingerprint() -> None:
    record = a_record(failed())
    here, there = issues(record), issues(record, "sub")
    assert [each["fingerprint"] for each in here] == [each["fingerprint"] for each in there]


@pytest.mark.parametrize(
    ("folder", "path", "expected"),
    [
        ("", "./evals/a.json", "evals/a.json"),
        ("sub", "../evals/a.json", "evals/a.json"),
        ("", "../../outside.json", "outside.json"),
        ("", "/abs/a.json", "abs/a.json"),
        ("", "", "unknown"),
        ("", "a\u202enosj.e\x1b[31m\nb", "anosj.e b"),
    ],
)
def test_the_path_stays_in_the_repository(folder: str, path: str, expected: str) -> None:
    assert {each["location"]["path"] for each in issues(a_record(replace(failed(), path=path)), folder)} == {
        expected
    }


@settings(deadline=None)
@given(TEXT, TEXT, TEXT, TEXT)
def test_any_text_makes_a_valid_report(eval_id: str, eval_set_id: str, text: str, path: str) -> None:
    one = replace(failed(eval_id), eval_set_id=eval_set_id, path=path)
    named = (CaseMetric(text, 0.0, 1.0, "failed", text),)
    record = a_record(one, replace(one, eval_id=eval_id + "2", metrics=named))
    rendered = CodeQualityReport(text).render(record)
    issues(record, text)
    assert not re.search(r"(?m)##(\[|vso\[)|^\s*::", rendered)
    assert rendered.isascii()


def test_each_issue_is_a_line() -> None:
    assert len(CodeQualityReport().render(huge(300)).splitlines()) == 2 * 300 + 2

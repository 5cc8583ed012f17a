from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import junit_xml
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from evalgate.core.types import CaseMetric, Failure, Record, Status, Verdict
from evalgate.reporting.junit import JUnitReport
from tests.builders import a_case_result, a_record, a_run_result
from tests.conformance import shared_folder
from tests.situations import GOLDEN, HOSTILE, huge

TEXT = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    [HOSTILE, "", " ", "evalgate"]
)
STRICT_ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {
        "name",
        "tests",
        "failures",
        "errors",
        "time",
        "skipped",
        "timestamp",
        "file",
        "hostname",
        "id",
    },
    "testcase": {"name", "time", "classname", "group"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
}
"""What the stricter of the schemas in use allows; the lenient one allows more."""


@cache
def _schemas() -> list[etree.XMLSchema]:
    folder = shared_folder()
    paths = sorted((folder / "tools/junit_xsd").glob("*.xsd")) if folder else list[Path]()
    return [etree.XMLSchema(etree.parse(str(path))) for path in paths]


def parsed(record: Record) -> etree._Element:
    """The report as XML, checked against every schema that is at hand and against the strict one's attributes."""
    root = etree.fromstring(JUnitReport().render(record).encode())
    for schema in _schemas():
        schema.assertValid(root)
    for element in root.iter():
        assert set(map(str, element.attrib)) <= STRICT_ATTRIBUTES[str(element.tag)]
    return root


def cases_of(root: etree._Element) -> Iterator[tuple[str, str, list[str]]]:
    for case in root.iter("testcase"):
        yield case.get("classname", ""), case.get("name", ""), [str(child.tag) for child in case]


@pytest.mark.parametrize("situation", GOLDEN.values(), ids=list(GOLDEN))
def test_every_situation_is_valid(situation: object) -> None:
    assert callable(situation)
    parsed(situation())


@given(TEXT, st.sampled_from([0.0, 0.0004, 1.5]))
def test_a_passed_test_is_what_junit_xml_writes(eval_id: str, seconds: float) -> None:
    case = a_case_result(eval_id, runs=(a_run_result(duration_s=seconds),))
    report = JUnitReport().render(a_record(case))
    line = next(line for line in report.split("\n") if "<testcase" in line)
    read = etree.fromstring(line)
    test = junit_xml.TestCase(read.get("name"), read.get("classname"), seconds)
    (element,) = junit_xml.TestSuite("any", [test]).build_xml_doc()
    element.set("time", f"{seconds:.3f}")
    assert ET.tostring(element, encoding="unicode") == line.strip()


@given(TEXT, TEXT, TEXT)
def test_any_text_makes_a_valid_report(eval_id: str, eval_set_id: str, reason: str) -> None:
    failure = Failure("exception", reason, reason)
    failed = a_case_result(
        eval_id, "failed", eval_set_id=eval_set_id, metrics=(CaseMetric(reason, 0.0, 1.0, "failed", reason),)
    )
    crashed = replace(
        failed, status="errored", runs=(a_run_result(outcome="crashed", failure=failure),), path=reason
    )
    skipped = replace(failed, status="not_evaluated")
    record = a_record(failed, crashed, skipped, verdict=Verdict("error", 3, (reason,)))
    names = list(cases_of(parsed(record)))
    assert len({(classname, name) for classname, name, _ in names}) == len(names) == 4


@pytest.mark.parametrize(
    ("status", "children"),
    [("passed", []), ("failed", ["failure"]), ("errored", ["error"]), ("not_evaluated", ["skipped"])],
)
def test_each_status_is_one_child(status: Status, children: list[str]) -> None:
    assert next(cases_of(parsed(a_record(a_case_result("weather", status))))) == (
        "travel",
        "weather",
        children,
    )


@pytest.mark.parametrize(
    ("verdict", "children"),
    [
        (Verdict("pass", 0), []),
        (Verdict("inconclusive", 0, ("The data cannot tell.",)), []),
        (Verdict("inconclusive", 4, ("The data cannot tell.",)), ["error"]),
        (Verdict("fail", 1, ("It is worse.",)), ["failure"]),
        (Verdict("error", 3, ()), ["error"]),
        (Verdict("error", 130, ("Interrupted.",)), ["error"]),
    ],
)
def test_junit_is_red_exactly_when_the_gate_is(verdict: Verdict, children: list[str]) -> None:
    record = a_record(a_case_result("quiet", "not_evaluated"), verdict=verdict)
    assert list(cases_of(parsed(record)))[-1] == ("evalgate", "gate", children)


def test_a_failure_names_metric_place_and_reason_in_message_and_text() -> None:
    tests = parsed(GOLDEN["regression"]()).iter("testcase")
    (failure,) = next(test for test in tests if test.get("name") == "paris")
    text = failure.text or ""
    first = "tool_trajectory_avg_score 0.50 < 1.00: call 2 differs in its arguments"
    assert failure.get("message", "").startswith(first)
    assert text.startswith(first)
    assert "at evals/travel.evalset.json:17" in text
    assert '- get_weather(city="Paris", unit="C")   <- first divergence' in text


def test_equal_names_are_numbered() -> None:
    record = a_record(a_case_result("x"), a_case_result("x"), a_case_result("x [2]"), a_case_result("x"))
    assert [name for _, name, _ in cases_of(parsed(record))] == ["x", "x [2]", "x [2] [2]", "x [3]", "gate"]


def test_an_eval_set_called_evalgate_does_not_hide_the_gate() -> None:
    root = parsed(a_record(a_case_result("gate", eval_set_id="evalgate")))
    assert [(classname, name) for classname, name, _ in cases_of(root)] == [
        ("evalgate [2]", "gate"),
        ("evalgate", "gate"),
    ]


def test_times_add_up_with_three_decimals() -> None:
    case = a_case_result(runs=(a_run_result(duration_s=0.12345), a_run_result(duration_s=1, run=2)))
    (suite, _gate) = parsed(a_record(case, a_case_result("b")))
    assert suite.get("time") == "1.623"
    assert [test.get("time") for test in suite] == ["1.123", "0.500"]
    assert suite.get("timestamp") == "2026-11-20T08:30:00"


def test_a_huge_run_has_no_details_after_the_first_thousand() -> None:
    text = JUnitReport().render(huge(1200))
    assert text.count("first divergence") == 1000
    assert text.count("details: see results.json") == 200

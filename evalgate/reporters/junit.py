"""`junit.xml`, for the test tab of every CI system.

One `testsuite` for each eval set, one `testcase` for each case, and a last suite `evalgate` whose only test,
`gate`, carries the verdict: a consumer that reads nothing but JUnit is red exactly when the gate is not open.

The package junit-xml knows the format; its gaps are fenced here. It writes characters that XML forbids, an
attribute `disabled` that the strict schema forbids, and times with six decimals where three are allowed.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from evalgate.hostile import block, one_line, xml_text
from evalgate.model import CaseResult, Record, TurnResult
from evalgate.scoring.trajectory import trajectory_diff
from evalgate.telling.findings import Finding, faults, findings, not_evaluated_because
from evalgate.telling.quarantines import until

if TYPE_CHECKING:
    from junit_xml import TestCase, TestSuite

GATE = "evalgate"

_LONGEST_TEXT = 8000
_LONGEST_NAME = 500
_DETAILED = 1000  # failing cases: a report of more than 30 MB is refused by GitLab


class JUnit:
    """JUnit XML that is valid whatever the agent wrote."""

    file_name = "junit.xml"

    def render(self, record: Record) -> str:
        """The whole document, on a few long lines."""
        document = ET.Element("testsuites")
        for suite in (*_suites(record), _gate_suite(record)):
            document.append(_element(suite))
        ET.indent(document, " ")
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(document, encoding="unicode") + "\n"


def _element(suite: "TestSuite") -> ET.Element:
    element: ET.Element = suite.build_xml_doc()
    element.attrib.pop("disabled", None)
    element.set("time", _seconds(sum(case.elapsed_sec for case in suite.test_cases)))
    for test, case in zip(element.iter("testcase"), suite.test_cases, strict=True):
        test.set("time", _seconds(case.elapsed_sec))
    return element


def _seconds(duration: float) -> str:
    return f"{max(duration, 0.0):.3f}"


def _suites(record: Record) -> "Iterator[TestSuite]":
    from junit_xml import TestSuite

    detailed = {id(finding.case) for finding in findings(record)[:_DETAILED]}
    grouped: dict[tuple[str, str], list[CaseResult]] = {}
    for case in record.cases:
        grouped.setdefault((case.path, case.eval_set_id), []).append(case)
    names = _Unique(GATE)
    for (path, eval_set_id), cases in grouped.items():
        name = names.name(eval_set_id)
        tests = list(_tests(name, cases, detailed))
        yield TestSuite(name, tests, timestamp=_timestamp(record), file=_attribute(path) if path else None)


def _tests(suite: str, cases: Iterable[CaseResult], detailed: Container[int]) -> "Iterator[TestCase]":
    """`detailed` are the `id()`s of the cases with room for the whole story."""
    from junit_xml import TestCase

    names = _Unique()
    for case in cases:
        test = TestCase(names.name(case.eval_id), suite, sum(run.duration_s for run in case.runs))
        if case.quarantine is not None:
            message = _attribute(f"{case.status}, but quarantined {until(case)}")
            test.add_skipped_info(message, message)
        elif case.status == "failed":
            _add(test.add_failure_info, case, "failed", in_detail=id(case) in detailed)
        elif case.status == "errored":
            _add(test.add_error_info, case, "errored", in_detail=id(case) in detailed)
        elif case.status == "not_evaluated":
            message = _attribute(not_evaluated_because(case))
            test.add_skipped_info(message, message)
        yield test


def _add(add: Any, case: CaseResult, kind: str, *, in_detail: bool) -> None:
    why = list(faults(case)) or [f"the case {kind}"]
    text = "\n".join([*why, *(_where(case) if in_detail else ("details: see results.json",))])
    add(
        _attribute("; ".join(why)), xml_text(block(text, _LONGEST_TEXT, lines=100)), _failure_type(case, kind)
    )


def _failure_type(case: CaseResult, kind: str) -> str:
    """How the agent ended, when it did not answer; else the status of the case."""
    return next((run.outcome for run in case.runs if run.outcome != "answered"), kind)


def _where(case: CaseResult) -> Iterator[str]:
    """The place in the eval set, the turn, and the first divergence."""
    if case.path:
        yield f"at {case.path}:{case.line}" if case.line else f"in {case.path}"
    finding = Finding(case)
    if finding.turn is not None:
        number, turn = finding.turn
        yield f"turn {number}: {one_line(turn.user)}"
        yield from _divergence(turn)
    if finding.run and finding.run.failure and finding.run.failure.detail:
        yield finding.run.failure.detail[-_LONGEST_TEXT // 2 :]


def _divergence(turn: TurnResult) -> Iterator[str]:
    if turn.actual is None:
        return
    expected = turn.expected.tool_calls if turn.expected else ()
    for line in trajectory_diff(expected, turn.actual.tool_calls):
        yield f"{line.sign} {line.text}{'   <- first divergence' if line.diverges else ''}"


def _gate_suite(record: Record) -> "TestSuite":
    from junit_xml import TestCase, TestSuite

    test = TestCase("gate", GATE, 0.0)
    reasons = record.verdict.reasons or (f"the verdict is {record.verdict.status}",)
    message, text = _attribute(reasons[0]), xml_text(block("\n".join(reasons), _LONGEST_TEXT))
    if record.verdict.status == "fail":
        test.add_failure_info(message, text, "gate closed")
    elif record.verdict.status == "error" or record.verdict.exit_code != 0:
        test.add_error_info(message, text, "no verdict")
    return TestSuite(GATE, [test], timestamp=_timestamp(record))


def _timestamp(record: Record) -> str:
    """ISO 8601 without a zone, as the format's users expect; it is UTC."""
    return _attribute(record.created_at.removesuffix("Z").removesuffix("+00:00"))


def _attribute(text: str) -> str:
    return xml_text(one_line(text, _LONGEST_NAME))


class _Unique:
    """Names made different by a number: consumers drop the second test of the same name."""

    def __init__(self, *taken: str) -> None:
        self._seen = Counter(taken)

    def name(self, text: str) -> str:
        wanted = _attribute(text) or "(no name)"
        name = wanted
        while name in self._seen:
            self._seen[wanted] += 1
            name = f"{wanted} [{self._seen[wanted]}]"
        self._seen[name] = 1
        return name

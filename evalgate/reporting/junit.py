"""Render `junit.xml`, for the test tab of every CI system.

There is one `testsuite` for each eval set and one `testcase` for each case. A last suite `evalgate` has a
single test `gate` with the verdict. This test is a failure or an error exactly if the exit code is not 0. A
failing case is a failure or an error even if the gate is open. Cases that are quarantined, observed or not
evaluated are skipped.

The package junit-xml builds the XML elements. This module corrects the faults of that package: characters
that XML forbids, an attribute `disabled` that the strict schema forbids, and times with six decimals instead
of three.
"""

from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from operator import eq
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from xml.etree import ElementTree as ET

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_one_line, to_xml_text, truncate_block
from evalgate.core.types import REPORT_ONLY, CaseKey, CaseResult, Record, TurnResult
from evalgate.metrics.tool_call_matching import diff_trajectories
from evalgate.reporting.findings import Finding, describe_faults, explain_not_evaluated, list_findings
from evalgate.reporting.summary_lines import explain_exemption

if TYPE_CHECKING:
    from junit_xml import TestCase

GATE = "evalgate"

_Kind: TypeAlias = Literal["passed", "failures", "errors", "skipped"]
_AT_ONCE = 500
_LONGEST_TEXT = 8000
_LONGEST_NAME = 500
_DETAILED = 1000  # failing cases: GitLab refuses a report of more than 30 MB


class JUnitReport:
    """The reporter of `junit.xml`. The XML is valid even if the agent wrote characters that XML forbids."""

    file_name = "junit.xml"

    def render(self, record: Record) -> str:
        """Return the whole document."""
        return "".join(self.iter_chunks(record))

    def iter_chunks(self, record: Record) -> Iterator[str]:
        """Yield the document in pieces, so that a large document is never in memory as a whole."""
        yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n'
        for suite in (*_build_suites(record), _build_gate_suite(record)):
            yield from suite.iter_lines()
        yield "</testsuites>\n"


@frozen
class _TestSuite:
    """The tests of one eval set.

    The XML elements are made a few at a time, because they take many times the memory of their text.
    """

    name: str
    tests: "Iterator[TestCase | str]"
    """The tests, at least one. To save time and memory, a passed test is a line of XML, not a `TestCase`."""
    counts: Mapping[str, int]
    """Number of tests by XML attribute of the suite: `errors`, `failures`, `skipped`, and `tests` for all."""
    seconds: float
    timestamp: str
    file: str | None = None

    def iter_lines(self) -> Iterator[str]:
        """Yield the XML of the suite in pieces. Call this method only once, because it uses up `tests`."""
        counts = {name: str(count) for name, count in self.counts.items()}
        # junit-xml would count 0 tests, because this element has none yet: `counts` replaces its numbers.
        attributes = {**self._build_element([]).attrib, **counts, "time": _format_seconds(self.seconds)}
        start = ET.tostring(ET.Element("testsuite", attributes), encoding="unicode")
        yield f" {start.removesuffix(' />')}>\n"
        while batch := list(islice(self.tests, _AT_ONCE)):
            element = self._build_element([test for test in batch if not isinstance(test, str)])
            others = map(_format_test, element.iter("testcase"))
            yield "".join([test if isinstance(test, str) else next(others) for test in batch])
        yield " </testsuite>\n"

    def _build_element(self, tests: "list[TestCase]") -> ET.Element:
        from junit_xml import TestSuite

        suite = TestSuite(self.name, tests, timestamp=self.timestamp, file=self.file)
        element: ET.Element = suite.build_xml_doc()
        # The strict schema of JUnit reports has no such attribute.
        element.attrib.pop("disabled", None)
        for test, case in zip(element.iter("testcase"), tests, strict=True):
            test.set("time", _format_seconds(case.elapsed_sec))
        return element


def _format_test(element: ET.Element) -> str:
    """Return a test as indented XML that ends in a newline."""
    ET.indent(element, " ", level=2)
    return f"  {ET.tostring(element, encoding='unicode')}\n"


def _format_passed_test(name: str, suite: str, duration: float) -> str:
    """Return a passed test as one line of XML. To build an XML element would take ten times the time."""
    seconds, suite = f'time="{_format_seconds(duration)}"', f'classname="{_escape_attribute(suite)}"'
    # junit-xml writes no time of 0, so that `_build_element` adds it as the last attribute.
    attributes = f"{seconds} {suite}" if duration else f"{suite} {seconds}"
    return f'  <testcase name="{_escape_attribute(name)}" {attributes} />\n'


def _escape_attribute(text: str) -> str:
    # `xml.sax.saxutils` does the same, but imports an HTTP client.
    return escape(text, quote=False).replace('"', "&quot;")


def _format_seconds(duration: float) -> str:
    return f"{max(duration, 0.0):.3f}"


def _build_suites(record: Record) -> Iterator[_TestSuite]:
    findings = list_findings(record)
    detailed = {id(finding.case) for finding in findings[:_DETAILED]}
    labels = _list_labels(record) if findings else {}
    control_sentences = {case.key: case.sentence for case in record.control.cases} if record.control else {}
    grouped: dict[tuple[str, str], list[CaseResult]] = {}
    for case in record.cases:
        grouped.setdefault((case.path, case.eval_set_id), []).append(case)
    names = _UniqueNames(GATE)
    for (path, eval_set_id), cases in grouped.items():
        name = names.choose_name(eval_set_id)
        yield _TestSuite(
            name,
            _build_tests(name, cases, detailed, labels, control_sentences),
            _count_kinds(map(_classify_case, cases)),
            sum(map(_sum_durations, cases)),
            _format_timestamp(record),
            _to_attribute(path) if path else None,
        )


def _classify_case(case: CaseResult) -> _Kind:
    if not case.gates or case.status == "not_evaluated":
        return "skipped"
    return "failures" if case.status == "failed" else "errors" if case.status == "errored" else "passed"


def _count_kinds(kinds: Iterable[_Kind]) -> Mapping[str, int]:
    counts = Counter(kinds)
    return {name: counts[name] for name in ("errors", "failures", "skipped")} | {"tests": counts.total()}


def _sum_durations(case: CaseResult) -> float:
    return sum(run.duration_s for run in case.runs)


def _build_tests(
    suite: str,
    cases: Sequence[CaseResult],
    detailed: Container[int],
    labels: Mapping[CaseKey, str],
    control_sentences: Mapping[CaseKey, str],
) -> "Iterator[TestCase | str]":
    """Yield the tests of a suite: a line of XML for a passed case, else a `TestCase`.

    `detailed` has `id(case)` of each case to describe in detail. `labels` has the first divergence
    (unexpected behaviour) of failing cases in words. `control_sentences` has a sentence for each case with
    control runs (runs of the base commit's agent): it states the result of these runs.
    """
    from junit_xml import TestCase

    for case, name in zip(cases, _name_tests(cases), strict=True):
        kind = _classify_case(case)
        if kind == "passed":
            yield _format_passed_test(name, suite, _sum_durations(case))
            continue
        test = TestCase(name, suite, _sum_durations(case))
        label, control_sentence = labels.get(case.key, kind), control_sentences.get(case.key, "")
        match kind:
            case "failures":
                _add_failure(
                    test.add_failure_info, case, label, control_sentence, in_detail=id(case) in detailed
                )
            case "errors":
                _add_failure(
                    test.add_error_info, case, label, control_sentence, in_detail=id(case) in detailed
                )
            case "skipped":
                reason = (
                    explain_not_evaluated(case)
                    if case.gates
                    else f"{case.status}, but {explain_exemption(case)}"
                )
                message = _to_attribute(reason)
                test.add_skipped_info(message, message)
        yield test


def _list_labels(record: Record) -> dict[CaseKey, str]:
    """Return the first divergence of each failing case in words, for the failure's `type` in JUnit."""
    from evalgate.gating.failure_groups import list_failure_groups

    return {
        key: _to_attribute(group.label.replace("`", ""))
        for group in list_failure_groups(record)
        for key in group.cases
    }


def _add_failure(add: Any, case: CaseResult, label: str, control_sentence: str, *, in_detail: bool) -> None:
    faults = list(describe_faults(case)) or [f"the case {case.status}"]
    faults += [control_sentence] if control_sentence else []
    text = "\n".join([*faults, *(_describe_failure(case) if in_detail else ("details: see results.json",))])
    # junit-xml does not count a failure without a message.
    message = _to_attribute("; ".join(faults)) or case.status
    add(message, to_xml_text(truncate_block(text, _LONGEST_TEXT, lines=100)), label)


def _describe_failure(case: CaseResult) -> Iterator[str]:
    """Yield lines that describe a failing case in detail.

    The lines name the position in the eval set, the turn, the first difference in the tool calls of the turn,
    and the end of the traceback, as far as they are known.
    """
    if case.path:
        yield f"at {case.path}:{case.line}" if case.line else f"in {case.path}"
    finding = Finding(case)
    if found := finding.turn:
        number, turn = found
        yield f"turn {number}: {to_one_line(turn.user)}"
        yield from _format_divergence(turn)
    run = finding.run
    if run and run.failure and run.failure.detail:
        yield run.failure.detail[-_LONGEST_TEXT // 2 :]


def _format_divergence(turn: TurnResult) -> Iterator[str]:
    if turn.actual is None:
        return
    expected = turn.expected.tool_calls if turn.expected else ()
    for line in diff_trajectories(expected, turn.actual.tool_calls):
        yield f"{line.sign} {line.text}{'   <- first divergence' if line.diverges else ''}"


def _build_gate_suite(record: Record) -> _TestSuite:
    from junit_xml import TestCase

    test = TestCase("gate", GATE, 0.0)
    reasons = record.verdict.reasons or (f"the verdict is {record.verdict.status}",)
    message, text = (
        _to_attribute(reasons[0]) or GATE,
        to_xml_text(truncate_block("\n".join(reasons), _LONGEST_TEXT)),
    )
    kind: _Kind = "passed"
    if record.verdict.would_close:
        kind = "skipped"
        test.add_skipped_info(f"{REPORT_ONLY}: {message}", text)
    elif record.verdict.status == "skipped":
        kind = "skipped"
        test.add_skipped_info(message, text)
    elif record.verdict.status == "fail":
        kind = "failures"
        test.add_failure_info(message, text, "gate closed")
    elif record.verdict.status == "error" or record.verdict.exit_code != 0:
        kind = "errors"
        test.add_error_info(message, text, "no verdict")
    return _TestSuite(GATE, iter([test]), _count_kinds([kind]), 0.0, _format_timestamp(record))


def _format_timestamp(record: Record) -> str:
    """Return the start of the run in UTC, in ISO 8601 without a zone, as consumers expect."""
    return _to_attribute(record.created_at.removesuffix("Z").removesuffix("+00:00"))


def _to_attribute(text: str) -> str:
    return to_xml_text(to_one_line(text, _LONGEST_NAME))


def _name_tests(cases: Sequence[CaseResult]) -> Iterator[str]:
    """Yield a unique name for each test; later tests of the same name get a number.

    To save memory, the names are kept only if some names seem to be equal.
    """
    # An array of hashes takes 8 bytes a case. Equal hashes only suggest equal names.
    hashes = sorted(array("q", (hash(_format_name(case.eval_id)) for case in cases)))
    if any(map(eq, hashes, hashes[1:])):
        yield from map(_UniqueNames().choose_name, (case.eval_id for case in cases))
    else:
        yield from (_format_name(case.eval_id) for case in cases)


def _format_name(text: str) -> str:
    return _to_attribute(text) or "(no name)"


class _UniqueNames:
    """Source of unique names: a name that is already in use gets a number.

    Readers of JUnit files drop the second of two tests with the same name.
    """

    def __init__(self, *taken: str) -> None:
        self._seen = Counter(taken)

    def choose_name(self, text: str) -> str:
        wanted = _format_name(text)
        name = wanted
        while name in self._seen:
            self._seen[wanted] += 1
            name = f"{wanted} [{self._seen[wanted]}]"
        self._seen[name] = 1
        return name

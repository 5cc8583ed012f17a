"""The groups of failing cases: laws, marks, and that all reports show the same."""

import re
from collections import Counter
from dataclasses import replace
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.api.record import GateClosedError
from evalgate.api.record import Record as LibraryRecord
from evalgate.baselines.history import build_baseline, hash_record
from evalgate.baselines.serialization import dump_baseline, load_baseline, load_baseline_or_results
from evalgate.cli.compare import compare_results
from evalgate.core.types import (
    Baseline,
    BaselineSource,
    CaseMetric,
    CaseResult,
    FailingSince,
    Failure,
    Quarantine,
    Record,
    RunMetric,
    RunResult,
    ToolCall,
    Verdict,
)
from evalgate.datasets.results_io import dump_record, load_record
from evalgate.documents.strict_json import parse_json
from evalgate.gating.failure_groups import group_failures, list_failure_groups
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.failure_lines import summarize_failure_groups
from evalgate.reporting.html.reporter import HtmlReport
from evalgate.reporting.junit import JUnitReport
from evalgate.reporting.terminal import TerminalReport
from tests.builders import (
    TRAJECTORY,
    a_call,
    a_case_result,
    a_record,
    a_reply,
    a_run_result,
    a_summary,
    a_turn_result,
)
from tests.situations import HOSTILE
from tests.viewer.serving import create_viewer, open_client, write_record

EXPECTED = a_reply("Done.", a_call("lookup_order"), a_call("issue_refund", amount=9))
SWAPPED = (a_call("issue_refund", amount=9), a_call("lookup_order"))
DEARER = (a_call("lookup_order"), a_call("issue_refund", amount=90))
MISSING = (a_call("lookup_order"),)


def a_run(*calls: ToolCall, failed: bool = True, number: int = 1) -> RunResult:
    turn = a_turn_result("Refund", EXPECTED, a_reply("Done.", *calls) if failed else EXPECTED)
    score = 0.0 if failed else 1.0
    metric = RunMetric(TRAJECTORY, score, "failed" if failed else "passed")
    return a_run_result(turn, run=number, metrics=(metric,))


def a_failure(name: str, *calls: ToolCall) -> CaseResult:
    metrics = (CaseMetric(TRAJECTORY, 0.0, 1.0, "failed", fingerprint="f"),)
    return a_case_result(name, "failed", metrics=metrics, runs=(a_run(*calls),))


def a_crash(name: str) -> CaseResult:
    failure = Failure("exception", "the agent raised KeyError: 'order'")
    metrics = (CaseMetric(TRAJECTORY, None, 1.0, "errored", failure.message, "f"),)
    run = replace(a_run_result(outcome="crashed", failure=failure), turns=())
    return a_case_result(name, "errored", metrics=metrics, runs=(run,))


def a_pass(name: str) -> CaseResult:
    metrics = (CaseMetric(TRAJECTORY, 1.0, 1.0, "passed", fingerprint="f"),)
    return a_case_result(name, metrics=metrics, runs=(a_run(failed=False),))


def before() -> Record:
    """Eleven cases pass, and three fail by an argument."""
    old = [a_failure(f"old_{at}", *DEARER) for at in range(3)]
    return replace(
        a_record(*(a_pass(f"case_{at:02}") for at in range(11)), *old), created_at="2026-11-19T00:00:00Z"
    )


def after() -> Record:
    """Nine of the cases that passed call the tools in the wrong order, and two crash."""
    wrong = [a_failure(f"case_{at:02}", *SWAPPED) for at in range(9)]
    crashed = [a_crash(f"case_{at:02}") for at in (9, 10)]
    old = [a_failure("old_0", *SWAPPED), a_failure("old_1", *DEARER), a_failure("old_2", *DEARER)]
    metrics = (a_summary(score=0.0, status="failed", n=14),)
    return a_record(*wrong, *crashed, *old, verdict=Verdict("fail", 1, ("Bad.",)), metrics=metrics)


def compared(tmp_path: Path) -> Record:
    """The record of `evalgate compare`."""
    write_record(tmp_path / "a.json", before())
    write_record(tmp_path / "b.json", after())
    return compare_results("a.json", "b.json", thresholds_file=None, folder=tmp_path)


GROUPS = [
    ("`issue_refund` before `lookup_order`", 10, 9, True),
    ("crashed: `KeyError`", 2, 2, True),
    ("`issue_refund` with another `amount`", 2, 0, False),
]
SENTENCES = [
    "9 of 11 newly failing cases, and 1 other: `issue_refund` before `lookup_order` (new: no stored run failed so)",
    "2 of 11 newly failing cases: crashed: `KeyError` (new: no stored run failed so)",
    "2 of 3 other failing cases: `issue_refund` with another `amount`",
]


def to_text(markup: str) -> str:
    """The text of HTML or of Markdown with HTML, on one line."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", "", markup)))


def test_every_report_shows_the_same_groups(tmp_path: Path) -> None:
    record = compared(tmp_path)
    found = [
        (each.label, len(each.cases), each.newly_failing, each.unprecedented)
        for each in record.failure_groups
    ]
    assert found == GROUPS
    assert load_record(dump_record(record), "results.json") == record

    plain = [sentence.replace("`", "") for sentence in SENTENCES]
    with_dot = [
        text.replace(" (new: no stored run failed so)", " · new: no stored run failed so") for text in plain
    ]
    comment = CommentReport().render(record)
    top = [to_text(line) for line in re.findall(r"<summary>(<b>.*)</summary>", comment)]
    assert top == with_dot
    for report in (TerminalReport(), TerminalReport(has_cases=False)):  # the second is that of pytest
        assert report.render(record).splitlines()[:3] == SENTENCES
    types = Counter(
        problem.get("type")
        for problem in ET.fromstring(JUnitReport().render(record)).iter()
        if problem.tag in {"failure", "error"}
    )
    assert types == {"gate closed": 1} | {label.replace("`", ""): size for label, size, _, _ in GROUPS}
    page = to_text(HtmlReport().render(record).partition("Groups of cases")[2].partition("Cause:")[0])
    viewed = write_record(tmp_path / "evalgate-report/results.json", record)
    overview = to_text(open_client(create_viewer(tmp_path)).get("/records/last").text)
    for (label, size, _, is_marked), sentence in zip(GROUPS, plain, strict=True):
        mark = " new: no stored run failed so" if is_marked else ""
        assert f"{size} cases: {label.replace('`', '')}{mark}" in page
        assert re.sub(r"[()]", "", sentence) in overview
    library = LibraryRecord.read(viewed)
    assert library.failure_groups == record.failure_groups
    with pytest.raises(GateClosedError, match=re.escape(SENTENCES[2])):
        library.assert_passed()


def test_the_groups_do_not_depend_on_the_order_of_the_cases() -> None:
    record = after()
    expected = {each.label: frozenset(each.cases) for each in list_failure_groups(record)}

    @given(st.permutations(record.cases))
    def check(cases: list[CaseResult]) -> None:
        groups = list_failure_groups(replace(record, cases=tuple(cases)))
        assert {each.label: frozenset(each.cases) for each in groups} == expected
        assert [each.label for each in groups] == list(expected)

    check()


@given(
    st.lists(
        st.tuples(st.sampled_from(["swapped", "dearer", "missing", "crash", "pass", "rests"]), st.booleans())
    )
)
def test_every_failing_case_is_in_one_group(cases: list[tuple[str, bool]]) -> None:
    calls = {"swapped": SWAPPED, "dearer": DEARER, "missing": MISSING, "rests": MISSING}
    rest = Quarantine("anna", "later", "2099-01-01")
    made = []
    for at, (kind, _) in enumerate(cases):
        name = f"case_{at}"
        case = (
            a_pass(name)
            if kind == "pass"
            else a_crash(name)
            if kind == "crash"
            else a_failure(name, *calls[kind])
        )
        made.append(replace(case, quarantine=rest) if kind == "rests" else case)
    groups = list_failure_groups(a_record(*made))
    failing = [case.key for case in made if case.status != "passed" and case.gates]
    assert Counter(key for group in groups for key in group.cases) == Counter(failing)
    assert len({group.label for group in groups}) == len(groups)
    lines = summarize_failure_groups(a_record(*made))
    rest_of = int(lines.rest.split()[0]) if lines.rest else 0
    assert not lines.lines or sum(line.size for line in lines.lines) + rest_of == len(failing)


def test_a_crash_counts_alike_on_both_sides_of_a_comparison(tmp_path: Path) -> None:
    record = a_record(a_pass("a"), a_pass("b"), a_crash("c"), a_crash("d"))
    write_record(tmp_path / "a.json", replace(record, created_at="2026-11-19T00:00:00Z"))
    write_record(tmp_path / "evalgate-report/results.json", record)
    client = open_client(create_viewer(tmp_path, "a.json"))
    ids = re.findall(r'<option value="([^"]*)"', client.get("/compare?b=last").text)
    before_id = next(each for each in ids if each != "last")
    text = to_text(client.get(f"/compare?a={before_id}&b=last").text)
    assert f"{TRAJECTORY}passed0.500.50±0.00" in text
    assert "A and B count a crash or timeout as the worst score." in text
    assert "0.00 → 0.00" in text


def test_alike_cases_are_what_makes_a_summary() -> None:
    both = a_record(a_failure("a", *SWAPPED), a_failure("b", *SWAPPED), a_failure("c", *MISSING))
    summary = summarize_failure_groups(both)
    assert [line.sentence for line in summary.lines] == [
        "2 of 3 failing cases: `issue_refund` before `lookup_order`"
    ]
    assert summary.rest == "1 more failing case in 1 other way"
    assert summarize_failure_groups(a_record(a_failure("a", *SWAPPED), a_failure("b", *MISSING))).lines == ()
    assert summarize_failure_groups(a_record(a_failure("a", *SWAPPED))).lines == ()
    assert "failure_groups" not in dump_record(a_record(a_pass("a")))


def mark_groups(now: Record, stored: Baseline) -> list[tuple[str, bool]]:
    groups = group_failures(now.cases, now.comparison, now.criteria, stored)
    return [(each.kind, each.unprecedented) for each in groups]


def test_only_what_no_stored_run_did_is_marked() -> None:
    stored = build_baseline(before(), BaselineSource("2026-11-19"))
    again = load_baseline(parse_json(dump_baseline(stored).encode(), "b.json"))
    assert replace(again, path="") == stored
    assert [run.divergence for case in stored.cases for run in case.runs][
        -1
    ] == "argument issue_refund amount"
    now = a_record(a_failure("old_0", *SWAPPED), a_failure("case_00", *DEARER))
    assert mark_groups(now, again) == [("order", True), ("argument", False)]
    assert mark_groups(
        now, load_baseline_or_results(dump_record(before()).encode(), "a.json")
    ) == mark_groups(now, again)

    # A baseline of an older evalgate does not say how its runs failed, but whether one did.
    older = dump_baseline(stored).replace(', "divergence": "argument issue_refund amount"', "")
    assert older.count("divergence") == 0
    assert mark_groups(now, load_baseline(parse_json(older.encode(), "b.json"))) == [
        ("order", False),
        ("argument", False),
    ]
    green = build_baseline(a_record(a_pass("old_0"), a_pass("case_00")))
    assert "divergence" not in dump_baseline(green)
    assert mark_groups(now, green) == [("order", True), ("argument", True)]
    # Cases that the baseline does not have say nothing about it.
    assert mark_groups(a_record(a_failure("fresh", *SWAPPED)), green) == [("order", False)]
    hidden = dump_baseline(stored).replace("issue_refund amount", "*** amount")
    assert ("order", False) in mark_groups(now, load_baseline(parse_json(hidden.encode(), "b.json")))


def test_a_stored_score_of_a_removed_metric_is_no_unknown_failure() -> None:
    green = build_baseline(a_record(a_pass("old_0"), a_pass("case_00")))
    with_more = tuple(
        replace(case, runs=tuple(replace(run, scores={**run.scores, "removed": 0.8}) for run in case.runs))
        for case in green.cases
    )
    now = a_record(a_failure("old_0", *SWAPPED), a_failure("case_00", *DEARER))
    assert mark_groups(now, replace(green, cases=with_more)) == mark_groups(now, green)


def test_a_case_that_is_called_excused_is_not_called_new(tmp_path: Path) -> None:
    record = compared(tmp_path)
    excused = [case for case in record.cases if case.follow_up and case.follow_up.outcome == "excused"]
    assert [case.eval_id for case in excused] == ["old_0", "old_1", "old_2"]
    stored = build_baseline(before())
    assert mark_groups(replace(record, cases=tuple(excused)), stored) == [
        ("argument", False),
        ("order", False),
    ]
    since = tuple(replace(case, failing_since=FailingSince("2026-11-01")) for case in stored.cases)
    marks = mark_groups(record, replace(stored, cases=since))
    assert marks == [("order", False), ("crash", False), ("argument", False)]


def test_the_kept_divergence_does_not_change_the_identity_of_a_record() -> None:
    assert hash_record(before()) == "dc6faee93fbd6b34"  # as before baselines kept it


def test_hostile_names_stay_in_their_place() -> None:
    cases = [a_failure(HOSTILE + str(at), ToolCall(HOSTILE, {HOSTILE: at})) for at in range(60)]
    record = a_record(*cases, verdict=Verdict("fail", 1, ("Bad.",)))
    comment = CommentReport().render(record)
    assert comment.count("<details") == comment.count("</details>")
    assert "All 60 failing cases" in comment
    assert len(CommentReport(limit=4_000).render(record).encode()) <= 4_000
    assert ET.fromstring(JUnitReport().render(record)) is not None

"""Notes next to an eval set: tags, source and status of its cases, and the effect of `observed` on the gate."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evalgate.config.schema.gate import GateConfig
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import EvalSet, GateInput, Record, Verdict
from evalgate.datasets.cases import fingerprint_cases
from evalgate.datasets.eval_set_paths import build_notes_name
from evalgate.datasets.loading import load_eval_sets
from evalgate.datasets.results_io import dump_record, load_record
from evalgate.gating.verdict import decide_verdict
from evalgate.integrations.adk.evalset import AdkFormat
from evalgate.metrics.metric_summaries import compute_totals, summarize_metrics
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.findings import list_findings
from evalgate.reporting.html.reporter import HtmlReport
from evalgate.reporting.junit import JUnitReport
from evalgate.reporting.terminal import TerminalReport
from tests.builders import a_case_result, a_record

SOURCE = "https://traces.example/trace/1"
NOTES = f"cases:\n  late:\n    status: observed\n    tags: [billing]\n    source: {SOURCE}\n    imported: 2026-11-23\n"


def write_set(folder: Path, notes: str = "") -> Path:
    turn = {"user_content": {"role": "user", "parts": [{"text": "Hi"}]}}
    cases = [{"eval_id": name, "conversation": [turn]} for name in ("late", "in_time")]
    path = folder / "refunds.evalset.json"
    path.write_text(json.dumps({"eval_set_id": "refunds", "eval_cases": cases}))
    if notes:
        (folder / "refunds.cases.yaml").write_text(notes)
    return path


def load(folder: Path, pattern: str = "refunds.evalset.json") -> EvalSet:
    (found,) = load_eval_sets([pattern], {"adk": AdkFormat()}, folder=folder)
    return found


def test_notes_are_read_and_change_no_fingerprint(tmp_path: Path) -> None:
    write_set(tmp_path)
    plain = load(tmp_path)
    write_set(tmp_path, NOTES)
    late, in_time = load(tmp_path).cases
    assert (late.status, late.source, late.tags) == ("observed", SOURCE, ("billing",))
    assert in_time == plain.cases[1]
    assert fingerprint_cases(load(tmp_path).cases) == fingerprint_cases(plain.cases)
    # The notes are checked against the whole file, also when one case is selected, and are no eval set.
    assert [case.eval_id for case in load(tmp_path, "refunds.evalset.json:in_time").cases] == ["in_time"]
    assert len(load_eval_sets(["*"], {"adk": AdkFormat()}, folder=tmp_path)) == 1


def test_large_eval_sets_have_notes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalgate.datasets.loading.LARGE_FILE", 1)
    write_set(tmp_path, NOTES)
    late, in_time = load(tmp_path).cases
    assert (late.tags, late.status, late.source) == (("billing",), "observed", SOURCE)
    assert in_time.status == "expected"


@pytest.mark.parametrize(
    ("notes", "problem"),
    [
        (
            "cases:\n  lat: {}\n",
            "2:3: refunds.evalset.json has no case 'lat': move the entry to the notes of its own eval set, or remove it. Did you mean",
        ),
        (
            "cases:\n  late:\n    statu: observed\n",
            "3:5: `cases.late.statu` is not a known key. Did you mean",
        ),
        ("cases:\n  late:\n    status: open\n", "3:5: `cases.late.status`"),
        ("case: {}\n", "1:1: `case` is not a known key"),
        ("- late\n", "1:1: the file must be an object"),
        ("cases: {", "2:1: not YAML"),
    ],
)
def test_what_is_wrong_is_said_at_its_line(tmp_path: Path, notes: str, problem: str) -> None:
    write_set(tmp_path, notes)
    with pytest.raises(InvalidInputError) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(f"refunds.cases.yaml:{problem}"), str(caught.value)


def test_no_two_sets_share_their_notes() -> None:
    names = ("a.evalset.json", "a.json", "v1.2.test.json", ".hidden.evalset.json")
    assert [build_notes_name(name) for name in names] == [
        "a.cases.yaml",
        "a.json.cases.yaml",
        "v1.2.test.json.cases.yaml",
        ".hidden.cases.yaml",
    ]


def decide(*names: str, observed: str) -> tuple[Verdict, Record]:
    cases = tuple(
        replace(
            a_case_result(name, "failed" if name == observed else "passed"),
            observed=name == observed,
            source=SOURCE if name == observed else "",
        )
        for name in names
    )
    metrics = summarize_metrics(cases)
    verdict = decide_verdict(GateInput(metrics, cases, compute_totals(cases)), GateConfig())
    return verdict, replace(a_record(), cases=cases, metrics=metrics, verdict=verdict)


def test_an_observed_case_is_reported_and_does_not_gate() -> None:
    verdict, record = decide("paris", "rome", observed="rome")
    assert verdict.status == "pass"
    assert verdict.reasons[0].endswith("; 1 observed.")
    assert record.metrics[0].score == 1.0
    assert list_findings(record) == []
    page = HtmlReport().render(record)
    comment = CommentReport().render(record)
    for report in (TerminalReport().render(record), comment, page):
        assert "Observed" in report
        assert ", and not part of the verdict" in report
        assert "observed, not reviewed yet" in report
    assert SOURCE in page
    assert "failed, but observed, not reviewed yet" in JUnitReport().render(record)
    text = dump_record(record)
    assert text.count('"observed":true') == 1
    assert load_record(text, "results.json").cases[1].observed


def test_only_observed_cases_give_no_verdict() -> None:
    verdict, _ = decide("rome", observed="rome")
    assert verdict.exit_code == 3
    assert "all of them are observed and not reviewed yet" in verdict.reasons[0]

"""`report_only`: the gate never closes, and every report says what it would have done."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evalgate
from evalgate.__main__ import main
from evalgate.config.schema.gate import GateConfig
from evalgate.core.types import REPORT_ONLY, GateInput, Totals, Verdict
from evalgate.gating.verdict import decide_verdict
from evalgate.reporting.junit import JUnitReport
from evalgate.reporting.terminal import TerminalReport
from evalgate.runner.posts import build_post_content
from evalgate.runner.result_loading import find_inconsistencies
from tests.builders import a_record

WOULD_CLOSE = "Gate would be closed (report only)"


def evaluate(reply: str, **gate: object) -> evalgate.Record:
    case = {"query": "Hi", "reference": "Hello"}
    thresholds = {"criteria": {"response_match_score": 1.0}, "gate": gate}
    return evalgate.evaluate([case], lambda _: reply, thresholds=thresholds)


def test_a_failure_is_reported_and_opens() -> None:
    record, gating = evaluate("Bye", report_only=True), evaluate("Bye")

    assert record.verdict == replace(gating.verdict, exit_code=0, gating_exit_code=1)
    assert (record.verdict.status, record.passed) == ("fail", True)
    assert list(find_inconsistencies(record)) == []
    stored = json.loads(record.to_json())["verdict"]
    assert (stored["exit_code"], stored["gating_exit_code"]) == (0, 1)
    assert "gating_exit_code" not in json.loads(gating.to_json())["verdict"]


def test_every_report_says_what_the_gate_would_have_done() -> None:
    record = evaluate("Bye", report_only=True)

    assert f"### ⚠️ {WOULD_CLOSE}: " in evalgate.render(record, "comment")
    assert WOULD_CLOSE in evalgate.render(record, "html")
    assert "GATE WOULD BE CLOSED (report only)" in TerminalReport().render(record)
    junit = JUnitReport().render(record)
    assert 'failures="0" name="evalgate" skipped="1"' in junit
    assert f'message="{REPORT_ONLY}: response_match_score is 0.00' in junit


def test_a_check_run_is_neutral() -> None:
    from evalgate.ci.posting import PostOptions
    from evalgate.reporting.comment.reporter import CommentReport

    content = build_post_content(evaluate("Bye", report_only=True), PostOptions(), CommentReport())

    assert content.verdict == "inconclusive"
    assert content.title.startswith("Report only: response_match_score is 0.00")


def test_an_open_gate_says_that_it_could_not_close() -> None:
    record = evaluate("Hello", report_only=True)

    assert (record.verdict.status, record.verdict.exit_code, record.verdict.gating_exit_code) == (
        "pass",
        0,
        0,
    )
    assert "Gate open (report only)" in evalgate.render(record, "comment")


@pytest.mark.parametrize(("interrupted", "code"), [(True, 130), (False, 3)])
def test_no_verdict_stays_no_verdict(interrupted: bool, code: int) -> None:
    evidence = GateInput((), (), Totals(), interrupted=interrupted)

    verdict = decide_verdict(evidence, GateConfig(report_only=True))

    assert (verdict.status, verdict.exit_code, verdict.gating_exit_code) == ("error", code, None)


@pytest.mark.parametrize(
    "verdict", [Verdict("fail", 1, gating_exit_code=1), Verdict("pass", 0, gating_exit_code=1)]
)
def test_an_edited_verdict_is_noticed(verdict: Verdict) -> None:
    assert any("exit code" in each for each in find_inconsistencies(replace(a_record(), verdict=verdict)))


def write_project(folder: Path, gate: str) -> None:
    def build_set(reply: str) -> dict[str, Any]:
        turn = {"user_content": {"parts": [{"text": "Hi"}]}, "final_response": {"parts": [{"text": reply}]}}
        return {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [turn]}]}

    (folder / "s.evalset.json").write_text(json.dumps(build_set("Hello")))
    (folder / "then.evalset.json").write_text(json.dumps(build_set("Bye")))
    (folder / "evalgate.yaml").write_text(
        "agent: {kind: replay, path: then.evalset.json}\neval_sets: [s.evalset.json]\n"
        f"criteria: {{response_match_score: 1.0}}\n{gate}"
    )


@pytest.mark.parametrize(
    ("gate", "options", "code"),
    [
        ("", (), 1),
        ("", ("--report-only",), 0),
        ("gate: {report_only: true}", (), 0),
        ("gate: {report_only: true, min_cases: 2}", (), 3),
        ("gate: {report_only: maybe}", (), 2),
    ],
)
def test_the_command_ends_with_the_code(
    gate: str, options: tuple[str, ...], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(tmp_path, gate)

    assert main(["run", "-C", str(tmp_path), *options]) == code
    if code == 0:
        assert main(["report", "-C", str(tmp_path)]) == 0
        assert "GATE WOULD BE CLOSED (report only)" in capsys.readouterr().out
        assert main(["baseline", "save", "-C", str(tmp_path)]) == 2

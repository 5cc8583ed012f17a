"""`--print-detailed-results`: every case with its status, and a table for each metric that fails."""

import json
from pathlib import Path

from evalgate.core.types import CaseMetric, Failure, Record, TurnMetric
from evalgate.reporting.detailed_results import format_grid
from evalgate.reporting.terminal import TerminalReport
from tests.builders import (
    TRAJECTORY,
    a_call,
    a_case_result,
    a_record,
    a_reply,
    a_run_result,
    a_turn_result,
)
from tests.cli.test_cli import eval_set
from tests.commands import evalgate


def failing_record() -> Record:
    """Two turns of a case, of which the second misses its calls."""
    turns = (
        a_turn_result("Hello", metrics=(TurnMetric(TRAJECTORY, 1.0, "passed"),)),
        a_turn_result(
            "Refund order 7, please.",
            a_reply("Done.", a_call("refund", order=7)),
            a_reply("I cannot."),
            (TurnMetric(TRAJECTORY, 0.0, "failed"),),
        ),
    )
    failing = a_case_result(
        "late", "failed", metrics=(CaseMetric(TRAJECTORY, 0.5, 1.0, "failed"),), runs=(a_run_result(*turns),)
    )
    return a_record(failing, a_case_result("early"), a_case_result("other", eval_set_id="shop"))


def test_each_eval_set_has_its_counts_and_each_case_its_status() -> None:
    lines = TerminalReport(details=True).render(failing_record()).splitlines()
    assert [line for line in lines if not line.startswith(("|", "+"))][:6] == [
        "travel: 1 passed, 1 failed",
        "  FAILED late",
        f"    {TRAJECTORY}: failed, score 0.50, threshold 1.00",
        "  PASSED early",
        "shop: 1 passed, 0 failed",
        "  PASSED other",
    ]


def test_a_failing_metric_has_a_row_for_each_invocation() -> None:
    text = TerminalReport(details=True).render(failing_record())
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    assert rows == [
        [
            "status",
            "score",
            "threshold",
            "prompt",
            "expected response",
            "actual response",
            "expected calls",
            "actual calls",
        ],
        ["passed", "1.00", "1.00", "Hello", "It is sunny.", "It is sunny.", "", ""],
        [
            "failed",
            "0.00",
            "1.00",
            "Refund order 7, please.",
            "Done.",
            "I cannot.",
            'refund({"order": 7})',
            "",
        ],
    ]


def test_details_are_printed_on_request_only() -> None:
    assert "  PASSED early" not in TerminalReport().render(failing_record())


def test_a_crash_is_explained_without_a_table() -> None:
    run = a_run_result(outcome="crashed", failure=Failure("exception", "ValueError: no such order"))
    case = a_case_result("late", "errored", metrics=(), runs=(run,))
    text = TerminalReport(details=True).render(a_record(case))
    assert text.startswith("travel: 0 passed, 0 failed, 1 errored\n  ERRORED late\n    ")
    assert "no such order" in text.splitlines()[2]


def test_long_cells_wrap_and_are_cut_at_last() -> None:
    text = format_grid([["prompt"], ["word " * 2_000]])
    assert {len(line) for line in text.splitlines()} == {24 + len("|  |")}
    assert len(text.splitlines()) < 200
    assert "more characters" in text


def test_columns_line_up_with_characters_of_double_width() -> None:
    assert format_grid([["prompt", "x"], ["\u9000\u6b3e\u8ba2\u5355", "1"], ["e\u0301", "2"]]).splitlines()[
        1::2
    ] == [
        "| prompt   | x |",
        "| \u9000\u6b3e\u8ba2\u5355 | 1 |",
        "| e\u0301        | 2 |",
    ]


def test_run_and_report_print_the_same_details(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(text):\n    return 'Hello'\n", "utf-8")
    (tmp_path / "s.evalset.json").write_text(eval_set("Hello", "Goodbye"), "utf-8")
    (tmp_path / "test_config.json").write_text(
        json.dumps({"criteria": {"response_match_score": 0.7}}), "utf-8"
    )
    done = evalgate(
        "run",
        "s.evalset.json",
        "--agent",
        "python:agent.py:answer",
        "--print-detailed-results",
        cwd=tmp_path,
    )
    assert (done.code, done.err.count("Traceback")) == (1, 0)
    assert (
        "1 passed, 1 failed\n  PASSED case_0\n  FAILED case_1\n    response_match_score: failed" in done.out
    )
    assert "| failed | 0.00  | 0.70" in done.out
    assert evalgate("report", "--print-detailed-results", cwd=tmp_path).out == done.out

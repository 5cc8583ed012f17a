from dataclasses import replace

import pytest

from evalgate.core.types import (
    AnchorComparison,
    AnchorMetric,
    AnchorOutcome,
    Comparison,
    MetricComparison,
    PlanId,
    Shard,
    ThresholdEstimate,
    Verdict,
)
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.terminal import TerminalReport
from tests.builders import a_case_result, a_record, a_run_result, a_summary
from tests.situations import GOLDEN, huge


def test_columns_line_up() -> None:
    lines = TerminalReport().render(GOLDEN["regression"]()).splitlines()
    header = next(line for line in lines if "threshold" in line)
    rows = lines[lines.index(header) + 1 :][:2]
    end = header.index("score") + len("score")
    assert [row[:end].split()[-1] for row in rows] == ["0.50", "0.79999"]


@pytest.mark.parametrize(
    ("outcome", "row", "cell"),
    [
        ("fell", "FAIL  tool_trajectory_avg_score", "| ❌ | `tool_trajectory_avg_score`"),
        ("fell_before", "ok  tool_trajectory_avg_score", "| ✅ | `tool_trajectory_avg_score`"),
        ("doubtful", "ok  tool_trajectory_avg_score", "| ✅ | `tool_trajectory_avg_score`"),
    ],
)
def test_a_metric_that_closes_the_gate_by_the_anchor_is_not_ok(
    outcome: AnchorOutcome, row: str, cell: str
) -> None:
    metric = AnchorMetric("tool_trajectory_avg_score", outcome, 0.9, 1.0, 0.05, 40, 40, "It fell by 0.10.")
    record = replace(
        a_record(a_case_result(), metrics=(a_summary(score=0.9, threshold=0.5),)),
        anchor=AnchorComparison("anchor.json", "anchor.json", (metric,)),
    )

    assert row in TerminalReport().render(record)
    assert cell in CommentReport().render(record)


def test_colour_is_optional() -> None:
    record = GOLDEN["regression"]()
    plain, coloured = TerminalReport().render(record), TerminalReport(color=True).render(record)
    assert "\x1b" not in plain
    assert "\x1b[31mGATE CLOSED\x1b[0m" in coloured
    for code in ("\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[2m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


@pytest.mark.parametrize(
    ("verdict", "word"),
    [
        (Verdict("pass", 0), "GATE OPEN"),
        (Verdict("fail", 1), "GATE CLOSED"),
        (Verdict("inconclusive", 4), "INCONCLUSIVE"),
        (Verdict("error", 3), "NO VERDICT"),
    ],
)
def test_the_verdict_comes_last(verdict: Verdict, word: str) -> None:
    text = TerminalReport().render(a_record(a_case_result(), verdict=verdict))
    assert text.endswith(f"{word}\n")


def test_many_failures_are_cut() -> None:
    text = TerminalReport().render(huge(25))
    assert text.count("FAIL travel/case_") == 20
    assert "… and 5 more failing cases: see results.json" in text


def test_cases_of_one_cause_are_one_entry() -> None:
    text = TerminalReport().render(huge(25, causes=2))
    assert text.count("FAIL travel/case_") == 2
    assert "     the same in 12 more cases: travel/case_2, travel/case_4," in text
    assert len(text.splitlines()[1]) <= 160


def test_failures_are_cut_to_the_width_and_the_verdict_is_not() -> None:
    record = replace(huge(3), verdict=Verdict("fail", 1, ("A reason " + "that goes on " * 20,)))
    lines = TerminalReport(width=60).render(record).splitlines()
    assert lines[0] == "All 3 newly failing cases: `get_weather` with another `city`"
    cases = lines[2 : lines.index("", 2)]
    failing = [line for line in cases if "run it alone: " not in line]
    assert len(failing) < len(cases)  # half a command is none
    assert max(map(len, failing)) == 60
    assert len(lines[-1]) > 200


def test_a_run_without_metrics_has_no_table() -> None:
    text = TerminalReport().render(a_record(metrics=()))
    assert text.startswith("No baseline: absolute thresholds only.\n")


def test_a_score_never_contradicts_its_status() -> None:
    summary = a_summary(score=0.7999999, threshold=0.8, status="failed")
    assert "0.7999999       0.80" in TerminalReport().render(a_record(metrics=(summary,)))


def test_a_delta_that_counts_crashes_is_explained() -> None:
    crashed = replace(
        a_summary(baseline=1.0, delta=-0.75, n=4, errors=3, compared=4, status="failed"),
        judgement=MetricComparison("fail", "average_fell", (), 0.02),
    )
    case = a_case_result("paris", "errored", runs=(a_run_result(outcome="timed_out"),))
    text = TerminalReport().render(a_record(case, metrics=(crashed,), comparison=Comparison("baseline.json")))
    assert (
        "  The baseline and Δ count a crash or timeout as the worst score; the score leaves its case out.\n"
        in text
    )


def test_a_minimum_that_counts_crashes_is_explained_without_a_baseline() -> None:
    estimate = ThresholdEstimate(0.5, 0.8, 0.3, 0.7, "fail")
    judgement = MetricComparison("fail", "below_minimum", (), None, minimum=estimate)
    metric = replace(a_summary(score=1.0, status="failed", n=2, errors=1), judgement=judgement)
    crashed = a_run_result(outcome="crashed")
    cases = (a_case_result("good"), a_case_result("bad", "errored", runs=(crashed,)))
    text = TerminalReport().render(a_record(*cases, metrics=(metric,)))
    assert (
        "No baseline: absolute thresholds only. Minima that are judged with their noise count a crash or "
        "timeout as the worst score; the score leaves its case out.\n"
    ) in text


def test_a_shard_explains_why_it_has_no_comparison() -> None:
    record = replace(a_record(), shard=Shard(1, 2, (0,), 2, PlanId("sets", "thresholds", "agent")))
    sentence = "\nOne shard alone is compared with no baseline: that is done when all are merged.\n"
    assert sentence in TerminalReport().render(record)
    assert sentence in CommentReport().render(record)

"""One case, two cases, no case: every sentence that counts, with each number."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from evalgate.ci.posting import PostOptions
from evalgate.config.schema.gate import GateConfig
from evalgate.core.sanitize import keep_last_lines, truncate_block
from evalgate.core.types import (
    AverageRunUsage,
    CaseChange,
    CaseMetric,
    Change,
    Comparison,
    GateInput,
    ModelUsage,
    Quarantine,
    Record,
    RunMetric,
    SamplingCost,
    Totals,
    Verdict,
)
from evalgate.gating.verdict import decide_verdict
from evalgate.llm.budget_guard import describe_budget_shortfall
from evalgate.metrics.metric_summaries import describe_inconsistent_cases
from evalgate.reporting.baseline_lines import build_baseline_line, describe_run_costs, format_change_counts
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.findings import format_case_counts, format_run_counts
from evalgate.reporting.html.reporter import HtmlReport
from evalgate.reporting.summary_lines import (
    build_metric_line,
    describe_run_totals,
    format_judge_usage,
    list_flaky_cases,
)
from evalgate.reporting.terminal import TerminalReport
from evalgate.runner.posts import build_post_content
from tests.builders import a_case_result, a_record, a_run_result, a_summary
from tests.situations import flaky_runs, huge

NOUNS = (
    "case|run|call|token|error|reason|metric|point|character|trial|gate run|judge call|failing case|flaky case|"
    "more failing case|more flaky case|more reason|more metric|more character|quarantine"
)
ONE_OF_MANY = re.compile(rf"(?<![\d.,+])1 (?:{NOUNS})s\b")
MANY_OF_ONE = re.compile(rf"(?<![\d.,])(?:0|[2-9]|\d\d+) (?:{NOUNS})\b(?!-)")


def wrong_numbers(text: str) -> list[str]:
    return [found[0] for pattern in (ONE_OF_MANY, MANY_OF_ONE) for found in pattern.finditer(text)]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("1 case, 2 cases, 0 cases, 11 cases, 1,000 cases, 0.1 cases", []),
        ("1 cases and 2 case", ["1 cases", "2 case"]),
        ("… and 1 more flaky cases", ["1 more flaky cases"]),
        ("21 runs, 0 run", ["0 run"]),
    ],
)
def test_wrong_grammar_is_found(text: str, wrong: list[str]) -> None:
    assert wrong_numbers(text) == wrong


def compared(number: int) -> Record:
    """So many changes of each kind, and so much of all else that is counted."""
    kinds: tuple[Change, ...] = ("newly_failing", "flaky", "newly_passing", "changed", "new", "removed")
    changes = tuple(CaseChange("travel", f"{kind}_{at}", kind) for kind in kinds for at in range(number))
    about = Quarantine("anna", "slow", "2026-12-31")
    flaky = flaky_runs().cases[-1]
    cases = (
        *(a_case_result(f"newly_failing_{at}", "failed") for at in range(number)),
        *(a_case_result(f"still_{at}", "errored") for at in range(number)),
        *(a_case_result(f"unjudged_{at}", "not_evaluated", metrics=(CaseMetric("m", None, 1.0, "not_evaluated", f"r{at}"),)) for at in range(number)),
        *(replace(a_case_result(f"quarantined_{at}"), quarantine=about) for at in range(number)),
        *(replace(flaky, eval_id=f"flaky_{at}") for at in range(number)),
    )  # fmt: skip
    spent = AverageRunUsage(number, 1.0, number / 2, number / 2, 0.01)
    comparison = Comparison(
        "b.json",
        changes=changes,
        unchanged=number,
        left_out=number,
        gate_runs=number,
        then=replace(spent, duration_s=0.1),
        now=spent,
    )
    metrics = tuple(
        a_summary(f"m{at}", n=number + 1, errors=number, baseline=0.5, delta=0.5, compared=number)
        for at in range(max(number, 1))
    )
    record = a_record(
        *cases, verdict=Verdict("fail", 1, ("It is bad.",)), comparison=comparison, metrics=metrics
    )
    judge = ModelUsage(number, number, 0, 0.5, number, number)
    return replace(record, runs=number, judge=judge, effort=SamplingCost(number, 2 * number, number))


def told_of(number: int) -> Iterator[str]:
    record = compared(number)
    comparison = record.comparison
    assert comparison is not None
    yield format_case_counts(Totals(number, number, number, number, number))
    yield format_change_counts(record, comparison)
    yield describe_run_costs(comparison)
    yield format_run_counts(record)
    yield " ".join(describe_run_totals(record))
    yield " ".join(describe_run_totals(replace(record, effort=None)))
    yield str(build_baseline_line(record))
    yield " ".join(str(build_metric_line(metric)) for metric in record.metrics)
    yield " ".join(sentence for _, sentence in list_flaky_cases(record))
    yield format_judge_usage(record.judge or ModelUsage())
    yield describe_inconsistent_cases([case for case in record.cases if case.eval_id.startswith("flaky")])
    yield build_post_content(
        replace(record, verdict=Verdict("pass", 0)), PostOptions(), CommentReport()
    ).title
    yield " ".join(describe_budget_shortfall(record.cases[:number], more_wanted=True, why=""))


@pytest.mark.parametrize("number", [0, 1, 2, 11])
def test_every_sentence_has_the_right_plural(number: int) -> None:
    assert [(text, wrong_numbers(text)) for text in told_of(number) if wrong_numbers(text)] == []


REPORTS: tuple[Callable[[Record], str], ...] = (
    CommentReport().render,
    CommentReport(limit=2_000).render,
    CommentReport(limit=6_000).render,
    TerminalReport().render,
    HtmlReport().render,
)


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("number", [0, 1, 2, 5, 11])
def test_every_report_has_the_right_plural(number: int, report: Callable[[Record], str]) -> None:
    assert wrong_numbers(report(compared(number))) == []


@pytest.mark.parametrize("failing", [1, 2, 10, 11, 12, 20, 21, 22, 60, 61, 62])
def test_the_count_of_omitted_cases_has_the_right_plural(failing: int) -> None:
    assert wrong_numbers(CommentReport().render(huge(failing))) == []
    assert wrong_numbers(TerminalReport().render(huge(failing))) == []


@pytest.mark.parametrize("listed", [10, 11, 12])
def test_the_count_of_omitted_names_has_the_right_plural(listed: int) -> None:
    record = compared(listed)
    reasons = tuple(f"Reason {at}." for at in range(listed))
    metrics = tuple(a_summary(f"m{at}") for at in range(3 * listed - 2))
    record = replace(record, verdict=Verdict("fail", 1, reasons), metrics=metrics)
    assert wrong_numbers(CommentReport().render(record)) == []


@pytest.mark.parametrize("number", [1, 2])
def test_every_verdict_has_the_right_plural(number: int) -> None:
    metric = CaseMetric("m", 0.0, 1.0, "failed")
    runs = (a_run_result(metrics=(RunMetric("m", 0.0, "failed"),)),)
    failed = tuple(a_case_result(f"c{at}", "failed", metrics=(metric,), runs=runs) for at in range(number))
    passed = tuple(a_case_result(f"c{at}") for at in range(number))
    unclear = tuple(
        a_case_result(f"c{at}", "errored", metrics=(replace(metric, score=None),)) for at in range(number)
    )
    crashed = tuple(replace(case, runs=(a_run_result(outcome="crashed"),)) for case in unclear)
    for cases in (failed, passed, unclear, crashed):
        for interrupted in (False, True):
            record = a_record(*cases, metrics=(a_summary("m", 0.5, 0.5),))
            evidence = GateInput(record.metrics, cases, record.totals, interrupted=interrupted)
            for policy in (
                GateConfig(),
                GateConfig(min_cases=5),
                GateConfig(max_failed_cases=9, max_error_rate=1.0),
            ):
                assert wrong_numbers(" ".join(decide_verdict(evidence, policy).reasons)) == []


def test_the_count_of_cut_text_has_the_right_plural() -> None:
    assert truncate_block("abc", limit=2).endswith("… 1 more character")
    assert truncate_block("abcd", limit=2).endswith("… 2 more characters")
    assert keep_last_lines("x" * 1501).startswith("… 1 character before")

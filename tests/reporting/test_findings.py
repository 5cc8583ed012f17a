import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.score_ranges import BUDGET_RANGE, UNIT_RANGE, Range
from evalgate.core.types import (
    EVAL_SET_TRACES,
    AgentInfo,
    CaseChange,
    CaseMetric,
    CaseResult,
    Comparison,
    Failure,
    MetricComparison,
    Quarantine,
    RunMetric,
    RunResult,
    SamplingCost,
    Totals,
    TurnMetric,
    TurnResult,
    Verdict,
)
from evalgate.reporting.baseline_lines import explain_delta, format_change_counts, list_changed_cases
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.findings import (
    Finding,
    describe_comparisons,
    describe_faults,
    explain_not_evaluated,
    format_case_counts,
    format_run_counts,
    format_score_and_threshold,
    group_findings,
    list_findings,
)
from evalgate.reporting.repro_command import build_group_command, build_repro_command
from evalgate.reporting.summary_lines import (
    build_headline,
    build_metric_line,
    describe_run_totals,
    format_mean,
    format_minimum,
    list_exempt_cases,
    list_flaky_cases,
)
from evalgate.reporting.terminal import TerminalReport
from tests.builders import a_case_result, a_record, a_reply, a_run_result, a_summary, a_turn_result
from tests.situations import flaky_runs

CRASH = Failure("exception", "the agent raised KeyError: 'x'")
WRONG = a_run_result(run=2, metrics=(RunMetric("m", 0.0, "failed"),))


def test_the_newly_failing_come_first_and_the_rest_in_file_order() -> None:
    cases = (
        a_case_result("a", "failed"),
        a_case_result("b"),
        a_case_result("c", "errored"),
        a_case_result("d", "failed"),
        a_case_result("e", "not_evaluated"),
    )
    comparison = Comparison("b.json", changes=(CaseChange("travel", "d", "newly_failing"),))
    found = list_findings(a_record(*cases, comparison=comparison))
    assert [(finding.name, finding.is_new) for finding in found] == [
        ("travel/d", True),
        ("travel/a", False),
        ("travel/c", False),
    ]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((a_run_result(),), 1),
        ((a_run_result(), WRONG), 2),
        ((a_run_result(), WRONG, a_run_result(run=3, outcome="crashed")), 3),
    ],
)
def test_the_run_to_look_at(runs: tuple[RunResult, ...], expected: int) -> None:
    run = Finding(a_case_result(runs=runs)).run
    assert run is not None
    assert run.run == expected


BAD_TURN = a_turn_result(metrics=(TurnMetric("m", 0.0, "failed"),))
NO_ANSWER = TurnResult("x", a_reply(), None)
UNASKED = TurnResult("", None, a_reply())
UNASKED_BAD = TurnResult("", None, a_reply(), BAD_TURN.metrics)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ((a_turn_result(), BAD_TURN, BAD_TURN), 2),
        ((a_turn_result(), NO_ANSWER), 2),
        ((a_turn_result(), UNASKED), 2),
        ((UNASKED, UNASKED, UNASKED_BAD), 3),  # a simulated user: the case has no written turns
        ((UNASKED, UNASKED), None),
        ((a_turn_result(),), 1),
        ((a_turn_result(), a_turn_result()), None),
    ],
)
def test_the_turn_to_look_at(turns: tuple[TurnResult, ...], expected: int | None) -> None:
    turn = Finding(a_case_result(runs=(a_run_result(*turns),))).turn
    assert (turn[0] if turn else None) == expected


def test_a_case_without_runs_has_nothing_to_look_at() -> None:
    finding = Finding(a_case_result(runs=()))
    assert (finding.run, finding.turn) == (None, None)


def test_each_metric_that_fell_short_is_a_fault() -> None:
    metrics = (
        CaseMetric("a", 1.0, 1.0, "passed"),
        CaseMetric("b", 0.79999, 0.8, "failed", "too short"),
        CaseMetric("c", None, 0.5, "errored", "judge is down"),
        CaseMetric("d", 0.0, 0.5, "failed"),
    )
    assert list(describe_faults(a_case_result(metrics=metrics))) == [
        "b 0.79999 < 0.80: too short",
        "c could not be evaluated: judge is down",
        "d 0.00 < 0.50",
    ]


def test_how_the_agent_failed_is_the_only_fault() -> None:
    alone = a_case_result(runs=(a_run_result(outcome="crashed", failure=CRASH),))
    assert list(describe_faults(alone)) == ["crashed: the agent raised KeyError: 'x'"]
    one_of_two = a_case_result(runs=(a_run_result(), a_run_result(run=2, outcome="timed_out")))
    assert list(describe_faults(one_of_two)) == ["timed out in run 2 of 2"]


def test_the_reason_why_nothing_was_evaluated() -> None:
    metrics = (CaseMetric("m", None, 0.5, "not_evaluated", "no tool is expected"),)
    assert explain_not_evaluated(a_case_result(metrics=metrics)) == "no tool is expected"
    assert explain_not_evaluated(a_case_result(metrics=())) == "no metric applies to this case"
    assert explain_not_evaluated(a_case_result(runs=(a_run_result(outcome="not_run"),))) == "not run"


@pytest.mark.parametrize(
    ("score", "threshold", "text"),
    [
        (0.5, 1.0, "0.50 < 1.00"),
        (0.9999, 1.0, "0.9999 < 1.00"),
        (0.8, 0.8, "0.80 ≥ 0.80"),
        (0.333, 0.333, "0.333 ≥ 0.333"),
        (None, 0.8, "– of 0.80"),
    ],
)
def test_a_score_is_compared_with_its_threshold(score: float | None, threshold: float, text: str) -> None:
    assert format_score_and_threshold(CaseMetric("m", score, threshold, "failed")) == text


def test_a_figure_and_its_limit_differ_visibly() -> None:
    metric = CaseMetric("budget/cost_usd", 0.01258, 0.01256, "failed", range=BUDGET_RANGE)
    assert format_score_and_threshold(metric) == "0.01258 > 0.01256"
    summary = replace(a_summary("budget/cost_usd", 0.01258, 0.01256), range=BUDGET_RANGE)
    assert (format_mean(summary), format_minimum(summary)) == ("0.01258", "0.01256")


@pytest.mark.parametrize(
    ("threshold", "min_mean", "texts"),
    [
        (0.675, None, ("0.6746", "0.675")),
        (0.5, 0.675, ("0.6746", "0.675 (0.50 a case)")),
        (0.675, 0.5, ("0.6746", "0.50 (0.675 a case)")),
    ],
)
def test_a_mean_differs_from_its_limits_and_from_the_baseline(
    threshold: float, min_mean: float | None, texts: tuple[str, str]
) -> None:
    summary = replace(a_summary("m", 0.67463, threshold, baseline=0.67, delta=0.00463), min_mean=min_mean)
    assert (format_mean(summary), format_minimum(summary)) == texts


rounded = st.builds(round, st.floats(-5, 5), st.integers(0, 8))
near = st.one_of(st.sampled_from([0.0, 1e-13, 1e-9, 1e-7, 0.0004]), st.floats(-0.02, 0.02)).map(
    lambda distance: round(distance, 13)
)


def read_number(text: str) -> float:
    """Return the number that a text says; digits behind "…" make it a bit larger, apart from its sign."""
    value = float(text.rstrip("…").replace(",", ""))
    return value + (math.copysign(1e-8, -1 if text[0] == "-" else 1) if text.endswith("…") else 0)


@given(rounded, near, near, near)
def test_a_mean_compares_with_the_printed_limits_as_the_numbers_do(
    threshold: float, to_minimum: float, to_mean: float, to_baseline: float
) -> None:
    mean, min_mean, baseline = threshold + to_mean, threshold + to_minimum, threshold + to_baseline
    metric = replace(
        a_summary("m", mean, threshold, baseline=baseline, delta=mean - baseline), min_mean=min_mean
    )
    line = build_metric_line(metric)
    minimum, own = line.threshold.removesuffix(" a case)").split(" (")
    numbers = {
        "mean": (mean, read_number(line.score)),
        "minimum": (min_mean, read_number(minimum)),
        "threshold": (threshold, read_number(own)),
    }
    if metric.delta:
        numbers["baseline"] = (baseline, read_number(line.baseline))
    for exact, printed in numbers.values():
        value, shown = numbers["mean"]
        assert (value > exact, value < exact) == (shown > printed, shown < printed)


@pytest.mark.parametrize(
    ("threshold", "text"), [(1.0, "1.00"), (0.8, "0.80"), (0.725, "0.725"), (1e-07, "0.0000001")]
)
def test_a_threshold_is_shown_as_written(threshold: float, text: str) -> None:
    assert UNIT_RANGE.format_limit(threshold) == text


@pytest.mark.parametrize(
    ("path", "eval_id", "what", "command"),
    [
        ("e.json", "a", "m:f", "evalgate run e.json:a --agent python:m:f"),
        ("my evals.json", "$(id)", "m:f", "evalgate run 'my evals.json:$(id)' --agent python:m:f"),
        ("", "a", "m:f", ""),
        ("e.json", "", "m:f", ""),
        ("e.json", " a", "m:f", ""),
        ("-e.json", "a", "m:f", ""),
        ("e.json", "a\nb", "m:f", ""),
        ("e.json", "a\u202eb", "m:f", ""),
        ("e.json", "a", "m\x1b[0m", ""),
    ],
)
def test_reproduction(path: str, eval_id: str, what: str, command: str) -> None:
    record = replace(a_record(), agent=AgentInfo("python", what))
    assert build_repro_command(record, a_case_result(eval_id, path=path)) == command


def test_traces_of_eval_sets_are_scored_again_without_an_agent() -> None:
    found = [_named("e.json", "a"), _named("e.json", "b")]
    record = replace(a_record(*found), agent=AgentInfo("replay", EVAL_SET_TRACES))
    assert build_repro_command(record, found[0]) == "evalgate run e.json:a"
    assert build_group_command(record, found) == ("evalgate run e.json:a e.json:b", "all 2 cases")


def test_counts() -> None:
    assert format_case_counts(Totals(3, passed=2, failed=1)) == "3 cases: 2 passed, 1 failed"
    assert format_case_counts(Totals()) == "0 cases"
    changes = (
        CaseChange("s", "a", "new"),
        CaseChange("s", "b", "newly_failing"),
        CaseChange("s", "c", "new"),
    )
    assert (
        format_change_counts(a_record(), Comparison("b", changes=changes, unchanged=5))
        == "1 newly failing, 2 new, 5 unchanged"
    )


def test_a_quarantined_case_is_in_no_count_of_changes() -> None:
    about = Quarantine("anna", "slow", "2026-12-31")
    cases = (a_case_result("a"), a_case_result("b", "failed"), a_case_result("c"))
    quarantined = [replace(case, quarantine=about) for case in cases]
    comparison = Comparison(
        "b", changes=(CaseChange("travel", "b", "newly_failing"),), unchanged=3, left_out=2
    )
    record = a_record(*quarantined, a_case_result("d"), comparison=comparison)
    assert format_change_counts(record, comparison) == "1 unchanged, 3 quarantined, 2 not part of this run"
    assert list(list_changed_cases(record, 5)) == []


@pytest.mark.parametrize(
    ("is_quarantined", "flaky_now", "expected"), [(False, 1, []), (True, 0, ["passed (2 of 3 runs passed)"])]
)
def test_a_flaky_case_in_quarantine_is_listed_there_alone(
    is_quarantined: bool, flaky_now: int, expected: list[str]
) -> None:
    about = Quarantine("anna", "slow", "2026-12-31") if is_quarantined else None
    record = flaky_runs()
    record = replace(record, cases=tuple(replace(case, quarantine=about) for case in record.cases[1:]))
    assert len(list_flaky_cases(record)) == flaky_now
    assert [case.status for case in list_exempt_cases(record)] == expected


def _failed(eval_id: str, reason: str, score: float = 0.0) -> Finding:
    return Finding(a_case_result(eval_id, "failed", metrics=(CaseMetric("m", score, 1.0, "failed", reason),)))


def _crashed(eval_id: str, message: str) -> Finding:
    run = a_run_result(outcome="crashed", failure=Failure("exception", message))
    return Finding(a_case_result(eval_id, "errored", runs=(run,)))


@pytest.mark.parametrize(
    ("found", "groups"),
    [
        ((), []),
        (
            (_crashed("a", "port 1 is closed"), _failed("b", "x"), _crashed("c", "port 22 is closed")),
            [["a", "c"], ["b"]],
        ),
        ((_crashed("a", "no table `x`"), _crashed("b", "no table `y`")), [["a"], ["b"]]),
        ((_failed("a", "call 1 differs"), _failed("b", "call 2 differs")), [["a", "b"]]),
        ((_failed("a", "call 1 differs"), _failed("b", "call 1 differs", 0.5)), [["a"], ["b"]]),
        ((_failed("a", ""), _failed("b", "")), [["a"], ["b"]]),
        ((replace(_failed("a", "x"), is_new=True), _failed("b", "x")), [["a"], ["b"]]),
    ],
    ids=["none", "numbers", "words", "reasons", "scores", "silent", "new"],
)
def test_cases_of_one_cause_are_grouped(found: tuple[Finding, ...], groups: list[list[str]]) -> None:
    made = group_findings(found)
    assert [[each.case.eval_id for each in (group.first, *group.others)] for group in made] == groups
    assert sum(group.size for group in made) == len(found)


@pytest.mark.parametrize(
    ("runs", "further", "effort", "expected"),
    [
        (1, 0, None, ""),
        (1, 2, None, "1 run each, 2 follow-up runs"),
        (3, 0, None, "3 runs each"),
        (3, 1, None, "3 runs each, 1 follow-up run"),
        (1, 0, SamplingCost(2, 10, 0), "2 runs"),
        (1, 3, SamplingCost(5, 10, 5), "5 runs, 3 of them to follow up, 5 saved by `runs: auto`"),
    ],
)
def test_the_number_of_runs_is_described(
    runs: int, further: int, effort: SamplingCost | None, expected: str
) -> None:
    made = [replace(a_run_result(run=at), confirms=at > runs) for at in range(1, runs + further + 1)]
    record = replace(a_record(a_case_result(runs=tuple(made))), runs=runs, effort=effort)
    assert format_run_counts(record) == expected
    assert (expected in set(describe_run_totals(record))) is bool(expected)
    assert f" s, {expected}" in TerminalReport().render(record) or not expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("m is 0.50, below its threshold 0.80.", "Gate closed: m is 0.50, below its threshold 0.80"),
        ("m: Regression: the average fell.", "Gate closed. m: the average fell"),
        ("m: a broke: failed 4 of 4 runs.", "Gate closed. m, a broke: failed 4 of 4 runs"),
        ("a broke: failed all 3 runs.", "Gate closed. a broke: failed all 3 runs"),
    ],
)
def test_a_headline_has_one_colon(reason: str, expected: str) -> None:
    record = replace(a_record(a_case_result()), verdict=Verdict("fail", 1, (reason,)))
    assert build_headline(record)[0] == expected


def _named(path: str, eval_id: str) -> CaseResult:
    return replace(a_case_result(eval_id, "failed"), path=path)


@pytest.mark.parametrize(
    ("cases", "words", "command"),
    [
        ([("e.json", "a")], "", ""),
        ([("e.json", "a"), ("f.json", "b c")], "all 2 cases", "e.json:a 'f.json:b c'"),
        ([("e.json", "a,b"), ("e.json", "a")], "all 2 cases", "e.json:a,b e.json:a"),
        ([("e.json", "a"), ("e.json", "b\nc"), ("e.json", "d")], "2 of the 3 cases", "e.json:a e.json:d"),
        (
            [("e.json", f"a{at:094d}") for at in range(40)],
            "19 of the 40 cases",
            " ".join(f"e.json:a{at:094d}" for at in range(19)),
        ),
    ],
)
def test_one_command_repeats_a_group(cases: list[tuple[str, str]], words: str, command: str) -> None:
    found = [_named(*case) for case in cases]
    agent = "--agent python:agent.py:answer"
    made, described = build_group_command(a_record(*found), found)
    assert (made, described) == (f"evalgate run {command} {agent}" if command else "", words)


def test_an_undecided_metric_is_listed_next_to_a_deciding_one() -> None:
    undecided = MetricComparison("inconclusive", "noisy_drop", ("It may be luck.",), 0.05)
    worse = MetricComparison("fail", "average_fell", ("It fell.",), 0.05)
    metrics = (replace(a_summary("a"), judgement=worse), replace(a_summary("b"), judgement=undecided))
    record = replace(a_record(a_case_result(), metrics=metrics), verdict=Verdict("fail", 1, ("a: It fell.",)))
    assert list(describe_comparisons(record)) == [("b", "It may be luck.")]
    silent = replace(record, verdict=Verdict("inconclusive", 0, ("b: It may be luck.",)))
    assert list(describe_comparisons(silent)) == [("a", "It fell.")]
    for reporter in (TerminalReport(), CommentReport()):
        assert "It may be luck." in reporter.render(record)


@pytest.mark.parametrize(
    ("compared", "score_range", "said"),
    [
        (12, Range(0, 1), []),
        (4, Range(0, 1), ["Δ is over the 4 cases that can be compared."]),
        (4, Range(1e15, 0), []),  # a budget says itself which cases it compares
    ],
)
def test_delta_names_the_cases_that_it_is_over(compared: int, score_range: Range, said: list[str]) -> None:
    partial = replace(a_summary(), n=12, compared=compared, range=score_range)
    whole = replace(a_summary(), n=12, compared=12)
    assert list(explain_delta(a_record(metrics=(whole, partial)))) == said

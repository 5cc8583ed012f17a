"""Verdicts after control runs of the base commit."""

from dataclasses import replace

import pytest

from evalgate.config.schema.budgets import BudgetLimits
from evalgate.config.schema.gate import GateConfig
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import (
    Baseline,
    BaselineCase,
    BaselineRun,
    BaselineSource,
    CaseMetric,
    CaseResult,
    ControlCase,
    ControlComparison,
    ControlMetric,
    Criterion,
    RunMetric,
    RunResult,
)
from evalgate.gating.comparison import ComparedRuns, ScoredRuns, compare_runs
from evalgate.gating.control_comparison import apply_control, build_control_comparison
from evalgate.gating.control_suspects import ControlSuspects, FreshRuns, find_suspects
from evalgate.gating.failure_classification import classify_failures
from evalgate.gating.significance import decide_metrics
from evalgate.gating.statistical_policy import StatisticalPolicy
from evalgate.statistics.control_test import AverageControl, ControlDecision, decide_control_runs
from evalgate.statistics.parameters import Parameters
from tests.builders import a_case_result, a_run_result

TOKENS = "budget/tokens"
RUNS = 20
CASES = 5


def a_budgeted_case(name: str, tokens: float) -> CaseResult:
    made = tuple(
        a_run_result(run=run, metrics=(RunMetric(TOKENS, tokens, "passed"), RunMetric("m", 1.0, "passed")))
        for run in range(1, RUNS + 1)
    )
    metrics = (
        CaseMetric(TOKENS, tokens, 1e9, "passed", fingerprint="t", range=get_score_range(TOKENS)),
        CaseMetric("m", 1.0, 0.5, "passed", fingerprint="m"),
    )
    return a_case_result(name, metrics=metrics, runs=made)


def compare_tokens(limits: BudgetLimits, tokens: float) -> tuple[ComparedRuns, ScoredRuns]:
    """Compare cases that used 100 tokens in every stored run."""
    run = BaselineRun(0, "answered", {TOKENS: 100.0, "m": 1.0}, 1.0)
    names = [f"case_{at}" for at in range(CASES)]
    stored = tuple(
        BaselineCase("travel", name, "passed", "f00d", {TOKENS: "t", "m": "m"}, (run,) * RUNS)
        for name in names
    )
    baseline = Baseline(stored, (BaselineSource("2026-11-20T00:00:00Z"),))
    policy = StatisticalPolicy(
        Parameters(runs=RUNS),
        max_drop=0.05,
        criteria={
            TOKENS: Criterion(metric=TOKENS, threshold=1e9, range=get_score_range(TOKENS)),
            "m": Criterion(metric="m", threshold=0.5),
        },
        budgets={TOKENS: limits},
        case_runs=10,
    )
    cases = tuple(a_budgeted_case(name, tokens) for name in names)
    scored = ScoredRuns(cases, RUNS, policy, decide_metrics(cases, baseline, policy))
    return compare_runs(scored, baseline, GateConfig()), scored


def test_means_that_differ_are_told_apart() -> None:
    metric = CaseMetric("m", 0.8, 0.5, "passed", fingerprint="m")
    suspects = ControlSuspects(
        (a_case_result(metrics=(metric,)),),
        frozenset(),
        {},
        Baseline((), (BaselineSource("2026-11-20T00:00:00Z"),)),
        StatisticalPolicy(Parameters(), max_drop=0.05),
    )
    found = AverageControl("open", 10, 0.85, 0.8004, 0.8046, 0.0042, 0.04, 0.03, is_measured=True)
    control = build_control_comparison(suspects, {}, ControlDecision({}, {"m\0m": found}), commit="c0ffee")
    assert control.metrics[0].sentence == (
        "m: 10 further runs a case cannot tell whether the change lowered it (control 0.805, head 0.800 today)."
    )


def test_a_missed_minimum_stays_and_the_explained_drop_goes() -> None:
    names = [f"case_{at}" for at in range(CASES)]
    stored = BaselineRun(0, "answered", {"m": 1.0}, 1.0)
    baseline = Baseline(
        tuple(BaselineCase("travel", name, "passed", "f00d", {"m": "m"}, (stored,) * RUNS) for name in names),
        (BaselineSource("2026-11-20T00:00:00Z"),),
    )
    metric = CaseMetric("m", 0.5, 0.0, "passed", fingerprint="m", min_mean=0.9)
    made = tuple(
        a_run_result(run=run, metrics=(RunMetric("m", float(run % 2), "passed"),))
        for run in range(1, RUNS + 1)
    )
    cases = tuple(a_case_result(name, metrics=(metric,), runs=made) for name in names)
    policy = StatisticalPolicy(
        Parameters(runs=RUNS, follow_up=False),
        max_drop=0.05,
        criteria={"m": Criterion(metric="m", threshold=0.0, min_mean=0.9, rule="statistical")},
        case_runs=10,
    )
    scored = ScoredRuns(cases, RUNS, policy, decide_metrics(cases, baseline, policy))
    before = compare_runs(scored, baseline, GateConfig(baseline="b.json"))
    minimum = "0.50 is below the required 0.90, beyond noise (at most 0.60)."
    fell = "Regression: the average fell 50 points (1.00 → 0.50) over 5 cases × 20 runs."
    assert before.metrics[0].judgement
    assert before.metrics[0].judgement.sentences[0].startswith(fell)
    assert before.metrics[0].judgement.sentences[1] == minimum

    drifted = ControlComparison(
        "c0ffee",
        "drifted",
        tuple(ControlCase("travel", name, (), "drifted") for name in names),
        (ControlMetric("m", "m", "drifted"),),
    )
    (found,) = apply_control(before, scored, drifted).metrics
    assert found.judgement
    assert (found.judgement.verdict, found.regressed) == ("fail", False)
    assert found.judgement.sentences == (minimum,)


@pytest.mark.parametrize(
    ("answered", "left"),
    [
        (
            0,
            [
                "5 cases scored lower; taken alone, their runs could be luck: case_0, case_1, case_2, case_3, case_4."
            ],
        ),
        (4, ["1 case scored lower; taken alone, its runs could be luck: case_4."]),
        (5, []),
    ],
)
def test_a_case_that_control_runs_explain_is_not_called_luck(answered: int, left: list[str]) -> None:
    names = [f"case_{at}" for at in range(CASES)]
    stored = BaselineRun(0, "answered", {"m": 1.0}, 1.0)
    baseline = Baseline(
        tuple(BaselineCase("travel", name, "passed", "f00d", {"m": "m"}, (stored,) * 10) for name in names),
        (BaselineSource("2026-11-20T00:00:00Z"),),
    )
    metric = CaseMetric("m", 0.0, 0.0, "passed", fingerprint="m")
    made = (a_run_result(run=1, metrics=(RunMetric("m", 0.0, "passed"),)),)
    cases = tuple(a_case_result(name, metrics=(metric,), runs=made) for name in names)
    policy = StatisticalPolicy(
        Parameters(runs=1, follow_up=False),
        max_drop=0.05,
        criteria={"m": Criterion(metric="m", threshold=0.0)},
        case_runs=10,
    )
    scored = ScoredRuns(cases, 1, policy, decide_metrics(cases, baseline, policy))
    before = compare_runs(scored, baseline, GateConfig(baseline="b.json"))

    broke = ControlComparison(
        "c0ffee",
        "broke",
        tuple(ControlCase("travel", name, (), "broke") for name in names[:answered]),
        (ControlMetric("m", "m", "broke"),),
    )
    (found,) = apply_control(before, scored, broke).metrics
    assert found.judgement
    assert found.judgement.verdict == "fail"
    assert [each for each in found.judgement.sentences if "luck" in each] == left


def test_control_runs_do_not_clear_a_budget() -> None:
    drifted = ControlComparison("c0ffee", "drifted", (), ())
    for limits, tokens in (
        (BudgetLimits(max_increase=0.5, p95=50), 100.0),
        (BudgetLimits(max_increase=0.5), 200.0),
        (BudgetLimits(p95=50), 100.0),
    ):
        before, scored = compare_tokens(limits, tokens)
        budget = before.metrics[0]
        assert budget.regressed
        assert budget.judgement is not None
        assert budget.judgement.verdict == "fail"
        assert apply_control(before, scored, drifted) == before


def a_scored_run(number: int, **scores: float) -> RunResult:
    metrics = tuple(
        RunMetric(name, score, "passed" if score >= 0.5 else "failed") for name, score in scores.items()
    )
    return a_run_result(run=number, metrics=metrics)


def test_runs_that_failed_in_another_way_are_not_counted_as_passed() -> None:
    """`a` failed in 5 of 20 stored runs, and in one of the control; `b` never failed before."""
    stored = tuple(BaselineRun(0, "answered", {"a": float(at >= 5), "b": 1.0}, 1.0) for at in range(RUNS))
    old = BaselineCase("travel", "case", "failed", "f00d", {"a": "a", "b": "b"}, stored)
    baseline = Baseline((old,), (BaselineSource("2026-11-20T00:00:00Z"),))
    policy = StatisticalPolicy(Parameters(runs=1, follow_up=True), max_drop=0.05, case_runs=10)
    metrics = (
        CaseMetric("a", 1.0, 0.5, "passed", fingerprint="a"),
        CaseMetric("b", 0.0, 0.5, "failed", fingerprint="b"),
    )
    first = tuple(a_scored_run(number, a=1, b=0) for number in range(1, 11))
    (case,) = classify_failures(
        (a_case_result("case", "failed", metrics=metrics, runs=first),), baseline, policy
    )
    assert case.follow_up
    assert (case.follow_up.outcome, case.follow_up.baseline_otherwise) == ("broke", 5)
    suspects = ControlSuspects((case,), frozenset({case.key}), {}, baseline, policy)

    def compare(head: list[dict[str, float]], control: list[dict[str, float]]) -> ControlCase:
        sides = [
            replace(case, runs=tuple(a_scored_run(number, **each) for number, each in enumerate(side, 1)))
            for side in (head, control)
        ]
        fresh = {case.key: FreshRuns(*sides)}
        decision = decide_control_runs(*suspects.build_inputs(fresh), policy.parameters)
        (found,) = build_control_comparison(suspects, fresh, decision, commit="c0ffee").cases
        return found

    misses_a, misses_b, passes = ({"a": 0.0, "b": 1.0}, {"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 1.0})
    drifted = compare([misses_b] * 4, [misses_b] * 4)
    assert drifted.sentence.startswith(
        "case fails on main today as well (control 0 of 4, head 0 of 4 passed; 15 of 20 in the baseline; "
        "5 in the baseline failed in another way): "
    )
    broke = compare([misses_b] * 5, [misses_a, *[passes] * 4])
    assert broke.sentence == (
        "case broke: control 4 of 5, head 0 of 5 passed today; 1 of the control failed in another way."
    )
    assert (broke.control_failed, broke.control_otherwise, broke.head_otherwise) == (0, 1, 0)
    both = compare([misses_a, *[misses_b] * 4], [misses_a, *[passes] * 4])
    assert both.sentence.endswith(
        "(control 4 of 5, head 0 of 5 passed; 1 of the control and 1 of the head failed in another way)."
    )


def test_a_drop_of_exactly_half_of_the_limit_is_a_suspect() -> None:
    """0.3 - 0.275 is less than 0.025 for a computer."""
    stored = BaselineCase(
        "travel", "case", "passed", "f00d", {"m": "m"}, (BaselineRun(0, "answered", {"m": 0.3}, 1.0),)
    )
    baseline = Baseline((stored,), (BaselineSource("2026-11-20T00:00:00Z"),))
    metric = CaseMetric("m", 0.275, 0.0, "passed", fingerprint="m")
    run = a_run_result(metrics=(RunMetric("m", 0.275, "passed"),))
    cases = (a_case_result("case", metrics=(metric,), runs=(run,)),)
    policy = StatisticalPolicy(Parameters(runs=1), max_drop=0.05, case_runs=10)
    scored = ScoredRuns(cases, 1, policy, decide_metrics(cases, baseline, policy))
    suspects = find_suspects(scored, cases, baseline, "suspects")
    assert suspects is not None
    assert [*suspects.averages] == ["m\0m"]

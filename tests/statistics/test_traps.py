"""What goes wrong in gates that compare averages; each of these has closed or opened one by mistake."""

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.statistics.auto_runs import NextRuns, Step, decide_available_runs, plan_next_step
from evalgate.statistics.case_regression import classify_case
from evalgate.statistics.mean_difference import compare_means
from evalgate.statistics.metric_decisions import Decision, decide_without_follow_ups
from evalgate.statistics.multiple_testing import find_discoveries
from evalgate.statistics.parameters import MetricRule, Parameters, PassKRule
from evalgate.statistics.score_pairs import CaseScores, ScoreTable, normalize_scores, pair_cases
from tests.statistics.suites import metric, pairs, suite


def test_scores_that_never_differ_leave_room_for_doubt() -> None:
    change = compare_means(pairs(*[("111", "111")] * 20), alpha=0.05)

    assert change.p == 1
    assert change.drop == 0
    assert change.low < 0 < change.high


@pytest.mark.parametrize(("baseline_runs", "credible"), [(1, False), (5, False), (18, False), (19, True)])
def test_one_failed_run_is_not_a_regression(baseline_runs: int, credible: bool) -> None:
    table = suite(20, "1" * baseline_runs, "1", c0="0")
    found = decide_without_follow_ups({"m": table}, Parameters(runs=1)).metrics["m"]

    assert found.change is not None
    assert found.change.p == pytest.approx(1 / (baseline_runs + 1))
    assert (found.verdict == "fail") is credible


def test_one_failed_run_never_closes_auto() -> None:
    step = plan_next_step({"m": suite(20, "1" * 20, "1", c0="0x")}, Parameters(confirm_runs=2))

    assert isinstance(step, NextRuns)
    assert step.why == "round"


@pytest.mark.parametrize("zero", [0.0, -0.0, 1e-10, -1e-10])
def test_zero_is_zero(zero: float) -> None:
    assert normalize_scores([zero, 1 + 1e-10]) == (0, 1000)
    assert str(compare_means(pairs(("1", "1")), alpha=0.05).drop) == "0.0"


@pytest.mark.parametrize("size", [20, 40, 60, 140])
def test_a_drop_of_exactly_the_allowance_is_too_much(size: int) -> None:
    """0.05 is no binary fraction: sums of it come out a little more or less."""
    names = [f"c{index}" for index in range(size)]
    candidate = {name: "0" if index < size // 20 else "1" for index, name in enumerate(names)}
    table = metric(dict.fromkeys(names, "1" * 10), candidate)
    found = decide_without_follow_ups({"m": table}, Parameters(runs=1)).metrics["m"]

    assert found.reason in {"noisy_drop", "average_fell"}


def test_a_drop_of_nothing_is_within_an_allowance_of_nothing() -> None:
    table = suite(5, "111", "111", rule=MetricRule(max_drop=0.0))

    assert decide_without_follow_ups({"m": table}, Parameters(runs=3)).metrics["m"].reason == "unchanged"


def test_a_baseline_of_zeros_cannot_regress() -> None:
    found = decide_without_follow_ups({"m": suite(10, "0" * 10, "000")}, Parameters(runs=3)).metrics["m"]

    assert (found.verdict, found.reason) == ("pass", "unchanged")
    assert not found.list_cases("broken")
    assert not found.list_cases("suspect")


@pytest.mark.parametrize(("stored", "now"), [("1010101010", "1"), ("0", "1"), ("0110", "11")])
def test_a_rise_of_one_flaky_case_can_be_luck(stored: str, now: str) -> None:
    table = metric({"c0": stored, "c1": "11"}, {"c0": now, "c1": "1"})
    found = decide_without_follow_ups({"m": table}, Parameters(runs=len(now))).metrics["m"]
    assert found.change is not None
    assert found.change.drop < -0.05
    assert found.change.rise_p > 0.1
    assert found.reason == "no_sign"


def test_a_case_that_looked_bad_in_the_first_round_only_is_no_suspect() -> None:
    table = metric({"c0": "1010101010", "c1": "1111111111"}, {"c0": "01", "c1": "11"})
    found = decide_available_runs({"m": table}, Parameters(max_runs=2)).metrics["m"]
    assert {case: each.status for case, each in found.cases.items()} == {"c0": "ok", "c1": "ok"}


def test_a_better_candidate_passes() -> None:
    found = decide_without_follow_ups({"m": suite(10, "00110", "111")}, Parameters(runs=3)).metrics["m"]

    assert (found.verdict, found.reason) == ("pass", "better")
    assert found.change is not None
    assert found.change.p > 0.999


def test_the_list_of_a_fixed_design_is_refused_after_reruns() -> None:
    with pytest.raises(ValueError, match="unequally often"):
        find_discoveries(pairs(("1" * 10, "000"), ("1" * 10, "1")), 0.1)


def test_auto_never_makes_that_list() -> None:
    step = plan_next_step({"m": suite(20, "1" * 10, "1", c0="0000")}, Parameters())

    assert isinstance(step, Decision)
    assert step.metrics["m"].list_cases("broken") == ("c0",)
    assert step.metrics["m"].significant_cases is None


def test_runs_that_confirm_a_suspect_stay_out_of_the_average() -> None:
    step = plan_next_step({"m": suite(50, "1" * 10, "1", c0="01")}, Parameters())

    assert isinstance(step, Decision)
    change = step.metrics["m"].change
    assert change is not None
    assert change.drop == pytest.approx(1 / 50)
    assert step.metrics["m"].cases["c0"].mean == 0.5
    assert step.cost.spent == 51


def test_averages_do_not_rest_on_runs_that_confirm_a_suspect() -> None:
    step = plan_next_step({"m": suite(20, "1" * 10, "1", c0="0000")}, Parameters())

    assert isinstance(step, Decision)
    assert (step.runs_per_case["c0"], step.metrics["m"].rounds) == (4, 1)


@pytest.mark.parametrize("score", [1.001, -0.001, 5])
def test_a_score_outside_0_to_1_is_an_error_with_its_case(score: float) -> None:
    with pytest.raises(InvalidInputError, match="case refund: the score"):
        pair_cases({"refund": CaseScores([1.0], [score])}, keep=20)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_is_a_positive_number(weight: float) -> None:
    with pytest.raises(InvalidInputError, match="case refund: the weight"):
        pair_cases({"refund": CaseScores([1.0], [1.0], weight=weight)}, keep=20)


@pytest.mark.parametrize("nothing", [None, float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_missing_and_never_zero(nothing: float | None) -> None:
    found = pair_cases({"c": CaseScores([1.0], [1.0, nothing])}, keep=20)

    assert (found.missing, found.planned) == (1, 2)
    assert found.pairs[0].candidate == (1000,)


def test_every_case_has_its_place() -> None:
    cases = {
        "same": CaseScores([1.0], [1.0]),
        "new": CaseScores(None, [1.0]),
        "removed": CaseScores([1.0], None),
        "changed": CaseScores([1.0], [0.0], comparable=False),
        "no_score": CaseScores([1.0], [None]),
    }
    found = decide_without_follow_ups({"m": ScoreTable(cases)}, Parameters(runs=1, max_missing=0.5)).metrics[
        "m"
    ]

    assert {case: outcome.status for case, outcome in found.cases.items()} == {
        "same": "ok",
        "new": "new",
        "removed": "removed",
        "changed": "changed",
        "no_score": "no_score",
    }
    assert found.worse == ()


def test_without_anything_to_compare_the_verdict_is_inconclusive() -> None:
    found = decide_without_follow_ups({"m": metric({}, {"a": "1"})}, Parameters(runs=1)).metrics["m"]

    assert (found.verdict, found.reason) == ("inconclusive", "no_baseline")
    assert decide_without_follow_ups({}, Parameters(runs=1)).verdict == "inconclusive"


def test_a_case_that_was_never_run_is_missing_and_one_that_was_stopped_early_is_not() -> None:
    table = suite(10, "1" * 10, "111", c0="1", c1="", c2="")
    found = decide_without_follow_ups({"m": table}, Parameters(runs=3)).metrics["m"]

    assert (found.reason, found.missing, found.planned) == ("missing_runs", 6, 30)


def test_missing_scores_are_not_reported_as_a_missing_baseline() -> None:
    found = decide_without_follow_ups({"m": suite(3, "1" * 10, "xxx")}, Parameters(runs=3)).metrics["m"]

    assert found.reason == "missing_runs"


def test_only_the_newest_baseline_runs_count() -> None:
    found = decide_without_follow_ups(
        {"m": suite(5, "0" * 10 + "1" * 20, "000")}, Parameters(runs=3)
    ).metrics["m"]

    assert found.change is not None
    assert found.change.baseline == 1


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        (Parameters(), MetricRule()),
        (Parameters(runs=3), MetricRule(min_score=0.9, reliability=PassKRule(3, 0.5))),
    ],
)
def test_the_order_of_cases_and_metrics_does_not_matter(parameters: Parameters, rule: MetricRule) -> None:
    table = suite(12, "1110111011", "11011", c3="00000", c7="01010", rule=rule)
    turned = ScoreTable(dict(reversed(list(table.cases.items()))), rule)

    def found(metrics: dict[str, ScoreTable]) -> Step:
        return (
            decide_without_follow_ups(metrics, parameters)
            if parameters.runs
            else plan_next_step(metrics, parameters)
        )

    assert found({"a": table, "b": suite(12, "1", "1")}) == found({"b": suite(12, "1", "1"), "a": turned})


@pytest.mark.parametrize(
    ("candidate", "limit", "expected"),
    [
        ((500,), None, "suspect"),
        ((500,), 10, "rerun"),
        ((500,) * 6, 10, "rerun"),
        ((500,) * 7, 10, "broken"),
        ((500,), 6, "suspect"),
        ((500, 1000), 10, "suspect"),
        ((500, 1000, 1000), 10, "ok"),
        ((0,), 10, "rerun"),
    ],
)
def test_a_case_whose_failures_score_half_gets_the_runs_that_confirm_it(
    candidate: tuple[int, ...], limit: int | None, expected: str
) -> None:
    baseline = (500, *[1000] * 9)  # one stored run failed as the case fails now
    found = classify_case(baseline, tuple(sorted(candidate)), t=0.0005, need=5, case_drop=0.2, limit=limit)
    assert found == expected

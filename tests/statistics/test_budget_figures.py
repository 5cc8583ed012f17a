"""Laws of the comparison of figures: ratios of logarithms, and bounds of percentiles."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.statistics.budget_figures import (
    CaseFigures,
    compare_percentile,
    count_needed_runs,
    scale_logarithms,
)
from evalgate.statistics.metric_decisions import MetricDecision, decide_without_follow_ups
from evalgate.statistics.parameters import MetricRule, Parameters
from evalgate.statistics.score_pairs import ScoreTable
from evalgate.statistics.threshold_test import compute_student_quantile

RUNS = 3
Suite = list[tuple[list[float], list[float]]]
figure = st.floats(1.0, 1e4)
suite = st.lists(st.tuples(*[st.lists(figure, min_size=RUNS, max_size=RUNS)] * 2), min_size=2, max_size=4)
TOLERANCE = 2e-2  # shares are rounded to thousandths of a width of at most ln 10,000


def decide(cases: Suite, offset: float = 0.0, most: float = 0.15) -> tuple[MetricDecision, list[float]]:
    """Return the decision, and value, low and high end of the ratio."""
    rows = {f"c{at}": CaseFigures(then, now) for at, (then, now) in enumerate(cases)}
    shares = scale_logarithms(rows, offset=offset)
    rule = MetricRule(shares.to_drop(most), is_figure=True)
    found = decide_without_follow_ups({"m": ScoreTable(shares.cases, rule)}, Parameters(runs=RUNS)).metrics[
        "m"
    ]
    assert found.change is not None
    return found, [shares.to_ratio(end) for end in (found.change.drop, found.change.low, found.change.high)]


def compute_ratio(cases: Suite, offset: float = 0.0) -> float:
    """The geometric mean of the cases' ratios of geometric means."""
    changes = [
        sum(math.log(each + offset) for each in now) / RUNS
        - sum(math.log(each + offset) for each in then) / RUNS
        for then, now in cases
    ]
    return math.exp(sum(changes) / len(changes))


@settings(max_examples=40)
@given(suite)
def test_the_ratio_is_that_of_the_geometric_means(cases: Suite) -> None:
    _, ratios = decide(cases)
    assert ratios[0] == pytest.approx(compute_ratio(cases), rel=TOLERANCE)
    assert ratios[1] <= ratios[0] <= ratios[2]


@settings(max_examples=40)
@given(suite, st.floats(0.01, 100))
def test_another_unit_changes_nothing(cases: Suite, factor: float) -> None:
    scaled = [([factor * x for x in then], [factor * x for x in now]) for then, now in cases]
    (found, ratios), (other, others) = decide(cases), decide(scaled)
    assert others == pytest.approx(ratios, rel=TOLERANCE)
    assert found.change is not None
    assert other.change is not None
    assert other.change.p == pytest.approx(found.change.p, abs=0.05)


@settings(max_examples=40)
@given(suite)
def test_swapped_sides_invert_the_ratio(cases: Suite) -> None:
    _, (value, low, high) = decide(cases)
    _, others = decide([(now, then) for then, now in cases])
    assert others == pytest.approx([1 / value, 1 / high, 1 / low], rel=TOLERANCE)


@settings(max_examples=40)
@given(suite, st.floats(1.05, 3.0))
def test_larger_figures_now_never_lower_the_ratio(cases: Suite, factor: float) -> None:
    grown = [
        (then, [cases[0][1][0] * factor, *now[1:]] if at == 0 else now)
        for at, (then, now) in enumerate(cases)
    ]
    assert decide(grown)[1][0] >= decide(cases)[1][0] * (1 - TOLERANCE)


def test_counts_of_zero_are_compared_with_one_added() -> None:
    cases: Suite = [([0, 0, 0], [1, 1, 1]), ([1, 1, 1], [1, 1, 1])]
    assert decide(cases, offset=1.0)[1][0] == pytest.approx(math.sqrt(2), rel=1e-3)


def test_a_figure_without_a_logarithm_and_a_run_that_is_left_out_are_missing_nowhere() -> None:
    rows = {"a": CaseFigures((0.0, 2.0, 2.0), (2.0, None, 2.0)), "b": CaseFigures(None, (1.0, 1.0, 1.0))}
    shares = scale_logarithms(rows)
    table = ScoreTable(shares.cases, MetricRule(shares.to_drop(0.1), is_figure=True))
    found = decide_without_follow_ups({"m": table}, Parameters(runs=RUNS)).metrics["m"]
    assert (found.missing, found.verdict) == (0, "pass")
    assert found.change is not None
    assert found.change.cases == 1


def test_no_single_case_is_judged() -> None:
    cases: Suite = [([1.0] * 3, [1.0] * 3)] * 30 + [([1.0] * 3, [1000.0] * 3)]
    found, _ = decide(cases, most=5.0)
    assert found.verdict == "pass"
    assert {each.status for each in found.cases.values()} == {"ok"}


def test_a_percentile_needs_59_runs_at_five_percent() -> None:
    assert count_needed_runs(0.05) == 59
    assert compare_percentile([1.0] * 58, 8.0, alpha=0.05) is None
    found = compare_percentile([1.0] * 58 + [9.0], 8.0, alpha=0.05)
    assert found is not None
    assert (found.value, found.high, found.verdict) == (1.0, 9.0, "pass")
    proof = compare_percentile([1.0] * 58 + [9.0], 8.0, alpha=0.05, require="proof")
    assert proof is not None
    assert proof.verdict == "inconclusive"


@pytest.mark.parametrize(("slow", "verdict"), [(2, "pass"), (7, "inconclusive"), (12, "fail")])
def test_a_percentile_fails_only_beyond_luck(slow: int, verdict: str) -> None:
    found = compare_percentile([1.0] * (100 - slow) + [9.0] * slow, 8.0, alpha=0.05)
    assert found is not None
    assert found.verdict == verdict


def test_the_bounds_of_a_percentile_hold_as_often_as_they_say() -> None:
    draw, truth, missed = random.Random(5), math.exp(1.6448536), [0, 0]
    for _ in range(1500):
        found = compare_percentile([draw.lognormvariate(0, 1) for _ in range(120)], 1.0, alpha=0.05)
        assert found is not None
        missed[0] += found.low > truth
        missed[1] += found.high < truth
    assert max(missed) / 1500 < 0.05 + 0.012


@pytest.mark.parametrize(
    ("alpha", "freedom", "quantile"),
    [
        (0.05, 1, 6.314),
        (0.05, 2, 2.920),
        (0.05, 3, 2.353),
        (0.05, 10, 1.812),
        (0.01, 3, 4.541),
        (0.01, 30, 2.457),
        (0.05, 1.5, 3.705),
        (0.025, 3.7, 2.868),
        (0.01, 12.4, 2.668),
    ],
)
def test_quantiles_of_student(alpha: float, freedom: float, quantile: float) -> None:
    assert compute_student_quantile(alpha, freedom) == pytest.approx(quantile, rel=0.03)

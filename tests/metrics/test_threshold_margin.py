"""How close a mean is to its threshold."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.means import compute_mean
from evalgate.core.types import CaseMetric, CaseResult, RunMetric
from evalgate.metrics.metric_summaries import compute_threshold_margin
from tests.builders import RESPONSE, a_case_result, a_run_result


def case(*scores: float, weight: float = 1.0) -> tuple[CaseResult, CaseMetric]:
    runs = tuple(
        a_run_result(run=number, metrics=(RunMetric(RESPONSE, score, "passed"),))
        for number, score in enumerate(scores, 1)
    )
    metric = CaseMetric(RESPONSE, compute_mean(scores) if scores else None, 0.5, "passed")
    return replace(a_case_result(metrics=(metric,), runs=runs), weight=weight), metric


@pytest.mark.parametrize(
    ("score", "threshold", "cases", "distance", "runs"),
    [
        (1.0, 0.8, [case(1.0), case(1.0)], 0.2, 1),
        (0.5, 0.8, [case(1.0), case(0.0)], 0.3, 1),
        (0.0, 0.75, [case(0.0, 0.0), case(0.0, 0.0)], 0.75, 3),
        (1.0, 1.0, [case(1.0)], 0.0, 1),
        (0.8, 0.8, [case(0.8), case(0.8)], 0.0, 1),
        (0.0, 0.0, [case(0.0)], 0.0, None),
        (0.75, 0.7, [case(1.0, weight=3), case(0.0)], 0.05, 1),
        (1.0, 0.5, [case(1.0, 1.0), case(1.0, 1.0)], 0.5, 3),
    ],
)
def test_distance_and_fewest_runs(
    score: float,
    threshold: float,
    cases: list[tuple[CaseResult, CaseMetric]],
    distance: float,
    runs: int | None,
) -> None:
    found = compute_threshold_margin(score, threshold, cases)
    assert found is not None
    assert (found.limit, found.runs) == (threshold, runs)
    assert found.distance == pytest.approx(distance)


def test_without_a_mean_or_beyond_a_unit_there_is_none() -> None:
    assert compute_threshold_margin(None, 0.5, [case()]) is None
    assert compute_threshold_margin(3.0, 0.5, [case(3.0)]) is None


@given(
    st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3), min_size=1, max_size=5),
    st.integers(0, 100).map(lambda percent: percent / 100),
)
def test_so_many_runs_turn_it_and_one_less_does_not(scores: list[list[float]], threshold: float) -> None:
    """Every case has as many runs, so that which of them turn makes no difference."""
    flat = [score for own in scores for score in own]
    found = compute_threshold_margin(compute_mean(flat), threshold, [case(*own) for own in scores])
    assert found is not None
    met = compute_mean(flat) >= threshold
    turned = sorted(flat, reverse=met)
    for runs in range(1, len(flat) + 1):
        turned[runs - 1] = 0.0 if met else 1.0
        if (sum(turned) / len(turned) + (1e-9 if not met else 0) >= threshold) != met:
            assert found.runs is not None
            assert abs(found.runs - runs) <= (abs(sum(turned) / len(turned) - threshold) < 1e-8)
            return
    assert found.runs is None

"""Intervals of shares."""

import math

import pytest

from evalgate.statistics.threshold_test import compute_normal_quantile, compute_wilson_interval


@pytest.mark.parametrize(("successes", "trials"), [(3, 200), (10, 20), (1, 2), (199, 200)])
def test_the_bounds_of_a_share_are_those_from_which_it_is_just_so_far_away(
    successes: int, trials: int
) -> None:
    share = successes / trials
    for bound in compute_wilson_interval(successes, trials):
        reach = compute_normal_quantile(0.025) * math.sqrt(bound * (1 - bound) / trials)
        assert abs(share - bound) == pytest.approx(reach)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 0, 0.0, 1.0), (0, 200, 0.0, 0.01885), (20, 20, 0.83887, 1.0), (0, 1, 0.0, 0.79345)],
)
def test_a_share_that_was_never_or_always_seen_has_an_interval(
    successes: int, trials: int, low: float, high: float
) -> None:
    assert compute_wilson_interval(successes, trials) == pytest.approx((low, high), abs=1e-5)

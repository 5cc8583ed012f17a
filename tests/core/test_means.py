"""Means must not leave the range of their values, nor miss a threshold by a rounding error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.means import compute_mean

scores = st.floats(0, 1)


@given(st.lists(scores, min_size=1))
def test_a_mean_stays_within_its_values(values: list[float]) -> None:
    assert min(values) <= compute_mean(values) <= max(values)


def test_the_mean_of_huge_values_is_finite() -> None:
    assert compute_mean([1.7e308, 1.7e308]) == 1.7e308


@given(scores, st.integers(1, 50))
def test_the_mean_of_equal_scores_is_that_score(score: float, count: int) -> None:
    assert compute_mean([score] * count) == score


@pytest.mark.parametrize(("value", "expected"), [(1, "1.0"), (-0.0, "0.0"), (0.7, "0.7"), (True, "1.0")])
def test_the_mean_of_one_value_is_the_float_that_a_sum_gives(value: float, expected: str) -> None:
    assert repr(compute_mean([value])) == repr(compute_mean([value, value])) == expected

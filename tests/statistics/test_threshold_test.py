"""Minima and pass^k: literal on the right side, inconclusive within noise on the other."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.statistics.parameters import PassKRule
from evalgate.statistics.score_pairs import normalize_scores
from evalgate.statistics.threshold_test import compare_mean_with_minimum, compare_reliability_with_minimum
from tests.statistics.suites import runs


@pytest.mark.parametrize(("cases", "proven"), [(54, False), (55, True)])
def test_55_clean_runs_prove_less_than_5_points_of_failure(cases: int, proven: bool) -> None:
    found = compare_mean_with_minimum([(normalize_scores([1.0]), 1.0)] * cases, 0.95, alpha=0.05)

    assert (found.verdict, found.low >= 0.95) == ("pass", proven)


@pytest.mark.parametrize(("minimum", "cases"), [(0.7, 10), (0.8, 14), (0.9, 28), (0.95, 55), (0.99, 271)])
def test_perfect_cases_that_prove_reliability(minimum: float, cases: int) -> None:
    demand, perfect = PassKRule(3, minimum), (normalize_scores([1.0] * 3), 1.0)
    enough = compare_reliability_with_minimum([perfect] * cases, demand, alpha=0.05, require="proof")
    short = compare_reliability_with_minimum([perfect] * (cases - 1), demand, alpha=0.05, require="proof")

    assert enough is not None
    assert short is not None
    assert (enough.verdict, short.verdict) == ("pass", "inconclusive")


@given(st.text("01", min_size=1, max_size=8), st.integers(1, 8))
def test_pass_hat_k_is_the_share_of_choices_that_all_pass(text: str, k: int) -> None:
    found = compare_reliability_with_minimum(
        [(normalize_scores(runs(text)), 1.0)], PassKRule(k, 0.5), alpha=0.05
    )
    choices = list(itertools.combinations(text, k))

    if not choices:
        assert found is None
    else:
        assert found is not None
        assert found.value == pytest.approx(sum(set(choice) == {"1"} for choice in choices) / len(choices))


@pytest.mark.parametrize("minimum", [0.1, 0.3, 0.7, 0.9])
def test_equality_passes(minimum: float) -> None:
    assert (
        compare_mean_with_minimum([(normalize_scores([minimum] * 3), 1.0)] * 3, minimum, alpha=0.05).verdict
        == "pass"
    )


@given(
    st.lists(st.tuples(st.text("01", min_size=1, max_size=4), st.sampled_from([0.5, 1.0, 3.0])), min_size=1)
)
def test_an_interval_holds_its_estimate_and_never_collapses(cases: list[tuple[str, float]]) -> None:
    found = compare_mean_with_minimum(
        [(normalize_scores(runs(text)), weight) for text, weight in cases], 0.5, alpha=0.05
    )

    assert -1e-12 <= found.low <= found.value <= found.high + 1e-12
    assert found.high > found.low


def test_weights_weigh() -> None:
    found = compare_mean_with_minimum(
        [(normalize_scores([1.0]), 3.0), (normalize_scores([0.0]), 1.0)], 0.5, alpha=0.05
    )

    assert found.value == pytest.approx(0.75)

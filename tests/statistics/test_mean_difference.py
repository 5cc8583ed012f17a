"""The joint law of several cases is that of every choice counted one by one."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.statistics import mean_difference
from evalgate.statistics.mean_difference import MeanDifference, compare_means
from evalgate.statistics.score_pairs import Pair
from tests.statistics.suites import pair, pairs
from tests.statistics.test_case_permutation_test import every_choice, scores

binary = st.sampled_from([0.0, 1.0])


@st.composite
def suites(draw: st.DrawFn, most: int = 3, longest: int = 3) -> list[Pair]:
    sides = st.lists(draw(st.sampled_from([scores, binary])), min_size=1, max_size=longest)
    weights = st.sampled_from([0.1, 0.2, 1.0, 2.0, 3.0])
    return [
        pair(f"c{index}", draw(sides), draw(sides), draw(weights))
        for index in range(draw(st.integers(1, most)))
    ]


def compared(suite: list[Pair]) -> MeanDifference:
    return compare_means(suite, alpha=0.05)


def by_enumeration(suite: list[Pair]) -> float:
    """Mid-p over the product of all choices; plain p when one case is informative."""
    total = sum(one.weight for one in suite)
    informative = [one for one in suite if len({*one.baseline, *one.candidate}) > 1]
    if not informative:
        return 1.0
    moved = [
        [
            -(one.weight / total)
            * (1 / len(one.baseline) + 1 / len(one.candidate))
            * (chosen - sum(one.candidate))
            / 1000
            for chosen in every_choice(one)
        ]
        for one in informative
    ]
    drops = [math.fsum(choice) for choice in itertools.product(*moved)]
    larger, equal = sum(drop > 1e-8 for drop in drops), sum(abs(drop) <= 1e-8 for drop in drops)
    return (larger + (equal if len(informative) == 1 else equal / 2)) / len(drops)


@settings(deadline=None)
@given(suites())
def test_convolution_is_enumeration(suite: list[Pair]) -> None:
    assert compared(suite).p == pytest.approx(by_enumeration(suite), abs=1e-9)


@settings(deadline=None)
@given(suites(most=6, longest=6))
def test_p_is_a_probability(suite: list[Pair]) -> None:
    assert 0 <= compared(suite).p <= 1


@settings(deadline=None)
@given(suites(most=6, longest=6))
def test_the_order_of_cases_and_runs_does_not_matter(suite: list[Pair]) -> None:
    shuffled = [
        pair(
            one.case,
            [score / 1000 for score in reversed(one.baseline)],
            [score / 1000 for score in reversed(one.candidate)],
            one.weight,
        )
        for one in reversed(suite)
    ]

    assert compared(shuffled) == compared(suite)


@settings(deadline=None)
@given(suites())
def test_a_further_failed_run_never_makes_the_candidate_look_better(suite: list[Pair]) -> None:
    first, *others = suite
    worse = Pair(first.case, first.baseline, (0, *first.candidate), first.weight)

    assert compared([worse, *others]).drop >= compared(suite).drop - 1e-12


@pytest.mark.parametrize("candidate", ["111", "101", "100"])
def test_the_normal_law_is_close_to_the_exact_one(candidate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = pairs(*[("1101110101", "101")] * 50, *[("1111111110", candidate)] * 10)
    exact = compared(suite)
    monkeypatch.setattr(mean_difference, "_BUDGET", 0)
    normal = compared(suite)

    assert (exact.method, normal.method) == ("exact", "normal")
    assert normal.p == pytest.approx(exact.p, abs=0.0036)


def test_only_large_suites_are_left_to_the_normal_law() -> None:
    flaky = ("1101110101", "101")

    assert compared(pairs(*[flaky] * 170)).method == "exact"
    assert compared(pairs(*[flaky] * 300)).method == "normal"

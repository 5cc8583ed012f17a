"""The permutation law of one case is that of every choice counted one by one."""

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.statistics.case_permutation_test import compute_case_p, compute_sum_distribution, find_largest_p
from evalgate.statistics.score_pairs import Pair
from tests.statistics.suites import pair, runs

scores = st.one_of(st.sampled_from([0.0, 1.0]), st.integers(0, 20).map(lambda n: n / 20), st.floats(0, 1))


def every_choice(one: Pair) -> list[int]:
    pooled = one.baseline + one.candidate
    return [sum(choice) for choice in itertools.combinations(pooled, len(one.candidate))]


@settings(deadline=None)
@given(st.lists(scores, min_size=1, max_size=5), st.lists(scores, min_size=1, max_size=5))
def test_a_case_alone_is_enumeration(baseline: list[float], candidate: list[float]) -> None:
    one = pair("c", baseline, candidate)
    sums = every_choice(one)

    assert compute_case_p(one.baseline, one.candidate) == sum(s <= sum(one.candidate) for s in sums) / len(
        sums
    )


@given(st.lists(scores, min_size=2, max_size=8), st.data())
def test_the_law_of_a_sum_counts_every_choice(pooled: list[float], data: st.DataObject) -> None:
    ordered = pair("c", pooled, []).baseline
    size = data.draw(st.integers(1, len(ordered) - 1))
    law = compute_sum_distribution(ordered, size)

    found = {law.lowest + index * law.step: count for index, count in enumerate(law.counts) if count}
    sums = [sum(choice) for choice in itertools.combinations(ordered, size)]
    assert found == {total: sums.count(total) for total in sums}


def test_more_choices_than_a_machine_word_holds() -> None:
    law = compute_sum_distribution((0,) * 40 + (1000,) * 40, 40)

    assert sum(law.counts) == math.comb(80, 40) > 2**64
    assert law.counts[0] == law.counts[-1] == 1


@pytest.mark.parametrize(
    ("baseline", "candidate", "p"),
    [
        ("11111", "00000", 1 / 252),
        ("1" * 10, "0000", 1 / 1001),
        ("1" * 10, "111", 1.0),
        ("00000", "000", 1.0),
    ],
)
def test_least_attainable_p(baseline: str, candidate: str, p: float) -> None:
    one = pair("c", runs(baseline), runs(candidate))

    assert compute_case_p(one.baseline, one.candidate) == pytest.approx(p, abs=1e-15)


@given(st.lists(scores, min_size=2, max_size=8), st.floats(0, 1.1), st.data())
def test_the_largest_p_within_a_threshold_is_never_too_small(
    pooled: list[float], threshold: float, data: st.DataObject
) -> None:
    ordered = pair("c", pooled, []).baseline
    size = data.draw(st.integers(1, len(ordered) - 1))
    law = compute_sum_distribution(ordered, size)
    attainable = [below / sum(law.counts) for below in itertools.accumulate(law.counts)]

    found = find_largest_p(ordered, size, threshold)
    assert max((p for p in attainable if p <= threshold), default=0.0) <= found <= max(threshold, 0)


def test_the_bound_of_p_has_no_largest_number_of_runs() -> None:
    """515 of 1,030 runs can be chosen in more ways than a float can count."""
    pooled = tuple(sorted(random.Random(1).choices(range(1001), k=1030)))
    for threshold in (0.05, 1e-9, 1e-300):
        assert find_largest_p(pooled, 515, threshold) == pytest.approx(threshold, rel=1e-6)

"""Many tests at once keep their common budget."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.statistics.case_regression import build_confirmation_plan
from evalgate.statistics.metric_assessment import can_detect_total_drop
from evalgate.statistics.multiple_testing import (
    compute_hochberg_levels,
    compute_holm_levels,
    find_discoveries,
)
from tests.statistics.suites import pair, pairs

levels = st.lists(st.floats(0, 0.2), min_size=1, max_size=6)


@given(levels)
def test_holm_rejects_as_adjusted_p_values_do(p_values: list[float]) -> None:
    """The adjusted p is the largest of (M − i)·p up to there."""
    found = compute_holm_levels({str(index): p for index, p in enumerate(p_values)}, 0.05)
    ascending, largest = sorted(p_values), 0.0
    for index, p in enumerate(ascending):
        largest = max(largest, (len(p_values) - index) * p)
        if abs(largest - 0.05) > 1e-9:
            assert all(
                (p_values[int(name)] <= level) is (largest <= 0.05)
                for name, level in found.items()
                if p_values[int(name)] == p
            )


@given(levels)
def test_holm_is_between_bonferroni_and_nothing(p_values: list[float]) -> None:
    found = compute_holm_levels({str(index): p for index, p in enumerate(p_values)}, 0.05)

    assert all(0.05 / len(p_values) <= level <= 0.05 for level in found.values())


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_hochberg_rejects_whatever_holm_does_and_as_statsmodels_defines_it(p_values: list[float]) -> None:
    named = {str(index): p for index, p in enumerate(p_values)}
    levels, narrower = compute_hochberg_levels(named, 0.1), compute_holm_levels(named, 0.1)
    ascending = sorted(p_values)
    reached = [p for at, p in enumerate(ascending) if p <= 0.1 / (len(ascending) - at)]

    for name, p in named.items():
        assert (p <= levels[name]) == (p <= max(reached, default=-1.0))
        assert p <= levels[name] or p > narrower[name]


def test_four_metrics_that_fell_together_are_as_doubtful_as_one() -> None:
    together = dict.fromkeys("abcd", 0.06)

    assert compute_hochberg_levels(together, 0.1) == dict.fromkeys("abcd", 0.06)
    assert set(compute_holm_levels(together, 0.1).values()) == {0.025}


@pytest.mark.parametrize(
    ("cases", "baseline", "expected"),
    [(2, "1", False), (3, "1", True), (20, "1", True), (1, "111", False), (2, "111", True), (5, "0", False)],
)
def test_a_suite_can_doubt_if_a_fall_of_every_case_would_be_unusual(
    cases: int, baseline: str, expected: bool
) -> None:
    assert can_detect_total_drop(pairs(*[(baseline, "1")] * cases), 0.1) is expected


def test_one_metric_has_the_whole_level() -> None:
    assert compute_holm_levels({"a": 0.9}, 0.05) == {"a": 0.05}
    assert compute_holm_levels({}, 0.05) == {}


@pytest.mark.parametrize(("baseline_runs", "cells"), [(3, 5), (5, 60), (10, 3695)])
def test_a_baseline_can_confirm_so_many_cells(baseline_runs: int, cells: int) -> None:
    def confirmable(count: int) -> int:
        scores = {("m", str(index)): (1000,) * baseline_runs for index in range(count)}
        plan = build_confirmation_plan(scores, case_alpha=0.02, case_drop=0.25, confirm_runs=10)
        return len(plan.need)

    assert confirmable(cells) == cells
    assert confirmable(cells + 1) == 0


def test_the_list_names_what_broke() -> None:
    suite = pairs(*[("1" * 10, "000")] * 2, *[("1" * 10, "111")] * 48)

    assert find_discoveries(suite, 0.1) == ("c0", "c1")


def test_the_list_says_nothing_about_a_thin_baseline() -> None:
    assert find_discoveries(pairs(("111", "000"), *[("110", "100")] * 19), 0.1) == ()


def drawn(chance: float, count: int, dice: random.Random) -> list[float]:
    return [float(dice.random() < chance) for _ in range(count)]


def test_the_list_rarely_names_an_unchanged_case() -> None:
    dice = random.Random(3)
    chances = [0.3, 0.6, 0.8, 0.9, 0.995] * 4
    named = 0
    for _ in range(200):
        suite = [
            pair(str(index), drawn(chance, 10, dice), drawn(chance, 3, dice))
            for index, chance in enumerate(chances)
        ]
        named += bool(find_discoveries(suite, 0.1))

    assert named / 200 <= 0.1


def test_small_drops_are_never_named() -> None:
    suite = [pair("c", [0.9] * 20, [0.8] * 20), pair("d", [1.0] * 20, [1.0] * 20)]

    assert find_discoveries(suite, 0.1) == ("c",)
    assert find_discoveries(suite, 0.1, case_drop=0.25) == ()

"""Variants compared with a reference: conclusions, the correction, and ratios of usage."""

import math
import random
from collections.abc import Sequence

import pytest

from evalgate.statistics.score_pairs import Pair
from evalgate.statistics.variant_comparison import ComparedScores, compare_variants, estimate_usage_ratio


def build_scores(
    before: Sequence[tuple[int, ...]], after: Sequence[tuple[int, ...]], limit: float = 0.05
) -> ComparedScores:
    pairs = [
        Pair(
            f"case {at}",
            tuple(sorted(1000 * each for each in then)),
            tuple(sorted(1000 * each for each in now)),
        )
        for at, (then, now) in enumerate(zip(before, after, strict=True))
    ]
    return ComparedScores(pairs, limit)


GOOD, BAD = (1, 1, 1), (0, 0, 0)


def test_each_conclusion_needs_its_evidence() -> None:
    tables = {
        ("lost", "m"): build_scores([GOOD] * 30, [GOOD] * 15 + [BAD] * 15),
        ("won", "m"): build_scores([GOOD] * 15 + [BAD] * 15, [GOOD] * 30),
        ("equal", "m"): build_scores([GOOD] * 30, [GOOD] * 30, 0.2),
        ("close", "m"): build_scores([GOOD] * 30, [GOOD] * 28 + [(0, 1, 1)] * 2, 0.03),
    }

    found = compare_variants(tables)

    conclusions = {variant: score.conclusion for (variant, _), score in found.items()}
    assert conclusions == {"lost": "worse", "won": "better", "equal": "not_worse", "close": "undecided"}
    assert found["lost", "m"].drop == pytest.approx(0.5) == pytest.approx(-found["won", "m"].drop)
    assert found["lost", "m"].p == pytest.approx(found["won", "m"].p)
    assert not found["lost", "m"].is_within_limit
    assert found["equal", "m"].is_within_limit
    for score in found.values():
        assert score.low <= score.drop <= score.high


def test_more_comparisons_ask_for_more_evidence() -> None:
    one = build_scores([GOOD] * 20, [GOOD] * 18 + [BAD, (0, 1, 1)])
    alone = compare_variants({("a", "m"): one})["a", "m"]
    among = compare_variants({(f"v{at}", "m"): one for at in range(7)})["v0", "m"]

    assert alone.conclusion == "worse"
    assert among.conclusion == "undecided"
    assert among.p == alone.p
    assert among.level < alone.level == 0.05
    assert among.high > alone.high


def test_the_needed_runs_decide_when_they_are_made() -> None:
    dice = random.Random(7)

    def draw(runs: int) -> list[tuple[int, ...]]:
        return [tuple(int(dice.random() < 0.9) for _ in range(runs)) for _ in range(20)]

    few = compare_variants({("a", "m"): build_scores(draw(3), draw(3), 0.10)})["a", "m"]
    assert few.conclusion == "undecided"
    assert few.needed_runs is not None
    assert few.needed_runs > 3
    assert few.needed_cases == math.ceil(20 * few.needed_runs / 3)
    decided = 0
    for _ in range(20):
        table = build_scores(draw(few.needed_runs), draw(few.needed_runs), 0.10)
        decided += compare_variants({("a", "m"): table})["a", "m"].conclusion != "undecided"
    assert decided >= 12


def test_a_ratio_of_means_has_an_interval_around_it() -> None:
    found = estimate_usage_ratio([(4.0, 1.0), (8.0, 2.2), (2.0, 0.4), (6.0, 1.4)])
    assert found is not None
    assert found.value == pytest.approx(0.25)
    assert 0.15 < found.low < 0.25 < found.high < 0.4
    exact = estimate_usage_ratio([(4.0, 1.0), (8.0, 2.0)])
    assert exact is not None
    assert (exact.low, exact.value, exact.high) == (0.25, 0.25, 0.25)
    assert estimate_usage_ratio([(4.0, 1.0)]) is None
    assert estimate_usage_ratio([(0.0, 1.0), (0.0, 1.0)]) is None
    wide = estimate_usage_ratio([(4.0, 1.0), (8.0, 2.2), (2.0, 0.4), (6.0, 1.4)], alpha=0.005)
    assert wide is not None
    assert wide.low < found.low < found.high < wide.high


def test_a_ratio_that_rests_on_few_cases_has_a_wide_interval() -> None:
    even = estimate_usage_ratio([(1.0, 0.3), (1.0, 0.2)] * 10)
    uneven = estimate_usage_ratio([(20.0, 6.0), (20.0, 4.0), *([(0.1, 0.03), (0.1, 0.02)] * 9)])
    alone = estimate_usage_ratio([(1.0, 0.25), (0.0, 0.0)])
    assert even is not None
    assert uneven is not None
    assert alone is not None
    assert even.value == pytest.approx(0.25) == pytest.approx(uneven.value)
    assert even.high / even.low < 1.25
    assert uneven.high / uneven.low > 10
    assert alone.low < 1e-9
    assert 1e9 < alone.high < math.inf


def test_a_long_tail_moves_the_bound_on_its_side() -> None:
    steady = [(1.0, 0.25 * factor) for factor in (0.9, 0.95, 1.0, 1.05, 1.1)] * 4
    retried = estimate_usage_ratio([*steady[:-1], (1.0, 2.0)])
    assert retried is not None
    assert retried.high / retried.value > retried.value / retried.low
    mirrored = estimate_usage_ratio([*steady[:-1], (8.0, 0.25)])
    assert mirrored is not None
    assert mirrored.high / mirrored.value < mirrored.value / mirrored.low


@pytest.mark.parametrize("cases", [5, 20])
def test_intervals_of_ratios_hold_as_often_as_they_say(cases: int) -> None:
    dice, missed = random.Random(f"ratio {cases}"), 0
    for _ in range(800):
        sizes = [dice.lognormvariate(0, 1.3) for _ in range(cases)]
        means = [
            (size * dice.lognormvariate(0, 0.2), 0.25 * size * dice.lognormvariate(0, 0.2)) for size in sizes
        ]
        found = estimate_usage_ratio(means)
        assert found is not None
        missed += not found.low <= 0.25 <= found.high
    assert 0 < missed / 800 <= 0.06

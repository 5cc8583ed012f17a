"""The correction of averages that stopped AUTO, compared with simulated runs of an unchanged agent."""

import random
from collections.abc import Mapping
from statistics import NormalDist, mean

import pytest

from evalgate.statistics.auto_runs import NextRuns, estimate_early_stop_bias, plan_next_step
from evalgate.statistics.metric_decisions import Decision
from evalgate.statistics.parameters import Parameters
from evalgate.statistics.score_pairs import CaseScores, ScoreTable, pair_cases
from tests.statistics.suites import pairs


def played(chances: list[float], stored: int, dice: random.Random) -> tuple[ScoreTable, Decision]:
    """One gate run of an agent that did not change."""

    def draw(chance: float, runs: int) -> list[float]:
        return [float(dice.random() < chance) for _ in range(runs)]

    baseline = {str(at): draw(chance, stored) for at, chance in enumerate(chances)}
    made: dict[str, list[float]] = {case: [] for case in baseline}
    while True:
        table = ScoreTable({case: CaseScores(runs, tuple(made[case])) for case, runs in baseline.items()})
        step = plan_next_step({"m": table}, Parameters())
        if not isinstance(step, NextRuns):
            return table, step
        for case, numbers in step.runs.items():
            made[case] += draw(chances[int(case)], len(numbers))


def excesses(chances: list[float], stored: int, repeats: int) -> Mapping[str, list[float]]:
    """By how much averages that stopped early were too high, as they were and corrected."""
    found: dict[str, list[float]] = {"plain": [], "corrected": []}
    for repeat in range(repeats):
        table, decision = played(chances, stored, random.Random(repeat))
        metric = decision.metrics["m"]
        if metric.change is None or metric.rounds == 5 or metric.change.drop >= 0.025:
            continue
        sorted_out = pair_cases(table.cases, keep=20, first=metric.rounds, runs=metric.rounds)
        excess = metric.change.candidate - mean(chances)
        bias = estimate_early_stop_bias(sorted_out.pairs, max_drop=0.05, rounds=metric.rounds)
        found["plain"].append(excess)
        found["corrected"].append(excess - bias)
    return found


@pytest.mark.parametrize(
    ("chances", "stored", "least"),
    [([0.5] * 5, 10, 0.06), ([0.99] * 14 + [0.6] * 6, 10, 0.015), ([0.7] * 10, 3, 0.03)],
    ids=["5 flaky cases", "20 cases, 6 of them flaky", "a thin baseline"],
)
def test_averages_at_which_auto_stopped_are_too_high_until_corrected(
    chances: list[float], stored: int, least: float
) -> None:
    found = excesses(chances, stored, repeats=250)

    assert mean(found["plain"]) > least
    assert abs(mean(found["corrected"])) < mean(found["plain"]) / 3
    assert mean(each**2 for each in found["corrected"]) < mean(each**2 for each in found["plain"])


def test_the_bias_of_one_round_is_that_of_a_normal_cut_off() -> None:
    """Closed form: E[X | D < t] with the drop D = B - X, for the variances of 20 cases at one half."""
    sides = pairs(*[("1010101010", "1"), ("1010101010", "0")] * 10)
    pooled = [11 / 10 * (6 / 11 * 5 / 11)] * 20
    deviation = (sum(pooled) / 400) ** 0.5
    spread = deviation * (1 + 1 / 10) ** 0.5
    z = 0.025 / spread
    expected = deviation**2 / spread * NormalDist().pdf(z) / NormalDist().cdf(z)

    assert estimate_early_stop_bias(sides, max_drop=0.05, rounds=1) == pytest.approx(expected, rel=0.01)


def test_a_first_look_after_several_rounds_is_a_normal_cut_off_of_their_mean() -> None:
    """The closed form from above, with the variance of the mean of 3 runs."""
    sides = pairs(*[("1010101010", "101"), ("1010101010", "010")] * 10)
    pooled = [13 / 12 * (6 / 13 * 7 / 13)] * 20
    variance = sum(pooled) / 400
    spread = (variance / 3 + variance / 10) ** 0.5
    z = 0.025 / spread
    expected = variance / 3 / spread * NormalDist().pdf(z) / NormalDist().cdf(z)

    found = estimate_early_stop_bias(sides, max_drop=0.05, rounds=3, min_runs=3)

    assert found == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    ("baseline", "candidate", "rounds"),
    [("1111111111", "1", 1), ("1010101010", "1" * 11, 11)],
    ids=["no luck", "so many rounds that it hardly matters"],
)
def test_nothing_is_taken_off(baseline: str, candidate: str, rounds: int) -> None:
    assert estimate_early_stop_bias(pairs(*[(baseline, candidate)] * 5), max_drop=0.05, rounds=rounds) == 0.0

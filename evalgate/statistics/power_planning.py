"""Estimate how many cases and runs a gate needs to catch a drop of a metric's average.

A model replaces the real decisions of the gate (`auto_runs`, `metric_assessment`). In the model, averages are
normally distributed, and vary as much as the runs of each case show. The gate closes if the drop reaches
`max_drop` and is more than luck explains. Single broken cases do not close it.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from statistics import NormalDist

from evalgate.core.frozen import frozen
from evalgate.statistics.metric_assessment import INTERIM_DIVISOR
from evalgate.statistics.parameters import Parameters
from evalgate.statistics.score_pairs import (
    Score,
    compute_score_mean,
    compute_score_variance,
    normalize_scores,
)
from evalgate.statistics.threshold_test import compute_normal_quantile

_NORMAL = NormalDist()
_TRIALS = 2_000
_FINEST = 0.001
MOST_CASES = 100_000


@frozen
class CaseNoise:
    """Mean and variance of the scores of one case in the baseline."""

    mean: float
    variance: float
    """Variance of the score from run to run."""
    stored: int
    """Number of runs in the baseline that have a score, at least 1."""


@frozen
class RunDesign:
    """Plan for the number of runs of each case: fixed, or decided after each round (`runs: auto`)."""

    runs: int
    """Number of runs of each case; if `is_auto` is True, the largest number."""
    is_auto: bool = False


def measure_case_noise(scores: Mapping[str, Sequence[Score]], keep: int) -> tuple[CaseNoise, ...]:
    """Return the noise of each case, from the scores (0 to 1, the oldest first) of its newest `keep` runs.

    Cases without a score are left out. A single score does not show how much a case varies. A case with a
    single score therefore gets the average of all cases as its mean, and the largest variance that is
    possible for this mean.

    Raises:
        InvalidInputError: for a score outside 0 to 1.
    """
    found = [normal for each in scores.values() if (normal := normalize_scores(each[-keep:]))]
    if not found:
        return ()
    average = sum(map(compute_score_mean, found)) / len(found)
    return tuple(
        CaseNoise(compute_score_mean(each), compute_score_variance(each), len(each))
        if len(each) > 1
        else CaseNoise(average, average * (1 - average), 1)
        for each in found
    )


@frozen
class _Spread:
    """Variances that the model needs, for one size of the suite and one size of the drop."""

    baseline: float
    """Variance of the baseline's average."""
    round: float
    """True variance of the candidate's average in one round, which runs each case once."""
    pooled: Mapping[int, float]
    """Maps a number of rounds to the variance of one round's average that the gate would estimate then."""
    permutation: Mapping[int, float]
    """Maps a number of rounds to the variance of the drop under permutation."""


class DropModel:
    """Model of the gate's power to detect a drop of an average in which every case loses the same share.

    In the model, each run scores 0 with a chance that is the same for all cases. If it does not, it scores as
    it did before the drop.
    """

    def __init__(
        self, noise: Sequence[CaseNoise], parameters: Parameters, *, max_drop: float, metrics: int = 1
    ) -> None:
        """Build the model of one metric.

        Args:
            noise: noise of each case, at least one; all cases have the same weight.
            parameters: parameters of the gate.
            max_drop: smallest drop of the average that closes the gate, 0 to 1.
            metrics: number of gating metrics; `alpha` is divided by this number.
        """
        self.cases = len(noise)
        self._groups = Counter(noise)  # most cases of a suite that passes or fails are alike
        self.max_drop = max_drop
        self._futility = parameters.futility
        self._level = parameters.alpha * parameters.averages_share / metrics

    @property
    def average(self) -> float:
        """Return the mean of all cases' means; no drop can be larger."""
        return math.fsum(count * case.mean for case, count in self._groups.items()) / self.cases

    def compute_power(self, drop: float, design: RunDesign, cases: int | None = None) -> float:
        """Return the chance that the gate closes if the true average falls by `drop`.

        The chance is 0 if `drop` is not above 0, or is larger than `average`. `cases` is the size of an
        assumed suite with the same mix of cases as now; None: the present number of cases.
        """
        if not 0 < drop <= self.average:
            return 0.0
        spread = self._measure_spread(drop, design.runs, cases or self.cases)
        if design.is_auto and design.runs > 1:
            return self._simulate_rounds(drop, design.runs, spread)
        deviation = math.sqrt(spread.baseline + spread.round / design.runs)
        limit = max(self.max_drop, self._quantile * math.sqrt(spread.permutation[design.runs]))
        if deviation == 0:
            return 1.0 if drop >= limit else 0.0
        return _NORMAL.cdf((drop - limit) / deviation)

    def find_smallest_drop(self, design: RunDesign, power: float, cases: int | None = None) -> float | None:
        """Return the smallest drop, in steps of 0.001, that closes the gate with a chance of `power` or more.

        Return None if even the largest possible drop has a smaller chance. `cases` is the size of an assumed
        suite with the same mix of cases as now; None: the present number of cases.
        """
        steps = math.floor(self.average / _FINEST)
        found = _find_first(lambda step: self.compute_power(step * _FINEST, design, cases) >= power, 1, steps)
        return None if found is None else found * _FINEST

    def find_cases(self, drop: float, design: RunDesign, power: float) -> int | None:
        """Return the fewest cases with which `drop` closes the gate with a chance of at least `power`.

        The suite is assumed to have the same mix of cases as now. Return None if 100,000 cases are too few.
        """
        return _find_first(lambda cases: self.compute_power(drop, design, cases) >= power, 1, MOST_CASES)

    @cached_property
    def _quantile(self) -> float:
        return compute_normal_quantile(self._level)

    def _measure_spread(self, drop: float, most: int, cases: int) -> _Spread:
        lost = drop / self.average
        size = self.cases * cases
        baseline = candidate = 0.0
        pooled = dict.fromkeys(range(1, most + 1), 0.0)
        permutation = dict(pooled)
        for case, count in self._groups.items():
            mean = (1 - lost) * case.mean
            # A run scores 0 with the chance `lost`, and else scores as before.
            variance = (1 - lost) * (case.variance + case.mean**2) - mean**2
            baseline += count * case.variance / case.stored
            candidate += count * variance
            for runs in pooled:
                part = count / size * _compute_pooled_variance(case, variance, case.mean - mean, runs)
                pooled[runs] += part
                permutation[runs] += part * (1 / case.stored + 1 / runs)
        return _Spread(baseline / size, candidate / size, pooled, permutation)

    def _simulate_rounds(self, drop: float, most: int, spread: _Spread) -> float:
        """Return the share of 2,000 simulated runs with `runs: auto` in which the average closes the gate."""
        interim = compute_normal_quantile(self._level / INTERIM_DIVISOR)
        limits = {
            rounds: max(self.max_drop, (self._quantile if rounds == most else interim) * math.sqrt(luck))
            for rounds, luck in spread.permutation.items()
        }
        dice = random.Random(0)  # noqa: S311 - reproducible, and guards no secret
        closed = 0
        for _ in range(_TRIALS):
            shift = dice.gauss(drop, math.sqrt(spread.baseline))
            closed += self._simulate_trial(dice, shift, limits, spread)
        return closed / _TRIALS

    def _simulate_trial(
        self, dice: random.Random, shift: float, limits: Mapping[int, float], spread: _Spread
    ) -> bool:
        """Simulate a run with `runs: auto` once, and return True if the average closes the gate.

        `shift` is the expected drop of each round. `limits` has the smallest drop that closes the gate, by
        the number of rounds.
        """
        summed, deviation = 0.0, math.sqrt(spread.round)
        for rounds, limit in limits.items():
            summed += dice.gauss(shift, deviation)
            drop = summed / rounds
            if drop >= limit:
                return True
            if drop < self.max_drop / 2 or self._is_futile(drop, rounds, len(limits), spread.pooled[rounds]):
                return False
        return False

    @cached_property
    def _futility_quantile(self) -> float:
        return compute_normal_quantile(self._futility)

    def _is_futile(self, drop: float, rounds: int, most: int, pooled: float) -> bool:
        """Return True if further rounds are futile, so that `runs: auto` would stop (`auto_runs.is_futile`).

        They are futile if the chance that the drop still reaches `max_drop` is `futility` or less. `drop` is
        the drop after `rounds` of at most `most` rounds. `pooled` is the variance of one round's average
        (`_Spread.pooled`).
        """
        left = 1 / rounds - 1 / most
        if drop >= self.max_drop or left <= 0 or not self._futility:
            return False
        return drop + self._futility_quantile * math.sqrt(pooled * left) <= self.max_drop


def _compute_pooled_variance(case: CaseNoise, variance: float, drop: float, runs: int) -> float:
    """Return the expected variance of all scores of a case, with baseline and candidate as one sample.

    `case` describes the baseline's runs. The candidate has `runs` runs with the variance `variance`, and a
    mean that is lower by `drop`.
    """
    stored = case.stored
    between = drop * drop + case.variance / stored + variance / runs
    squares = (stored - 1) * case.variance + (runs - 1) * variance
    return (squares + between / (1 / stored + 1 / runs)) / (stored + runs - 1)


def _find_first(holds: Callable[[int], bool], first: int, last: int) -> int | None:
    """Return the smallest number from `first` to `last` for which `holds` is true.

    If `holds` is true for a number, it must be true for all larger numbers. Return None if it is false for
    all numbers up to `last`.
    """
    if last < first or not holds(last):
        return None
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high

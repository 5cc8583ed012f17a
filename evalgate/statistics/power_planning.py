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
from evalgate.statistics.mean_difference import DETECTION_POWER, compute_pooled_variance
from evalgate.statistics.metric_assessment import INTERIM_DIVISOR
from evalgate.statistics.parameters import Parameters
from evalgate.statistics.score_pairs import (
    EQUAL_WEIGHTS,
    Pair,
    Score,
    compute_score_mean,
    compute_score_variance,
    normalize_scores,
)
from evalgate.statistics.threshold_test import compute_normal_quantile

_NORMAL = NormalDist()
_TRIALS = 1_000
_FINEST = 0.001
_MOST_COUNTED = 20  # a larger mean number of lost runs is drawn from the normal distribution
MOST_CASES = 100_000


@frozen
class CaseNoise:
    """Mean and variance of the scores of one case in the baseline."""

    mean: float
    variance: float
    """Variance of the score from run to run."""
    stored: int
    """Number of runs in the baseline that have a score, at least 1."""
    weight: float = 1.0
    """Weight of the case in the average, greater than 0."""


@frozen
class RunDesign:
    """Plan for the number of runs of each case: fixed, or decided after each round (`runs: auto`)."""

    runs: int
    """Number of runs of each case; if `is_auto` is True, the largest number."""
    is_auto: bool = False


def measure_case_noise(
    scores: Mapping[str, Sequence[Score]], keep: int, weights: Mapping[str, float] = EQUAL_WEIGHTS
) -> tuple[CaseNoise, ...]:
    """Return the noise of each case, from the scores (0 to 1, the oldest first) of its newest `keep` runs.

    Cases without a score are left out. A single score does not show how much a case varies. A case with a
    single score therefore gets the average of all cases as its mean, and the largest variance that is
    possible for this mean. `weights` maps case ids to weights; a case that is missing has the weight 1.

    Raises:
        InvalidInputError: for a score outside 0 to 1.
    """
    found = {case: normal for case, each in scores.items() if (normal := normalize_scores(each[-keep:]))}
    if not found:
        return ()
    average = sum(map(compute_score_mean, found.values())) / len(found)
    return tuple(
        CaseNoise(compute_score_mean(each), compute_score_variance(each), len(each), weights.get(case, 1.0))
        if len(each) > 1
        else CaseNoise(average, average * (1 - average), 1, weights.get(case, 1.0))
        for case, each in found.items()
    )


def estimate_detectable_drop(
    pairs: Sequence[Pair], parameters: Parameters, *, max_drop: float, metrics: int
) -> float:
    """Return the smallest drop of the average that the gate catches about four times in five.

    Return infinity if it catches no drop that often. With `runs: auto` the estimate is simulated, which takes
    longer than the comparison of the runs.

    Args:
        pairs: the compared cases, at least one. Both sides together show how much a case varies.
        parameters: parameters of the gate.
        max_drop: smallest drop of the average that is too large, 0 to 1.
        metrics: number of gating metrics.
    """
    noise = [
        CaseNoise(
            compute_score_mean(pair.baseline), compute_pooled_variance(pair), len(pair.baseline), pair.weight
        )
        for pair in pairs
    ]
    design = RunDesign(parameters.runs or parameters.max_runs, is_auto=parameters.runs is None)
    model = DropModel(noise, parameters, max_drop=max_drop, metrics=metrics)
    found = model.find_smallest_drop(design, DETECTION_POWER)
    return math.inf if found is None else found


@frozen
class _Spread:
    """Variances that the model needs, for one size of the suite and one size of the drop."""

    baseline: float
    """Variance of the baseline's average."""
    round: float
    """True variance of the candidate's average in one round, in which each case is run once."""
    kept: float
    """Part of `round` due to the noise of the runs that the drop leaves as they were. The rest of `round` is
    due to luck in the number of runs that the drop turns to 0."""
    pooled: Mapping[int, float]
    """Maps a number of rounds to the variance of one round's average, as the gate would estimate it after
    these rounds."""
    permutation: Mapping[int, float]
    """Maps a number of rounds to the variance of the drop under permutation."""


class DropModel:
    """Model of the gate's power to detect a drop of an average.

    In the model, the drop turns each run's score to 0 with a chance that is the same for all cases. Any other
    run scores as before the drop. So the means of all cases fall by the same share.
    """

    def __init__(
        self, noise: Sequence[CaseNoise], parameters: Parameters, *, max_drop: float, metrics: int = 1
    ) -> None:
        """Build the model of one metric.

        Args:
            noise: noise of each case, at least one.
            parameters: parameters of the gate.
            max_drop: smallest drop of the average that closes the gate, 0 to 1.
            metrics: number of gating metrics; `alpha` is divided by this number.
        """
        self.cases = len(noise)
        self._groups = Counter(noise)  # most cases of a suite that passes or fails are alike
        self._weight = math.fsum(case.weight for case in noise)
        self.max_drop = max_drop
        self._futility = parameters.futility
        self._level = parameters.alpha * parameters.averages_share / metrics

    @property
    def average(self) -> float:
        """Return the mean of all cases' means; no drop can be larger."""
        total = math.fsum(count * case.weight * case.mean for case, count in self._groups.items())
        return total / self._weight

    def compute_power(self, drop: float, design: RunDesign, cases: int | None = None) -> float:
        """Return the chance that the gate closes if the true average falls by `drop`.

        The chance is 0 if `drop` is not above 0, or is larger than `average`. `cases` is the size of an
        assumed suite with the same mix of cases as now; None: the present number of cases.
        """
        if not 0 < drop <= self.average:
            return 0.0
        spread = self._measure_spread(drop, design.runs, cases or self.cases)
        if design.is_auto and design.runs > 1:
            return self._simulate_rounds(drop, design.runs, spread, cases or self.cases)
        deviation = math.sqrt(spread.baseline + spread.round / design.runs)
        limit = max(
            self.max_drop,
            self._quantile * math.sqrt(spread.permutation[design.runs]),
            self._compute_least_drop(design.runs, self._level, cases or self.cases),
        )
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

    def _compute_loss(self, drop: float) -> float:
        """Return the chance with which each run must score 0, so that the average falls by `drop`."""
        return min(1.0, drop / self.average)

    def _measure_spread(self, drop: float, most: int, cases: int) -> _Spread:
        lost = self._compute_loss(drop)
        baseline = candidate = kept = 0.0
        pooled = dict.fromkeys(range(1, most + 1), 0.0)
        permutation = dict(pooled)
        for case, count in self._groups.items():
            mean = (1 - lost) * case.mean
            # A run scores 0 with the chance `lost`, and else scores as before.
            variance = (1 - lost) * (case.variance + case.mean**2) - mean**2
            # With as many cases as now, this is the sum of the squared weights of equal cases.
            share = count * (case.weight / self._weight) ** 2 * self.cases / cases
            baseline += share * case.variance / case.stored
            candidate += share * variance
            kept += share * (1 - lost) * case.variance
            for runs in pooled:
                part = share * _compute_mixed_variance(case, variance, case.mean - mean, runs)
                pooled[runs] += part
                permutation[runs] += part * (1 / case.stored + 1 / runs)
        return _Spread(baseline, candidate, kept, pooled, permutation)

    def _compute_least_drop(self, rounds: int, level: float, cases: int) -> float:
        """Return the smallest drop that can have a p of at most `level`.

        A drop consists of lost runs: runs that score 0 only because of the drop. The method finds the
        smallest number k of lost runs with a small enough p, and returns the drop that they cause. A
        permutation assigns one run to the candidate with a chance s, and k lost runs of k cases with the
        chance s^k. For one lost run, p is s. For several, p is the mid-p s^k / 2.
        """
        stored = math.fsum(count * case.stored for case, count in self._groups.items()) / self.cases
        share = rounds / (stored + rounds)
        least = 1 if share <= level else max(2, math.ceil(math.log(2 * level) / math.log(share)))
        return least * self.average / (cases * rounds)

    def _simulate_rounds(self, drop: float, most: int, spread: _Spread, cases: int) -> float:
        """Return the share of 1,000 simulated runs with `runs: auto` in which the average closes the gate."""
        stages = self._build_round_decisions(drop, most, spread, cases)
        dice = random.Random(0)  # noqa: S311 - reproducible, and guards no secret
        lost, closed = self._compute_loss(drop), 0
        for _ in range(_TRIALS):
            luck, deviation, summed = dice.gauss(0, math.sqrt(spread.baseline)), math.sqrt(spread.kept), 0.0
            for stage in stages:
                # Lost runs are counted: a small suite often has none in its first round, and stops then.
                summed += dice.gauss(luck, deviation) + self.average * _draw_count(dice, cases, lost) / cases
                if (outcome := stage.decide(summed / stage.rounds, self.max_drop)) is not None:
                    closed += outcome
                    break
        return closed / _TRIALS

    def _build_round_decisions(
        self, drop: float, most: int, spread: _Spread, cases: int
    ) -> list["_RoundDecision"]:
        """Return the decisions of `runs: auto`: one stage after each of `most` rounds."""
        before = self._measure_spread(0.0, most, cases)
        interim = compute_normal_quantile(self._level / INTERIM_DIVISOR)
        return [
            _RoundDecision(
                rounds=rounds,
                left=1 / rounds - 1 / most,
                quantile=self._quantile if rounds == most else interim,
                least=self._compute_least_drop(
                    rounds, self._level / (1 if rounds == most else INTERIM_DIVISOR), cases
                ),
                futility=self._futility_quantile if self._futility else None,
                permutation=_Line(before.permutation[rounds], spread.permutation[rounds], drop),
                pooled=_Line(before.pooled[rounds], spread.pooled[rounds], drop),
            )
            for rounds in spread.pooled
        ]

    @cached_property
    def _futility_quantile(self) -> float:
        return compute_normal_quantile(self._futility)


@frozen
class _Line:
    """Variance that changes linearly with the observed drop, because runs that newly score 0 cause both."""

    before: float
    """Variance at a drop of 0."""
    after: float
    """Variance at a drop of `at`."""
    at: float

    def compute(self, drop: float) -> float:
        """Return the variance at `drop`; a drop above `at` counts as `at`, and one below 0 as 0."""
        return self.before + (self.after - self.before) * min(1.0, max(0.0, drop) / self.at)


@frozen
class _RoundDecision:
    """Decision of `runs: auto` after a number of rounds."""

    rounds: int
    left: float
    """Variance that the remaining rounds can still add to the drop, as a multiple of `pooled`.

    It is 1 / `rounds` - 1 / (the largest number of rounds), and 0 after the last round.
    """
    quantile: float
    """Number of standard deviations from which a drop is more than luck."""
    least: float
    """Smallest drop that can be more than luck: only whole runs can be lost (`_compute_least_drop`)."""
    futility: float | None
    """Number of standard deviations by which the remaining rounds may raise the drop. None: the runs never
    stop for futility."""
    permutation: _Line
    """Variance of the drop under permutation."""
    pooled: _Line
    """Variance of one round's average that the gate estimates."""

    def decide(self, drop: float, max_drop: float) -> bool | None:
        """Return True if the gate closes, False if the runs stop and it stays open, None for a further round.

        The runs stop if the drop is below half of `max_drop`, after the last round, and if the chance that
        the drop still reaches `max_drop` is too small (`auto_runs.is_futile`).
        """
        noise = self.quantile * math.sqrt(self.permutation.compute(drop))
        if drop >= max(max_drop, noise, self.least - 1e-9):
            return True
        if drop < max_drop / 2 or self.left <= 0:
            return False
        if self.futility is None or drop >= max_drop:
            return None
        reach = drop + self.futility * math.sqrt(self.pooled.compute(drop) * self.left)
        return False if reach <= max_drop else None


def _draw_count(dice: random.Random, trials: int, chance: float) -> float:
    """Draw a number from the binomial distribution, or from a normal one if its mean is large enough."""
    mean = trials * chance
    if mean > _MOST_COUNTED:
        return dice.gauss(mean, math.sqrt(mean * (1 - chance)))
    if chance >= 1:
        return trials
    left, count, probability = dice.random(), 0, (1 - chance) ** trials
    while left >= probability and count < trials:
        left -= probability
        probability *= (trials - count) / (count + 1) * chance / (1 - chance)
        count += 1
    return count


def _compute_mixed_variance(case: CaseNoise, variance: float, drop: float, runs: int) -> float:
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

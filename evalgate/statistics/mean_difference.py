"""Compare the candidate's mean with the baseline's, and test the drop by permuting runs within each case.

The test convolves the exact distributions of all cases (`case_permutation_test.py`). With binary scores it is
the conditional Mantel-Haenszel test, and with one run on both sides McNemar's test.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.statistics.case_permutation_test import compute_case_p, compute_sum_distribution
from evalgate.statistics.parameters import EPSILON
from evalgate.statistics.score_pairs import (
    UNIT,
    Pair,
    Thousandths,
    compute_score_mean,
    compute_score_variance,
)
from evalgate.statistics.threshold_test import (
    compute_half_width,
    compute_normal_quantile,
    compute_student_quantile,
)

_BUDGET = 250_000  # most multiply-adds of an exact convolution; beyond, a normal distribution is close enough
DETECTION_POWER = 0.8
"""Chance with which a drop has to be caught to count as detectable: about four times in five."""
_EQUAL = 1e-8  # drops that differ by no more than this count as equal

Method: TypeAlias = Literal["none", "exact", "normal"]
"""Method by which a p was computed. `none`: in every case all scores are equal, so p is 1."""


@frozen
class TailProbability:
    """Probabilities that luck alone gives a drop this large, or a rise this large."""

    p: float
    """One-sided p of the drop."""
    rise_p: float
    """One-sided p of the rise, the opposite direction."""
    method: Method
    informative: int
    """Number of cases with scores that are not all equal."""


def compute_suite_tail(pairs: Iterable[Pair], drop: float, variance: float) -> TailProbability:
    """Return the one-sided p of the weighted drop and of the rise, by permutation of the runs in each case.

    A case is informative if its scores are not all equal.

    - Without an informative case, both p are 1.
    - With one informative case, both are the exact p of this case (`compute_case_p`). Each counts the
      observed outcome in full, so their sum is above 1.
    - With more informative cases, both are the exact mid-p, or a normal approximation if its computation
      would take too long. Their sum is 1.

    Args:
        pairs: the cases that are compared.
        drop: Σwᵢ(b̄ᵢ − c̄ᵢ), with weights wᵢ that sum to 1, and the means b̄ᵢ and c̄ᵢ of baseline and
            candidate.
        variance: variance of the drop under permutation.
    """
    pairs = tuple(pairs)
    informative = [
        pair
        for pair in pairs
        if min(pair.baseline[0], pair.candidate[0]) != max(pair.baseline[-1], pair.candidate[-1])
    ]
    # Sorted, because floating sums depend on the order, and results must not depend on the order of `pairs`.
    # Binary cases come first.
    informative.sort(
        key=lambda pair: (len({*pair.baseline, *pair.candidate}), pair.baseline, pair.candidate, pair.weight)
    )
    if not informative:
        return TailProbability(1.0, 1.0, "none", 0)
    if len(informative) == 1:
        baseline, candidate = informative[0].baseline, informative[0].candidate
        # If the candidate's scores are high, the baseline's are low among all scores of the case.
        return TailProbability(
            compute_case_p(baseline, candidate), compute_case_p(candidate, baseline), "exact", 1
        )
    weight = math.fsum(pair.weight for pair in pairs)
    method: Method = "exact"
    p = _compute_convolved_p(informative, weight)
    if p is None:
        method, p = "normal", _compute_normal_p(informative, weight, drop, variance)
    return TailProbability(p, 1 - p, method, len(informative))


def _compute_convolved_p(pairs: Sequence[Pair], weight: float) -> float | None:
    """Return the mid-p P(D > d) + P(D = d)/2 by an exact convolution; None if it takes too many steps.

    D is the drop under permutation, d the observed drop. `pairs` are the cases with scores that are not all
    equal, and `weight` is the sum of the weights of all compared cases.
    """
    if _estimate_least_cost(pairs) > _BUDGET:
        return None
    steps, scale = _build_lattice(pairs)
    law: dict[int, float] = {0: 1.0}
    spent = 0
    for pair, step in zip(pairs, steps, strict=True):
        terms = compute_sum_distribution(_pool_scores(pair), len(pair.candidate)).list_terms(
            sum(pair.candidate)
        )
        spent += len(law) * len(terms)
        if spent > _BUDGET:
            return None
        law = _convolve_terms(law, [(offset * step, probability) for offset, probability in terms])
    tolerance = _EQUAL * UNIT * weight * scale
    larger = math.fsum(mass for key, mass in law.items() if key < -tolerance)
    # Equal drops count half (mid-p): if few outcomes are possible, the plain p is too large on average.
    equal = math.fsum(mass for key, mass in law.items() if abs(key) <= tolerance)
    return min(1.0, larger + equal / 2)


def _convolve_terms(law: dict[int, float], terms: list[tuple[int, float]]) -> dict[int, float]:
    result: dict[int, float] = {}
    for shift, probability in terms:
        for key, mass in law.items():
            total = key + shift
            result[total] = result.get(total, 0.0) + mass * probability
    return result


def _build_lattice(pairs: Sequence[Pair]) -> tuple[list[int], int]:
    """Return (moves, scale): the move of each case, multiplied by `scale` to be a whole number.

    A case's move is the change of the weighted drop if the sum of the candidate's scores changes by one step
    (`SumDistribution.step`). The weighted drop is a constant minus Σ weight·(1/R0 + 1/R)·sum, with R0 runs of
    the baseline and R of the candidate.
    """
    moves = []
    for pair in pairs:
        before, after = len(pair.baseline), len(pair.candidate)
        step = (
            compute_sum_distribution(_pool_scores(pair), after).step
            if len({*_pool_scores(pair)}) > 2
            else max(pair.baseline[-1], pair.candidate[-1]) - min(pair.baseline[0], pair.candidate[0])
        )
        # A weight counts as its printed decimal number, so that 0.2 is exactly twice 0.1.
        moves.append(Fraction(repr(float(pair.weight))) * Fraction((before + after) * step, before * after))
    scale = math.lcm(*(move.denominator for move in moves))
    return [move.numerator * (scale // move.denominator) for move in moves], scale


def _pool_scores(pair: Pair) -> Thousandths:
    return tuple(sorted(pair.baseline + pair.candidate))


def _estimate_least_cost(pairs: Sequence[Pair]) -> int:
    """Return a lower bound of the number of multiplications that the convolution of all cases takes.

    The caller skips a convolution that is too expensive even by this bound. The convolution adds one case
    after another to the distribution of the sum of scores. With m possible sums so far and n possible sums of
    the next case, this takes m · n multiplications, and yields at least m + n − 1 new sums.
    """
    size, cost = 1, 0
    for pair in pairs:
        pooled, runs = _pool_scores(pair), len(pair.candidate)
        low = pooled.count(pooled[0])
        # There are at least as many possible sums as possible counts of the lowest score in the candidate.
        least = min(runs, low) - max(0, runs - (len(pooled) - low)) + 1
        cost += size * least
        size += least - 1
    return cost


def _compute_normal_p(pairs: Sequence[Pair], weight: float, drop: float, variance: float) -> float:
    """Return the one-sided p of a drop, by a normal distribution with a correction for skewness.

    The correction is the first term of the Edgeworth series. `pairs` are the cases with scores that differ
    from each other; cases with equal scores add no variance. `weight` is the sum of the weights of all
    compared cases. `drop` is the observed weighted drop, `variance` its variance under permutation.
    """
    x = drop / math.sqrt(variance)
    skewness = -math.fsum(_compute_third_cumulant(pair, weight) for pair in pairs) / math.sqrt(variance) ** 3
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    p = math.erfc(x / math.sqrt(2)) / 2 + skewness / 6 * (x * x - 1) * density
    return min(1.0, max(0.0, p))


def _compute_third_cumulant(pair: Pair, weight: float) -> float:
    before, after = len(pair.baseline), len(pair.candidate)
    if before == after:  # a symmetric distribution; includes n = 2, for which the divisor below is 0
        return 0.0
    n, pooled = before + after, pair.baseline + pair.candidate
    total, squares, cubes = sum(pooled), sum(x * x for x in pooled), sum(x * x * x for x in pooled)
    third = (n * n * cubes - 3 * n * total * squares + 2 * total * total * total) / (n * UNIT) ** 3
    move = pair.weight / weight * (1 / before + 1 / after)
    return move * move * move * after * before * (before - after) * third / ((n - 1) * (n - 2))


@frozen
class MeanDifference:
    """Comparison of one metric's average with the baseline; scores are from 0 to 1."""

    cases: int
    baseline: float
    """Weighted mean of the cases' baseline means."""
    candidate: float
    drop: float
    """`baseline - candidate`; a positive drop is worse."""
    p: float
    """One-sided p: the chance that luck alone gives a drop this large."""
    rise_p: float
    """One-sided p of the opposite direction: the chance that luck alone gives a rise this large."""
    method: Method
    informative: int
    """Number of cases with scores that are not all equal; only these show how large luck is."""
    noise: float
    """Drop that luck alone exceeds with the chance `alpha`: the normal quantile of `alpha` times the standard
    deviation of the drop under permutation."""
    half: float
    """Half width of the confidence interval of the drop."""
    planned_deviation: float
    """Standard deviation of the drop under permutation, as if the candidate had all its planned runs."""
    same: bool
    """True: every case has the same mean on both sides."""
    single: bool
    """True: every case has just one run on each side, so the noise from run to run was not measured."""
    run_deviation: float = 0.0
    """Standard deviation of the average of one round, in which the candidate runs every case once. It is
    estimated from the runs of baseline and candidate together."""
    is_figure: bool = False
    """True: scores are shares of logarithms (`LogShares`), and the drop's interval may exceed -1 to 1."""

    @property
    def low(self) -> float:
        """Return the lower end of the interval of the drop."""
        low = self.drop - self.half
        return low if self.is_figure else max(-1.0, low)

    @property
    def high(self) -> float:
        """Return the upper end of the interval of the drop: the largest plausible loss."""
        high = self.drop + self.half
        return high if self.is_figure else min(1.0, high)


def compare_means(
    pairs: Sequence[Pair],
    *,
    alpha: float,
    is_figure: bool = False,
    planned_runs: int | None = None,
) -> MeanDifference:
    """Compare the candidate's weighted mean with the baseline's.

    Args:
        pairs: cases with scores on both sides, at least one.
        alpha: one-sided level of the fields `half` and `noise` of the result.
        is_figure: True if scores are shares of measured figures (`MetricRule.is_figure`): use the interval
            of Student's t. False if scores are from 0 to 1 by nature.
        planned_runs: number of runs of each case for `planned_deviation`; None: the runs made.
    """
    total = math.fsum(pair.weight for pair in pairs)
    drop = math.fsum(pair.weight / total * _compute_drop(pair) for pair in pairs)
    luck = math.fsum(_compute_permutation_variance(pair, total, len(pair.candidate)) for pair in pairs)
    tail = compute_suite_tail(pairs, drop, luck)
    unpooled = math.fsum(_compute_unpooled_variance(pair, total) for pair in pairs)
    # Take the larger variance: the pooled one is right if nothing changed, the unpooled one if something did.
    half = _compute_interval_half(pairs, max(luck, unpooled), alpha, is_figure=is_figure)
    ahead = math.fsum(
        _compute_permutation_variance(pair, total, planned_runs or len(pair.candidate)) for pair in pairs
    )
    return MeanDifference(
        cases=len(pairs),
        baseline=math.fsum(pair.weight / total * compute_score_mean(pair.baseline) for pair in pairs),
        candidate=math.fsum(pair.weight / total * compute_score_mean(pair.candidate) for pair in pairs),
        drop=drop + 0.0,  # turns -0.0 into 0.0
        p=tail.p,
        rise_p=tail.rise_p,
        method=tail.method,
        informative=tail.informative,
        noise=compute_normal_quantile(alpha) * math.sqrt(luck),
        half=half,
        planned_deviation=math.sqrt(ahead),
        same=all(abs(_compute_drop(pair)) <= EPSILON for pair in pairs),
        single=all(len(pair.baseline) == len(pair.candidate) == 1 for pair in pairs),
        run_deviation=math.sqrt(
            math.fsum((pair.weight / total) ** 2 * compute_pooled_variance(pair) for pair in pairs)
        ),
        is_figure=is_figure,
    )


def estimate_detectable_growth(change: MeanDifference, max_drop: float, level: float) -> float:
    """Return the smallest drop of the mean share of budget figures that is caught about four times in five.

    The shares are computed from the logarithms of figures such as tokens (`LogShares`), so the share drops if
    the figures grow. The drop has no upper limit, so the estimate assumes a normal distribution. `max_drop`
    is the smallest drop that is too large, and `level` is the level of its test.
    """
    if change.planned_deviation == 0:
        return max(max_drop, change.half)
    reach = compute_normal_quantile(level) + compute_normal_quantile(1 - DETECTION_POWER)
    return max_drop + reach * change.planned_deviation


def _compute_interval_half(pairs: Sequence[Pair], variance: float, alpha: float, *, is_figure: bool) -> float:
    if is_figure:
        # One run on both sides has one degree of freedom: their difference, as in a paired test.
        freedom = sum(max(1, len(pair.baseline) + len(pair.candidate) - 2) for pair in pairs)
        return compute_student_quantile(alpha, freedom) * math.sqrt(variance)
    total = math.fsum(pair.weight for pair in pairs)
    inverse = math.fsum(
        (pair.weight / total) ** 2 / min(len(pair.baseline), len(pair.candidate)) for pair in pairs
    )
    return compute_half_width(variance, inverse, alpha)


def _compute_drop(pair: Pair) -> float:
    return compute_score_mean(pair.baseline) - compute_score_mean(pair.candidate)


def _compute_permutation_variance(pair: Pair, total: float, runs: int) -> float:
    """Return the case's part of the drop's variance under permutation, as if the candidate had `runs` runs.

    `total` is the sum of the weights of all cases.
    """
    pooled = pair.baseline + pair.candidate
    n, summed = len(pooled), sum(pooled)
    squares = (n * sum(x * x for x in pooled) - summed * summed) / (n * UNIT * UNIT)
    return (pair.weight / total) ** 2 * (1 / len(pair.baseline) + 1 / runs) * squares / (n - 1)


def compute_pooled_variance(pair: Pair) -> float:
    """Return the variance of one run of the case, from the runs of both sides as if nothing had changed."""
    return compute_score_variance(pair.baseline + pair.candidate)


def _compute_unpooled_variance(pair: Pair, total: float) -> float:
    """Return the case's part of the drop's variance, from the separate variances of both sides.

    `total` is the sum of the weights of all cases. If a side has only one run, its variance is unknown. Then
    the squared drop of the case replaces the sum of both variances.
    """
    share = (pair.weight / total) ** 2
    before, after = len(pair.baseline), len(pair.candidate)
    if before >= 2 and after >= 2:
        return share * (
            compute_score_variance(pair.baseline) / before + compute_score_variance(pair.candidate) / after
        )
    # The variance of a single run is unknown. The squared drop stands for the sum of both variances.
    return share * _compute_drop(pair) ** 2

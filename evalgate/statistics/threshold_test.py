"""Compare means and pass^k with a minimum, by confidence intervals.

The intervals have a width also if all scores are equal: few equal scores prove little.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias

from evalgate.core.types import MetricVerdict, ThresholdEstimate
from evalgate.statistics.parameters import EPSILON, PassKRule, Require
from evalgate.statistics.score_pairs import (
    UNIT,
    Thousandths,
    compute_score_mean,
    compute_score_variance,
)


@lru_cache(maxsize=64)
def compute_normal_quantile(alpha: float) -> float:
    """Return the quantile z that a standard normal variable exceeds with chance `alpha`.

    `alpha` is at most 0.5, and large enough that the float 1 - alpha is below 1.
    """
    return NormalDist().inv_cdf(1 - alpha)


@lru_cache(maxsize=64)
def compute_student_quantile(alpha: float, freedom: float) -> float:
    """Return the quantile that Student's t exceeds with chance `alpha`.

    `alpha` must be above 0 and below 0.5, and `freedom`, the degrees of freedom, at least 1. For 1 and 2
    degrees the result is exact. Other whole numbers use a series (Abramowitz and Stegun 26.7.5), and numbers
    between them an interpolation. For an alpha of 0.005 or more, the error is at most 4 % of the quantile.
    """
    below = math.floor(freedom)
    if below < freedom:
        share = (1 / below - 1 / freedom) * below * (below + 1)
        low, high = compute_student_quantile(alpha, below), compute_student_quantile(alpha, below + 1)
        return math.pow(low, 1 - share) * math.pow(high, share)
    if freedom == 1:
        return 1 / math.tan(math.pi * alpha)
    if freedom == 2:
        return (1 - 2 * alpha) * math.sqrt(2 / (4 * alpha * (1 - alpha)))
    z = compute_normal_quantile(alpha)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def compute_half_width(variance: float, inverse_runs: float, alpha: float) -> float:
    """Return the half width of a mean's interval: a + √(z²V + a²) with a = z²·m⁻¹/2.

    V is the `variance` of the mean, and z the normal quantile of `alpha`. `inverse_runs` is m⁻¹ = Σw²/R, the
    inverse of the effective number of runs. The sum is over the cases: w is the weight (all weights sum to
    1), and R the number of runs. The term a is the uncertainty that remains if none of a few runs fails. At
    zero variance the half width is z²·m⁻¹, which is close to the rule of three.
    """
    z = compute_normal_quantile(alpha)
    a = z * z * inverse_runs / 2
    return a + math.sqrt(z * z * variance + a * a)


def compute_wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the lower and the upper bound of the true share of successes; (0, 1) without trials.

    The bounds are Wilson's score interval of 95 %. Unlike the share ± 2 standard errors, its width is above 0
    even if no trial or every trial succeeded.
    """
    if trials == 0:
        return 0.0, 1.0
    z = compute_normal_quantile(0.025)
    share = successes / trials
    middle = share + z * z / (2 * trials)
    reach = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low = 0.0 if successes == 0 else (middle - reach) / scale
    high = 1.0 if successes == trials else (middle + reach) / scale
    return low, high


WeightedScores: TypeAlias = tuple[Thousandths, float]
"""Scores of a case, at least one, and the weight of the case."""


def compare_mean_with_minimum(
    cases: Sequence[WeightedScores], minimum: float, *, alpha: float, require: Require = "guard"
) -> ThresholdEstimate:
    """Compare the weighted mean of the case means with `minimum`; `cases` must not be empty.

    - A mean below the minimum fails if the upper end of its interval is below the minimum, too. Otherwise it
      is inconclusive.
    - Any other mean passes, with one exception: if `require` is "proof", and the lower end of its interval
      is below the minimum, it is inconclusive.
    """
    value, half = estimate_mean(cases, alpha)
    return _compare_estimate(value, half, minimum, require)


def estimate_mean(cases: Sequence[WeightedScores], alpha: float) -> tuple[float, float]:
    """Return the weighted mean of the case means, and the half width of its interval at the level `alpha`."""
    total = math.fsum(weight for _, weight in cases)
    value = math.fsum(weight / total * compute_score_mean(scores) for scores, weight in cases)
    # A single run shows no variance: take that of a pass-or-fail case with the mean of all cases.
    coin = value * (1 - value)
    spread = math.fsum(
        (weight / total) ** 2 * (compute_score_variance(scores) if len(scores) > 1 else coin) / len(scores)
        for scores, weight in cases
    )
    inverse = math.fsum((weight / total) ** 2 / len(scores) for scores, weight in cases)
    return value, compute_half_width(spread, inverse, alpha)


def compare_reliability_with_minimum(
    cases: Sequence[WeightedScores], demand: PassKRule, *, alpha: float, require: Require = "guard"
) -> ThresholdEstimate | None:
    """Compare the weighted mean of the cases' pass^k with its minimum; `cases` must not be empty.

    The verdict follows from an interval by the same rules as for a mean (`compare_mean_with_minimum`). pass^k
    of a case is the unbiased estimate C(c,k)/C(n,k) for c passed of n runs. Return None if a case has fewer
    than k scores.
    """
    # Do not estimate from the other cases alone: the case with too few runs may be the unreliable one.
    if any(len(scores) < demand.k for scores, _ in cases):
        return None
    total = math.fsum(weight for _, weight in cases)
    value = math.fsum(
        weight
        / total
        * (math.comb(count_passed(scores, demand.pass_score), demand.k) / math.comb(len(scores), demand.k))
        for scores, weight in cases
    )
    # Choices of k runs overlap: only n // k groups of runs are independent of each other.
    inverse = math.fsum((weight / total) ** 2 / (len(scores) // demand.k) for scores, weight in cases)
    half = compute_half_width(max(0.0, value * (1 - value)) * inverse, inverse, alpha)
    return _compare_estimate(value, half, demand.minimum, require)


def count_passed(scores: Thousandths, pass_score: float) -> int:
    """Count the runs that reach `pass_score`, which is from 0 to 1."""
    return sum(score / UNIT >= pass_score - EPSILON for score in scores)


def _compare_estimate(value: float, half: float, minimum: float, require: Require) -> ThresholdEstimate:
    low, high = max(0.0, value - half), min(1.0, value + half)
    verdict: MetricVerdict = "pass"
    if value < minimum - EPSILON:
        verdict = "fail" if high < minimum - EPSILON else "inconclusive"
    elif require == "proof" and low < minimum - EPSILON:
        verdict = "inconclusive"
    return ThresholdEstimate(value, minimum, low, high, verdict)

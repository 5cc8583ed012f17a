"""Averages and pass^k held against a minimum, with their intervals."""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from evalgate.frozen import frozen
from evalgate.statistics.interval import half_width
from evalgate.statistics.parameters import EPSILON, Reliability, Require
from evalgate.statistics.scores import UNIT, Thousandths, average, variance

Verdict: TypeAlias = Literal["pass", "fail", "inconclusive"]

Weighted: TypeAlias = tuple[Thousandths, float]
"""Scores of a case (at least one) and its weight."""


@frozen
class Estimate:
    """A figure between 0 and 1 and what is known about it."""

    value: float
    half: float
    minimum: float
    verdict: Verdict

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return max(0.0, self.value - self.half)

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return min(1.0, self.value + self.half)

    @property
    def proven(self) -> bool:
        """Even the lower end meets the minimum."""
        return self.low >= self.minimum - EPSILON


def mean_against(
    cases: Sequence[Weighted], minimum: float, *, alpha: float, require: Require = "guard"
) -> Estimate:
    """The weighted mean of the case means of at least one case."""
    total = math.fsum(weight for _, weight in cases)
    value = math.fsum(weight / total * average(scores) for scores, weight in cases)
    spread = math.fsum(
        (weight / total) ** 2 * _spread(scores, value) / len(scores) for scores, weight in cases
    )
    inverse = math.fsum((weight / total) ** 2 / len(scores) for scores, weight in cases)
    half = half_width(spread, inverse, alpha)
    return Estimate(value, half, minimum, _verdict(value, half, minimum, require))


def _spread(scores: Thousandths, suite: float) -> float:
    """The case's own variance; a single run borrows that of a coin with the suite's average."""
    return variance(scores) if len(scores) > 1 else suite * (1 - suite)


def reliability_against(
    cases: Sequence[Weighted], demand: Reliability, *, alpha: float, require: Require = "guard"
) -> Estimate | None:
    """pass^k over at least one case, by the unbiased C(c,k)/C(n,k); None while a case has too few runs."""
    if any(len(scores) < demand.k for scores, _ in cases):
        return None
    total = math.fsum(weight for _, weight in cases)
    value = math.fsum(weight / total * _all_pass(scores, demand) for scores, weight in cases)
    inverse = math.fsum((weight / total) ** 2 / (len(scores) // demand.k) for scores, weight in cases)
    half = half_width(max(0.0, value * (1 - value)) * inverse, inverse, alpha)
    return Estimate(value, half, demand.minimum, _verdict(value, half, demand.minimum, require))


def passed(scores: Thousandths, pass_score: float) -> int:
    """How many runs reach the score that counts as passed."""
    return sum(score / UNIT >= pass_score - EPSILON for score in scores)


def _all_pass(scores: Thousandths, demand: Reliability) -> float:
    return math.comb(passed(scores, demand.pass_score), demand.k) / math.comb(len(scores), demand.k)


def _verdict(value: float, half: float, minimum: float, require: Require) -> Verdict:
    if value < minimum - EPSILON:
        return "fail" if min(1.0, value + half) < minimum - EPSILON else "inconclusive"
    if require == "proof" and max(0.0, value - half) < minimum - EPSILON:
        return "inconclusive"
    return "pass"

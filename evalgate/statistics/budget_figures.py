"""Compare measured figures that have a budget, such as tokens or seconds: their means and 95th percentiles.

For means, figures are converted to shares from 0 to 1 by their logarithms, so that the tests of scores apply.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache

from evalgate.core.frozen import frozen
from evalgate.core.types import MetricVerdict, ThresholdEstimate
from evalgate.statistics.parameters import Require
from evalgate.statistics.score_pairs import CaseScores, Score

PERCENTILE = 0.95


@frozen
class CaseFigures:
    """Figures of one case, such as its tokens: one for each run, None for a run that is not compared."""

    baseline: Sequence[Score] | None
    """Figures of the stored runs, the oldest first; None: the baseline does not know the case."""
    candidate: Sequence[Score]
    weight: float = 1.0
    comparable: bool = True
    """False: the case or the metric changed since the baseline was recorded."""


@frozen
class LogShares:
    """Figures of all cases, converted by logarithms to shares from 0 to 1, as the tests of scores need.

    Within a case, a smaller figure has a larger share, because smaller figures and larger scores are better.
    """

    cases: Mapping[str, CaseScores]
    width: float
    """Difference of two natural logarithms that becomes a difference of 1 between their shares."""

    def to_ratio(self, drop: float) -> float:
        """Convert a drop of the mean share to a ratio: the candidate's figures divided by the baseline's."""
        return math.exp(drop * self.width)

    def to_drop(self, increase: float) -> float:
        """Return the drop of the mean share if all figures increase by the share `increase` (0.15 is 15 %).

        Shares are logarithmic, so the drop is ln(1 + increase) / `width`.
        """
        return math.log1p(increase) / self.width


def scale_logarithms(cases: Mapping[str, CaseFigures], *, offset: float = 0.0) -> LogShares:
    """Convert all figures to shares from 0 to 1 by their logarithms; a smaller figure has a larger share.

    Only figures of the same case are compared. So in each case the share 0.5 is the middle between the case's
    smallest and largest logarithm. All cases have the same `width`: the largest difference between two
    logarithms of one case, or 1 if no figures of a case differ. It is no larger than needed, because shares
    are rounded to thousandths later.

    `offset` is added to each figure before the logarithm is taken, such as 1 for counts, which may be 0. A
    figure of `-offset` or less has no logarithm, and its share is None.
    """
    logs: dict[str, dict[float, float]] = {}
    for name, row in cases.items():
        given = (each for each in (*(row.baseline or ()), *row.candidate) if each is not None)
        logs[name] = {each: math.log(each + offset) for each in given if each + offset > 0}
    centres = {
        name: (min(found.values()) + max(found.values())) / 2 if found else 0.0
        for name, found in logs.items()
    }
    reach = max(
        (abs(log - centres[name]) for name, found in logs.items() for log in found.values()), default=0.0
    )
    width = 2 * reach or 1.0

    def to_shares(name: str, figures: Sequence[Score]) -> tuple[Score, ...]:
        found, centre = logs[name], centres[name]
        return tuple(
            None if figure is None or figure not in found else 0.5 - (found[figure] - centre) / width
            for figure in figures
        )

    shares = {
        name: CaseScores(
            None if row.baseline is None else to_shares(name, row.baseline),
            to_shares(name, row.candidate),
            row.weight,
            row.comparable,
            skips_runs=True,
        )
        for name, row in cases.items()
    }
    return LogShares(shares, width)


def count_needed_runs(alpha: float) -> int:
    """Return the fewest runs of which the largest figure is an upper bound of the true 95th percentile.

    The bound holds with a chance of 1 − `alpha` or more. With fewer runs, there is no such bound.
    """
    return math.ceil(math.log(alpha) / math.log(PERCENTILE) - 1e-9)


def compare_percentile(
    figures: Sequence[float], limit: float, *, alpha: float, require: Require = "guard"
) -> ThresholdEstimate | None:
    """Compare the 95th percentile of the figures with `limit`, the largest figure that is allowed.

    - A percentile above the limit fails if the lower bound of its interval is above the limit, too.
      Otherwise it is inconclusive.
    - A percentile within the limit passes, with one exception: if `require` is "proof", and the upper bound
      of its interval is above the limit, it is inconclusive.

    Return None if there are fewer figures than `count_needed_runs(alpha)`. The bounds are order statistics,
    which hold for any distribution (Hahn and Meeker, Statistical Intervals, 5.2). The percentile lies beyond
    each bound with a chance of at most `alpha`. In the result, `minimum` is the limit, and `low` is 0 if no
    figure is low enough for a lower bound.
    """
    n = len(figures)
    if n < count_needed_runs(alpha):
        return None
    ordered = sorted(figures)
    value = ordered[math.ceil(PERCENTILE * n - 1e-9) - 1]
    below, above = _find_bounds(n, alpha)
    low, high = ordered[below - 1] if below else 0.0, ordered[above - 1]
    verdict: MetricVerdict = "pass"
    if value > limit:
        verdict = "fail" if low > limit else "inconclusive"
    elif require == "proof" and high > limit:
        verdict = "inconclusive"
    return ThresholdEstimate(value, limit, low, high, verdict)


@cache
def _find_bounds(n: int, alpha: float) -> tuple[int, int]:
    """Return the ranks of the two figures that bound the 95th percentile from below and from above.

    Rank 1 is the smallest of `n` figures. The first rank is 0 if no figure is low enough for a lower bound.
    `n` must be at least `count_needed_runs(alpha)`.
    """
    # Each bound is wrong with a chance of at most `alpha`. The number of figures at or below the percentile
    # is binomial. The figure of rank r is at or below it if this number is r or more.
    reached, below, above = 0.0, 0, n
    for rank in range(n):
        # reached = P(fewer than `rank` figures are below the percentile)
        if reached <= alpha:
            below = rank
        mass = math.exp(
            math.lgamma(n + 1)
            - math.lgamma(rank + 1)
            - math.lgamma(n - rank + 1)
            + rank * math.log(PERCENTILE)
            + (n - rank) * math.log1p(-PERCENTILE)
        )
        reached += mass
        if reached >= 1 - alpha:
            above = rank + 1
            break
    return below, above

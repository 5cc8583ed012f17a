"""How far the average moved from the baseline, and how much of that luck alone explains."""

import math
from collections.abc import Sequence

from evalgate.frozen import frozen
from evalgate.statistics.interval import half_width, quantile
from evalgate.statistics.pairing import Pair
from evalgate.statistics.parameters import EPSILON
from evalgate.statistics.permutation import Method, suite_tail
from evalgate.statistics.scores import UNIT, average, variance

_POWER = 2.5  # standard errors above max_drop that are caught about four times in five


@frozen
class Change:
    """The comparison of one metric; all figures in points of 1, on these cases."""

    cases: int
    baseline: float
    """Weighted mean of the cases' baseline means."""
    candidate: float
    drop: float
    """`baseline - candidate`: positive is worse."""
    p: float
    """One-sided: how likely luck alone gives a drop this large."""
    method: Method
    informative: int
    """Cases whose runs are not all equal; the others say nothing about luck."""
    noise: float
    """What luck alone moves the average by: z times its standard deviation."""
    half: float
    """Half width of the interval of the drop."""
    notice: float
    """Drops from here on are caught about four times in five; above 1 when none is."""
    same: bool
    """Every case has the same average as before."""
    single: bool
    """One run on both sides of every case: noise was not measured."""
    run_deviation: float = 0.0
    """Standard deviation of the average of one round of the candidate, from the pooled runs of each case."""

    @property
    def low(self) -> float:
        """Lower end of the interval of the drop."""
        return max(-1.0, self.drop - self.half)

    @property
    def high(self) -> float:
        """Upper end of the interval of the drop: at worst so much was lost."""
        return min(1.0, self.drop + self.half)


def suite_change(
    pairs: Sequence[Pair], *, alpha: float, max_drop: float = 0.05, planned_runs: int | None = None
) -> Change:
    """The change over at least one pair.

    Args:
        pairs: cases with scores on both sides.
        alpha: one-sided level of the interval, the noise and the notice.
        max_drop: the allowed drop that `notice` speaks about.
        planned_runs: runs of each case that a whole AUTO may make; None: those that were made.
    """
    total = math.fsum(pair.weight for pair in pairs)
    drop = math.fsum(pair.weight / total * _fall(pair) for pair in pairs)
    luck = math.fsum(_luck(pair, total, len(pair.candidate)) for pair in pairs)
    tail = suite_tail(pairs, drop, luck)
    inverse = math.fsum(
        (pair.weight / total) ** 2 / min(len(pair.baseline), len(pair.candidate)) for pair in pairs
    )
    unpooled = math.fsum(_unpooled(pair, total) for pair in pairs)
    half = half_width(max(luck, unpooled), inverse, alpha)
    ahead = math.fsum(_luck(pair, total, planned_runs or len(pair.candidate)) for pair in pairs)
    return Change(
        cases=len(pairs),
        baseline=math.fsum(pair.weight / total * average(pair.baseline) for pair in pairs),
        candidate=math.fsum(pair.weight / total * average(pair.candidate) for pair in pairs),
        drop=drop + 0.0,
        p=tail.p,
        method=tail.method,
        informative=tail.informative,
        noise=quantile(alpha) * math.sqrt(luck),
        half=half,
        notice=max_drop + _POWER * math.sqrt(ahead) if luck else max(max_drop, half),
        same=all(abs(_fall(pair)) <= EPSILON for pair in pairs),
        single=all(len(pair.baseline) == len(pair.candidate) == 1 for pair in pairs),
        run_deviation=math.sqrt(
            math.fsum((pair.weight / total) ** 2 * pooled_variance(pair) for pair in pairs)
        ),
    )


def _fall(pair: Pair) -> float:
    return average(pair.baseline) - average(pair.candidate)


def _luck(pair: Pair, total: float, runs: int) -> float:
    """The case's part of the permutation variance, if the candidate had `runs` runs."""
    pooled = pair.baseline + pair.candidate
    n, summed = len(pooled), sum(pooled)
    squares = (n * sum(x * x for x in pooled) - summed * summed) / (n * UNIT * UNIT)
    return (pair.weight / total) ** 2 * (1 / len(pair.baseline) + 1 / runs) * squares / (n - 1)


def pooled_variance(pair: Pair) -> float:
    """Return the variance of one run of the case, from the runs of both sides as if nothing had changed."""
    return variance(pair.baseline + pair.candidate)


def _unpooled(pair: Pair, total: float) -> float:
    """The case's part of the variance without pooling; the squared drop where one run hides it."""
    share = (pair.weight / total) ** 2
    before, after = len(pair.baseline), len(pair.candidate)
    if before >= 2 and after >= 2:
        return share * (variance(pair.baseline) / before + variance(pair.candidate) / after)
    return share * _fall(pair) ** 2

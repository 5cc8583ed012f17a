"""Compare variants of an agent with a reference variant: their scores on all metrics, and their usage.

Scores and drops are shares of the metric's range: 0.05 is 5 points.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.statistics.mean_difference import MeanDifference, compare_means
from evalgate.statistics.multiple_testing import compute_holm_levels
from evalgate.statistics.parameters import is_within_level
from evalgate.statistics.score_pairs import Pair
from evalgate.statistics.threshold_test import (
    compute_half_width,
    compute_normal_quantile,
    compute_student_quantile,
)

ALPHA = 0.05
"""Largest chance that a matrix (`evalgate matrix`) claims any difference that does not exist."""

_POWER_Z = 0.8416
"""Normal quantile of 80 %. An effect so many standard errors above its limit is found 4 times in 5."""

_MOST_RUNS = 1_000

_MOST_REACH = 600.0
"""Largest distance between a ratio and its bound, in natural logarithms; a larger one overflows a float."""

VariantConclusion: TypeAlias = Literal["better", "worse", "not_worse", "undecided"]
"""Conclusion about a variant. `better`, `worse`: the difference is larger than luck explains, with correction
for all comparisons. `not_worse`: the drop is shown to be below `max_drop`. `undecided`: nothing is shown."""

Comparison: TypeAlias = tuple[str, str]
"""(variant, metric): one variant is compared with the reference on one metric."""


@frozen
class VariantScore:
    """Comparison of a variant's scores with the reference's, for one metric and the cases scored in both."""

    conclusion: VariantConclusion
    reference: float
    """Weighted mean of the case means of the reference."""
    score: float
    """Weighted mean of the case means of the variant."""
    drop: float
    """`reference - score`; a positive drop is worse."""
    low: float
    """Lower bound of the drop. The lower bounds of all variants and metrics hold at the same time with a
    probability of 95 % or more. So do the upper bounds."""
    high: float
    p: float
    """Two-sided p: the chance that luck alone gives a difference this large, in either direction."""
    level: float
    """Level that `p` is compared with, after Holm's correction over all variants and metrics."""
    max_drop: float
    """Smallest drop that is too large (`max_regression`), as a share of the metric's range."""
    cases: int
    needed_runs: int | None = None
    """Number of runs of each case with which an `undecided` comparison would reach a conclusion with a chance
    of 80 %, if the true difference is as measured. None: there is a conclusion already, or a thousand runs
    would not suffice."""
    needed_cases: int | None = None
    """Number of cases that would suffice instead, if each case keeps its present number of runs (on average).
    None if `needed_runs` is None."""

    @property
    def is_within_limit(self) -> bool:
        """Return True if even the upper bound of the drop is below `max_drop`."""
        return self.high < self.max_drop


@frozen
class UsageRatio:
    """Ratio of a variant's mean usage, such as tokens or seconds, to the reference's, with its interval.

    For the interval the cases count as a random sample of all cases that the agent may get.
    """

    value: float
    """Variant's mean over all cases, divided by the reference's mean."""
    low: float
    high: float
    cases: int


@frozen
class ComparedScores:
    """Scores of the reference (`Pair.baseline`) and of a variant (`Pair.candidate`) on one metric."""

    pairs: Sequence[Pair]
    """For each case, its scores with the reference and with the variant; at least one case."""
    max_drop: float
    """Smallest drop that is too large, as a share of the metric's range."""


def compare_variants(tables: Mapping[Comparison, ComparedScores]) -> dict[Comparison, VariantScore]:
    """Compare every variant with the reference on every metric.

    The tests are two-sided, by permutation of runs within cases, with Holm's correction over all comparisons.
    Each bound of a drop has the level `ALPHA` divided by the number of comparisons. So all upper bounds are
    right together with a probability of 1 - `ALPHA` or more. The same holds for all lower bounds.
    """
    if not tables:
        return {}
    level = ALPHA / len(tables)
    found = {key: compare_means(table.pairs, alpha=level) for key, table in tables.items()}
    p_values = {key: min(1.0, 2 * min(change.p, change.rise_p)) for key, change in found.items()}
    names = {key: "\0".join(key) for key in tables}
    levels = compute_holm_levels({names[key]: p for key, p in p_values.items()}, ALPHA)
    return {
        key: _build_score(table, found[key], p_values[key], levels[names[key]], level)
        for key, table in tables.items()
    }


def _build_score(
    table: ComparedScores, change: MeanDifference, p: float, holm: float, level: float
) -> VariantScore:
    conclusion: VariantConclusion = "undecided"
    if is_within_level(p, holm):
        conclusion = "worse" if change.drop > 0 else "better"
    elif change.high < table.max_drop:
        conclusion = "not_worse"
    runs = None if conclusion != "undecided" else _count_needed_runs(table, change, level)
    made = sum(min(len(pair.baseline), len(pair.candidate)) for pair in table.pairs) / len(table.pairs)
    return VariantScore(
        conclusion,
        change.baseline,
        change.candidate,
        change.drop,
        change.low,
        change.high,
        p,
        holm,
        table.max_drop,
        change.cases,
        runs,
        None if runs is None else math.ceil(change.cases * runs / made - 1e-9),
    )


def _count_needed_runs(table: ComparedScores, change: MeanDifference, level: float) -> int | None:
    """Return the fewest runs of each case that give a conclusion with a chance of 80 %.

    The true difference is assumed to be the measured one. The comparison has a conclusion if it shows that
    there is a difference, or that the drop is below `max_drop`. Return None if a thousand runs do not
    suffice.
    """
    pairs, z = table.pairs, compute_normal_quantile(level)
    total = math.fsum(pair.weight for pair in pairs)
    inverse = math.fsum(
        (pair.weight / total) ** 2 / min(len(pair.baseline), len(pair.candidate)) for pair in pairs
    )
    # The variance of the interval: the formula of `compute_half_width`, solved for it.
    a = z * z * inverse / 2
    variance = max(0.0, ((change.half - a) ** 2 - a * a) / (z * z))
    made = sum(min(len(pair.baseline), len(pair.candidate)) for pair in pairs) / len(pairs)

    def decides(runs: int) -> bool:
        share = made / runs
        deviation = math.sqrt(variance * share)
        reach = compute_half_width(variance * share, inverse * share, level) + _POWER_Z * deviation
        is_shown = abs(change.drop) > (compute_normal_quantile(level / 2) + _POWER_Z) * deviation > 0
        return is_shown or change.drop + reach < table.max_drop

    if not decides(_MOST_RUNS):
        return None
    low, high = math.floor(made), _MOST_RUNS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high


LEAST_SECONDS = 0.02
"""Smallest difference of mean times, in seconds, that is reported: equal agents may differ by less."""


def estimate_usage_ratio(
    means: Sequence[tuple[float, float]], alpha: float = ALPHA, *, least_difference: float = 0.0
) -> UsageRatio | None:
    """Return the ratio of a variant's mean usage to the reference's, with its two-sided interval.

    `means` has for each case the mean usage of the reference and of the variant. Return None if there are
    fewer than two cases, if one side used nothing, or if the means over the cases differ by less than
    `least_difference`. If one case has all the usage of a side, the interval is practically unlimited.

    The cases count as a random sample. The variance is the jackknife's, on the logarithmic scale. Student's t
    has 1 / Σs² − 1 degrees of freedom, at least 1, where s is the share of a case in the usage. So a few
    expensive cases widen the interval, because they show little about the other cases. The interval is longer
    on the side of the long tail, by the skewness term of Johnson (1978), because a sample easily misses the
    few expensive cases.
    """
    n = len(means)
    before, after = math.fsum(then for then, _ in means), math.fsum(now for _, now in means)
    if n < 2 or before <= 0 or after <= 0 or abs(after - before) / n < least_difference:
        return None
    ratio = after / before
    if any(then >= before or now >= after for then, now in means):  # one case has all the usage of a side
        return UsageRatio(ratio, ratio * math.exp(-_MOST_REACH), ratio * math.exp(_MOST_REACH), n)
    logs = [math.log((after - now) / (before - then)) for then, now in means]
    center = math.fsum(logs) / n
    influences = [center - log for log in logs]
    second = math.fsum(each**2 for each in influences) / n
    third = math.fsum(each**3 for each in influences) / n
    deviation = math.sqrt((n - 1) * second)
    shares = math.fsum((then / before + now / after) ** 2 / 4 for then, now in means)
    reach = compute_student_quantile(alpha / 2, max(1.0, 1 / shares - 1))
    z = compute_normal_quantile(alpha / 2)
    skewness = third / second**1.5 if second > 0 else 0.0
    longer = skewness / math.sqrt(n) * (1 + 2 * z * z) / 6
    low = min(_MOST_REACH, deviation * (reach + max(0.0, -longer)))
    high = min(_MOST_REACH, deviation * (reach + max(0.0, longer)))
    return UsageRatio(ratio, ratio * math.exp(-low), ratio * math.exp(high), n)

"""Compute the means of scores. Their rounding decides whether a threshold is met."""

import functools
import math
import operator
from collections.abc import Collection, Iterable, Sequence

EPSILON = 1e-9
"""Smallest difference that counts. A smaller difference between two means is taken for a rounding error."""

_MEAN_ERROR = 1e-12
"""Largest rounding error of one mean: absolute for means below 1, relative to the mean for larger means."""


def compute_mean(values: Collection[float]) -> float:
    """Return the arithmetic mean of at least one finite value.

    The sum is rounded only once, and the result never leaves the range of the values. So the mean of three
    scores of 0.7 is 0.7, and does not miss a threshold of 0.7.
    """
    if len(values) == 1:
        return next(iter(values)) + 0.0  # like a sum: a float, and never -0.0
    try:
        average = math.fsum(values) / len(values)
    except OverflowError:
        average = math.fsum(value / len(values) for value in values)
    return min(max(average, min(values)), max(values))


def compute_weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the mean of finite `values`, weighted by `weights` above 0.

    If all weights are equal, the result is that of `compute_mean`.
    """
    if len(set(weights)) == 1:
        return compute_mean(values)
    average = math.fsum(map(operator.mul, values, weights)) / math.fsum(weights)
    return min(max(average, min(values)), max(values))


def round_mean_to_limit(mean: float, values: Collection[float], limit: float) -> float:
    """Return `limit` if `mean`, the mean of `values`, differs from it only by rounding errors; else `mean`.

    For example, the mean of 0.6, 0.8 and 1.0 is computed as 0.7999999999999999, which would miss a limit of
    0.8. If all values are equal, their mean has no rounding error and is returned unchanged.
    """
    is_rounded = min(values) < max(values)
    is_near = math.isclose(mean, limit, rel_tol=_MEAN_ERROR, abs_tol=_MEAN_ERROR)
    return float(limit) if is_rounded and is_near else mean


def compute_sequential_mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value, summed from left to right.

    Use this function to reproduce, to the last bit, the scores of frameworks that add floats one by one. From
    Python 3.12 on, the built-in `sum` rounds differently.
    """
    return functools.reduce(operator.add, values, 0.0) / len(values)


def compute_exact_mean(values: Iterable[float]) -> float:
    """Return the mean of at least one finite value, summed exactly and rounded once.

    Use this function to reproduce, to the last bit, the scores of frameworks that use `statistics.mean`.
    """
    import statistics

    return float(statistics.mean(values))

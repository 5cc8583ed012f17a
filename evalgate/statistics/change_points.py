"""Find the places at which a series of averages changed its level, by a permutation test.

The method is circular binary segmentation (Olshen et al. 2004), which also finds a fall that recovers:

1. A stretch is a group of neighbouring values. Its statistic is the difference of its mean from the mean of
   all other values, weighted by both lengths. Take the stretch with the largest statistic.
2. Put the same values in random orders, and take the largest statistic of each order. The stretch's p is the
   share of orders with a statistic that is not smaller. If p is too large, there is no change.
3. If the stretch begins or ends with the series, its other end is a change. If the stretch lies inside the
   series, the end with the clearer difference between the values before and after it is a change. The other
   end is a change only if the difference there is significant, too.
4. Search the pieces between changes in the same way.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import sub

from evalgate.core.frozen import frozen

ORDERS = 999
_SHORTEST_SIDE = 2
_TINY = 1e-12


@frozen
class ChangePoint:
    """One change of a series' level."""

    at: int
    """Index of the first value after the change."""
    before: float
    """Mean of the values since the previous change, or since the beginning of the series."""
    after: float
    """Mean of the values up to the next change, or to the end of the series."""
    p: float
    """Probability that a random order of the values has a stretch that differs as much from the other values.
    If both ends of a stretch are changes, both have the same p."""


def find_change_points(
    values: Sequence[float], *, alpha: float = 0.05, orders: int = ORDERS
) -> tuple[ChangePoint, ...]:
    """Return the changes of the level of a series, the earliest first.

    Each side of a change has two values or more. At an `alpha` of 0.05 a change in the middle of nine
    values can be found, a change in the middle of eight values cannot.

    Args:
        values: the averages, the oldest first.
        alpha: largest probability of finding a change in a series without a change. It applies again to each
            piece between two changes.
        orders: number of random orders in each test.
    """
    splits = sorted(_find_splits(values, 0, alpha, orders))
    ends = [0, *(at for at, _ in splits), len(values)]
    means = [_compute_mean(values[first:last]) for first, last in pairwise(ends)]
    return tuple(
        ChangePoint(at, before, after, p)
        for (at, p), before, after in zip(splits, means, means[1:], strict=False)
    )


def _find_splits(
    values: Sequence[float], offset: int, alpha: float, orders: int
) -> Iterator[tuple[int, float]]:
    """Yield (index, p) of each change in `values`, in no particular order.

    `values` is the piece of the series that begins at index `offset`. The yielded index counts from the
    start of the whole series.
    """
    largest, first, last = _find_stretch(values)
    if first == last:
        return
    p = _estimate_probability(values, lambda drawn: _has_stretch(drawn, largest - _TINY), orders)
    if p > alpha:
        return
    cuts = [cut for cut in (first, last) if 0 < cut < len(values)]
    if len(cuts) > 1:
        sides = ((first, values[:last]), (last - first, values[first:]))
        chances = [_compare_sides(part, cut, orders) for cut, part in sides]
        cuts = [cut for cut, chance in zip(cuts, chances, strict=True) if chance <= max(alpha, min(chances))]
    yield from ((offset + cut, p) for cut in cuts)
    for start, end in pairwise([0, *cuts, len(values)]):
        yield from _find_splits(values[start:end], offset + start, alpha, orders)


def _estimate_probability(
    values: Sequence[float], is_extreme: Callable[[Sequence[float]], bool], orders: int
) -> float:
    """Return the share of orders of the values for which `is_extreme` is true; never 0.

    The orders are `orders` random ones and the given order, for which `is_extreme` must be true.
    """
    source, drawn = random.Random(0), list(values)  # noqa: S311  the same result every time, and no secret
    reached = 0
    for _ in range(orders):
        source.shuffle(drawn)
        reached += is_extreme(drawn)
    return (1 + reached) / (1 + orders)


def _compare_sides(values: Sequence[float], at: int, orders: int) -> float:
    """Return the p of the difference between the mean before index `at` and the mean from `at` on.

    It is the share of random orders of the values with a difference that is not smaller.
    """

    def measure(drawn: Sequence[float]) -> float:
        return abs(_compute_mean(drawn[:at]) - _compute_mean(drawn[at:]))

    found = measure(values) - _TINY
    return _estimate_probability(values, lambda drawn: measure(drawn) >= found, orders)


def _find_stretch(values: Sequence[float]) -> tuple[float, int, int]:
    """Return (statistic, start, end) of the stretch that differs most from all other values.

    The index `end` is exclusive. Start and end are both 0 if no stretch differs from the other values.
    """
    count, sums = len(values), [0.0, *accumulate(values)]
    largest, bounds, total = _TINY, (0, 0), sums[-1]
    for first in (0, *range(_SHORTEST_SIDE, count - _SHORTEST_SIDE + 1)):
        for last in range(first + _SHORTEST_SIDE, count + 1):
            size, left = last - first, count - (last - first)
            if left < _SHORTEST_SIDE or 0 < count - last < _SHORTEST_SIDE:
                continue
            inside = sums[last] - sums[first]
            statistic = abs(inside / size - (total - inside) / left) * math.sqrt(size * left / count)
            if statistic > largest:
                largest, bounds = statistic, (first, last)
    return largest, *bounds


def _has_stretch(values: Sequence[float], least: float) -> bool:
    """Return True if some stretch has a statistic of at least `least`: a fast form of `_find_stretch`.

    If the mean of all values is subtracted from each value, the statistic of a stretch is the absolute sum of
    its values, times a factor that depends on its length alone. So lengths that cannot reach `least` are
    skipped, and each other length takes one pass. Speed matters, because a thousand orders of up to a
    thousand values are tested.
    """
    count, mean = len(values), _compute_mean(values)
    steps = [value - mean for value in values]
    sums = [0.0, *accumulate(steps)]
    # On each side of a stretch there are no values, or at least `_SHORTEST_SIDE`. A stretch that ends with
    # the series has the same statistic as the values before it.
    inner = sums[_SHORTEST_SIDE : count - _SHORTEST_SIDE + 1]
    widest, highest = max(inner) - min(inner), max(map(abs, steps))
    for size in range(_SHORTEST_SIDE, count - _SHORTEST_SIDE + 1):
        needed = least * math.sqrt(size * (count - size) / count)
        if abs(sums[size]) >= needed:
            return True
        if min(widest, highest * min(size, count - size)) < needed:
            continue
        insides = [*map(sub, inner[size:], inner)]
        if insides and (max(insides) >= needed or min(insides) <= -needed):
            return True
    return False


def _compute_mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0

"""Test one case exactly, by permutation of the candidate's runs and the baseline's runs.

Baseline and candidate together have n scores of a case, R of them the candidate's. If nothing changed, every
choice of R of the n scores is equally likely to be the candidate's. With binary scores this is Fisher's exact
test. `mean_difference.py` tests the average of all cases.
"""

import math
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

from evalgate.core.frozen import frozen
from evalgate.statistics.score_pairs import Thousandths

_WIDE = 500  # with more possible sums, `find_largest_p` takes a bound, because the exact distribution is slow


@frozen
class SumDistribution:
    """Distribution of the sum of the candidate's scores, if its runs are chosen at random from all runs.

    All runs are those of baseline and candidate. Sums are in thousandths of a score.
    """

    lowest: int
    """Smallest possible sum."""
    step: int
    """Distance between the sums of two neighbouring items of `counts`."""
    counts: tuple[int, ...]
    """Item i is the number of choices of runs with the sum `lowest + i·step`."""

    def find_index(self, total: int) -> int:
        """Return the index in `counts` of the sum `total`, which must be a possible sum."""
        return (total - self.lowest) // self.step

    def list_terms(self, total: int) -> list[tuple[int, float]]:
        """Return (distance from `total`, probability) of every possible sum.

        The distance is a number of `step`s, negative for sums below `total`.
        """
        observed, choices = self.find_index(total), sum(self.counts)
        return [(i - observed, count / choices) for i, count in enumerate(self.counts) if count]


@lru_cache(maxsize=8192)
def compute_sum_distribution(pooled: Thousandths, runs: int) -> SumDistribution:
    """Return the exact distribution of the sum of `runs` of the `pooled` scores, drawn without replacement.

    `pooled` must be in ascending order.
    """
    # The sums are counted by a recursion over the scores. The counts of all sums of subsets of one size are
    # packed into one integer, each in `slot` bytes, so that a score is added by a shift and an addition.
    low = pooled[0]
    step = math.gcd(*(score - low for score in pooled)) or 1
    values = [(score - low) // step for score in pooled]
    slot = (math.comb(len(pooled), runs).bit_length() + 7) // 8
    chosen = [1] + [0] * runs
    for index, value in enumerate(values):
        for size in range(min(index + 1, runs), 0, -1):
            chosen[size] += chosen[size - 1] << (8 * slot * value)
    packed = chosen[runs].to_bytes((chosen[runs].bit_length() + 7) // 8 + slot, "little")
    counts = [int.from_bytes(packed[at : at + slot], "little") for at in range(0, len(packed), slot)]
    while not counts[-1]:
        counts.pop()
    return SumDistribution(runs * low, step, tuple(counts))


@lru_cache(maxsize=8192)
def compute_case_p(baseline: Thousandths, candidate: Thousandths) -> float:
    """Return the exact one-sided p of one case, small if the candidate's scores are low.

    The scores of both sides are pooled. If the candidate has R scores, every possible choice of R pooled
    scores is considered. Then p is the share of the choices with a sum of at most the candidate's sum.
    """
    law = compute_sum_distribution(tuple(sorted(baseline + candidate)), len(candidate))
    below = sum(law.counts[: law.find_index(sum(candidate)) + 1])
    return below / math.comb(len(baseline) + len(candidate), len(candidate))


def find_largest_p(pooled: Thousandths, runs: int, threshold: float) -> float:
    """Return the largest possible p of a case that is at most `threshold`; 0 if every possible p is larger.

    `pooled` are all scores of the case, ascending. Any `runs` of these scores could be the candidate's, and
    each such choice gives a possible p. With more than 500 possible sums, the result is approximate, but
    never too small.
    """
    if threshold >= 1:
        return 1.0
    step = math.gcd(*(score - pooled[0] for score in pooled)) or 1
    if runs * (pooled[-1] - pooled[0]) // step > _WIDE:
        # Nearly every multiple of 1 / choices is a possible p, so take the largest one up to the threshold.
        choices = math.comb(len(pooled), runs)
        # In whole numbers, because the number of choices of 515 of 1,030 runs is too large for a float.
        numerator, denominator = threshold.as_integer_ratio()
        return (numerator * choices // denominator) / choices
    support = _list_attainable_p(pooled, runs)
    found = bisect_right(support, threshold)
    return support[found - 1] if found else 0.0


@lru_cache(maxsize=8192)
def _list_attainable_p(pooled: Thousandths, runs: int) -> tuple[float, ...]:
    counts = compute_sum_distribution(pooled, runs).counts
    choices = sum(counts)
    return tuple(below / choices for below, count in zip(accumulate(counts), counts, strict=True) if count)

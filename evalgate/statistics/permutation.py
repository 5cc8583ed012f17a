"""How a drop would be distributed if it were luck alone: runs swapped between the sides within each case.

Conditional on the pooled scores of a case, every choice of R of its n scores as the candidate's is equally
likely when nothing changed (the stratified permutation law; binary scores make it the conditional
Mantel-Haenszel test, one run on both sides makes it McNemar's).
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Literal, TypeAlias

from evalgate.frozen import frozen
from evalgate.statistics.pairing import Pair
from evalgate.statistics.scores import UNIT, Thousandths

_BUDGET = 250_000  # multiply-adds of an exact convolution; beyond, the normal law is near enough
_WIDE = 500  # places of a sum from which on its law is not worth the time where a bound will do
_EQUAL = 1e-8  # drops within this are the same drop

Method: TypeAlias = Literal["none", "exact", "normal"]
"""`none`: no case carries information."""


@frozen
class SumLaw:
    """The law of the candidate's sum in one case."""

    lowest: int
    step: int
    counts: tuple[int, ...]
    """How many of the choices give `lowest + i·step`."""

    def position(self, total: int) -> int:
        """The index of a sum that can occur."""
        return (total - self.lowest) // self.step

    def terms(self, total: int) -> list[tuple[int, float]]:
        """(steps above the sum that was observed, probability) of every sum that can occur."""
        observed, choices = self.position(total), sum(self.counts)
        return [(i - observed, count / choices) for i, count in enumerate(self.counts) if count]


@frozen
class Tail:
    """How likely luck alone gives a drop this large."""

    p: float
    method: Method
    informative: int
    """Cases whose scores are not all equal."""


@lru_cache(maxsize=8192)
def sum_law(pooled: Thousandths, runs: int) -> SumLaw:
    """The exact law of the sum of `runs` of the ascending `pooled` scores, drawn without replacement.

    Subset-sum recursion on polynomials that are packed into integers, one slot of bytes a coefficient: adding
    a score is a shift and an addition.
    """
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
    return SumLaw(runs * low, step, tuple(counts))


@lru_cache(maxsize=8192)
def case_p(baseline: Thousandths, candidate: Thousandths) -> float:
    """Exact one-sided p of one case: the share of choices with a sum at or below the candidate's."""
    law = sum_law(tuple(sorted(baseline + candidate)), len(candidate))
    below = sum(law.counts[: law.position(sum(candidate)) + 1])
    return below / math.comb(len(baseline) + len(candidate), len(candidate))


def largest_p_within(pooled: Thousandths, runs: int, threshold: float) -> float:
    """The largest p up to the threshold that a case with these ascending scores could have shown; 0 for none.

    Scores on a fine grid could show nearly every multiple of one choice's share: that multiple is taken,
    which is never too small.
    """
    if threshold >= 1:
        return 1.0
    if _cells(pooled, runs) > _WIDE:
        choices = math.comb(len(pooled), runs)
        return math.floor(threshold * choices) / choices
    support = _attainable(pooled, runs)
    found = bisect_right(support, threshold)
    return support[found - 1] if found else 0.0


def _cells(pooled: Thousandths, runs: int) -> int:
    step = math.gcd(*(score - pooled[0] for score in pooled)) or 1
    return runs * (pooled[-1] - pooled[0]) // step


@lru_cache(maxsize=8192)
def _attainable(pooled: Thousandths, runs: int) -> tuple[float, ...]:
    counts = sum_law(pooled, runs).counts
    choices = sum(counts)
    return tuple(below / choices for below, count in zip(accumulate(counts), counts, strict=True) if count)


def suite_tail(pairs: Iterable[Pair], drop: float, variance: float) -> Tail:
    """One-sided mid-p of the weighted drop; plain p where a single case carries information.

    Args:
        pairs: the cases that are compared.
        drop: Σwᵢ(b̄ᵢ − c̄ᵢ), weights normalised.
        variance: of the drop under permutation.
    """
    pairs = tuple(pairs)
    informative = sorted((pair for pair in pairs if _informative(pair)), key=_canonical)
    if not informative:
        return Tail(1.0, "none", 0)
    if len(informative) == 1:
        return Tail(case_p(informative[0].baseline, informative[0].candidate), "exact", 1)
    weight = math.fsum(pair.weight for pair in pairs)
    exact = _convolved_p(informative, weight)
    if exact is None:
        return Tail(_normal_p(informative, weight, drop, variance), "normal", len(informative))
    return Tail(exact, "exact", len(informative))


def _informative(pair: Pair) -> bool:
    return min(pair.baseline[0], pair.candidate[0]) != max(pair.baseline[-1], pair.candidate[-1])


def _canonical(pair: Pair) -> tuple[int, Thousandths, Thousandths, float]:
    """Binary cases first, and one order for all orders of the input: floating sums depend on it."""
    return len({*pair.baseline, *pair.candidate}), pair.baseline, pair.candidate, pair.weight


def _convolved_p(pairs: Sequence[Pair], weight: float) -> float | None:
    """P(D > d) + P(D = d)/2 by convolution on a common lattice; None where that is over budget."""
    if _least_cost(pairs) > _BUDGET:
        return None
    steps, scale = _lattice(pairs)
    law: dict[int, float] = {0: 1.0}
    spent = 0
    for pair, step in zip(pairs, steps, strict=True):
        terms = sum_law(_pooled(pair), len(pair.candidate)).terms(sum(pair.candidate))
        spent += len(law) * len(terms)
        if spent > _BUDGET:
            return None
        law = _convolved(law, [(offset * step, probability) for offset, probability in terms])
    tolerance = _EQUAL * UNIT * weight * scale
    larger = math.fsum(mass for key, mass in law.items() if key < -tolerance)
    equal = math.fsum(mass for key, mass in law.items() if abs(key) <= tolerance)
    return min(1.0, larger + equal / 2)


def _convolved(law: dict[int, float], terms: list[tuple[int, float]]) -> dict[int, float]:
    result: dict[int, float] = {}
    for shift, probability in terms:
        for key, mass in law.items():
            place = key + shift
            result[place] = result.get(place, 0.0) + mass * probability
    return result


def _lattice(pairs: Sequence[Pair]) -> tuple[list[int], int]:
    """What one step of each case's sum moves Σ weight·(1/R0 + 1/R)·sum, as whole multiples of 1/scale.

    A weight means the decimal number that it prints as, so that 0.1 and 0.2 lie on one lattice.
    """
    moves = []
    for pair in pairs:
        before, after = len(pair.baseline), len(pair.candidate)
        step = sum_law(_pooled(pair), after).step if len({*_pooled(pair)}) > 2 else _gap(pair)
        moves.append(Fraction(repr(float(pair.weight))) * Fraction((before + after) * step, before * after))
    scale = math.lcm(*(move.denominator for move in moves))
    return [move.numerator * (scale // move.denominator) for move in moves], scale


def _gap(pair: Pair) -> int:
    return max(pair.baseline[-1], pair.candidate[-1]) - min(pair.baseline[0], pair.candidate[0])


def _pooled(pair: Pair) -> Thousandths:
    return tuple(sorted(pair.baseline + pair.candidate))


def _least_cost(pairs: Sequence[Pair]) -> int:
    """A lower bound of the convolution's cost, from |A + B| ≥ |A| + |B| − 1: large suites never start it."""
    size, cost = 1, 0
    for pair in pairs:
        least = _least_size(pair)
        cost += size * least
        size += least - 1
    return cost


def _least_size(pair: Pair) -> int:
    pooled, runs = _pooled(pair), len(pair.candidate)
    low = pooled.count(pooled[0])
    return min(runs, low) - max(0, runs - (len(pooled) - low)) + 1


def _normal_p(pairs: Sequence[Pair], weight: float, drop: float, variance: float) -> float:
    """Normal tail with the first skewness term of the Edgeworth series."""
    x = drop / math.sqrt(variance)
    skewness = -math.fsum(_third_cumulant(pair, weight) for pair in pairs) / math.sqrt(variance) ** 3
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    p = math.erfc(x / math.sqrt(2)) / 2 + skewness / 6 * (x * x - 1) * density
    return min(1.0, max(0.0, p))


def _third_cumulant(pair: Pair, weight: float) -> float:
    before, after = len(pair.baseline), len(pair.candidate)
    if before == after:  # symmetric; also the one case with n = 2
        return 0.0
    n, pooled = before + after, pair.baseline + pair.candidate
    total, squares, cubes = sum(pooled), sum(x * x for x in pooled), sum(x * x * x for x in pooled)
    third = (n * n * cubes - 3 * n * total * squares + 2 * total * total * total) / (n * UNIT) ** 3
    move = pair.weight / weight * (1 / before + 1 / after)
    return move * move * move * after * before * (before - after) * third / ((n - 1) * (n - 2))

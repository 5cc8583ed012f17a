"""Pair the cases of baseline and candidate by their scores."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Literal, TypeAlias

from evalgate.core.errors import InvalidInput
from evalgate.core.frozen import frozen
from evalgate.statistics.parameters import EPSILON, Rule

Score: TypeAlias = float | None
"""Of one run: 0 to 1; None, NaN and infinities are missing. A crash of the agent is 0, not missing."""

Thousandths: TypeAlias = tuple[int, ...]
"""Scores in thousandths, ascending: sums are exact and know no order, and -0.0 is 0."""

UNIT = 1000

_OUTSIDE = -1


def cleaned(scores: Sequence[Score], case: str = "") -> Thousandths:
    """The scores that are there, clamped within 1e-9 and rounded to 3 decimals.

    Raises:
        InvalidInput: for a number outside 0 to 1, naming the case.
    """
    found = [_thousandths(score) for score in scores if score is not None]
    if _OUTSIDE in found:
        wrong = next(score for score in scores if score is not None and _thousandths(score) == _OUTSIDE)
        place = f"case {case}: " if case else ""
        raise InvalidInput(
            f"{place}the score {wrong!r} is not between 0 and 1; scale the metric to that range."
        )
    return tuple(sorted(score for score in found if score is not None))


def missing(scores: Iterable[Score]) -> int:
    """How many runs have no score."""
    return sum(score is None or not math.isfinite(score) for score in scores)


def average(scores: Thousandths) -> float:
    """Mean of at least one score, in points of 1."""
    return sum(scores) / (UNIT * len(scores))


def variance(scores: Thousandths) -> float:
    """Sample variance (ddof 1) of at least two scores."""
    n, total = len(scores), sum(scores)
    return (n * sum(x * x for x in scores) - total * total) / (n * (n - 1) * UNIT * UNIT)


@lru_cache(maxsize=8192)
def _thousandths(score: float) -> int | None:
    """None for NaN and infinities."""
    if not math.isfinite(score):
        return None
    return round(round(score, 3) * UNIT) if -EPSILON <= score <= 1 + EPSILON else _OUTSIDE


Unpaired: TypeAlias = Literal["new", "removed", "changed", "no_score"]


@frozen
class CaseScores:
    """One metric's raw scores of one case."""

    baseline: Sequence[Score] | None
    """Oldest run first; None: the baseline does not know the case."""
    candidate: Sequence[Score] | None
    """In the order in which the runs were asked for, so far; None: the case is gone and will not be run."""
    weight: float = 1.0
    """Greater than 0."""
    comparable: bool = True
    """False: the case, the metric or its judge changed since the baseline was recorded."""


@frozen
class GatingMetric:
    """A metric that can close the gate: what it must hold and what was measured."""

    cases: Mapping[str, CaseScores]
    rule: Rule = field(default_factory=Rule)


@frozen
class Pair:
    """A case with scores on both sides."""

    case: str
    baseline: Thousandths
    candidate: Thousandths
    weight: float = 1.0
    attempted: int = 0
    """Candidate runs that were made, with and without a score."""


@frozen
class Sorted:
    """All cases of a metric, each in one place."""

    pairs: tuple[Pair, ...]
    unpaired: Mapping[str, Unpaired]
    measured: Mapping[str, tuple[Thousandths, float]]
    """Case → scores and weight of every case of the candidate that has a score; new and changed ones too."""
    missing: int
    """Candidate runs without a score, over all cases."""
    planned: int
    """Candidate runs that were asked for."""


def sort_out(
    cases: Mapping[str, CaseScores], *, keep: int, first: int | None = None, runs: int = 0
) -> Sorted:
    """Pair what can be paired.

    Args:
        cases: case id → scores.
        keep: newest baseline runs that count.
        first: only so many candidate runs of each case count; None: all.
        runs: that many runs of each case were planned at least. A case without any misses all of them; one
            that was stopped early misses none.

    Raises:
        InvalidInput: for a score outside 0 to 1 or a weight that is not a positive number.
    """
    pairs, unpaired, measured = [], {}, {}
    lost = planned = 0
    for case, scores in cases.items():
        made = None if scores.candidate is None else tuple(scores.candidate)[:first]
        candidate = cleaned(made or (), case)
        baseline = cleaned(() if scores.baseline is None else scores.baseline[-keep:], case)
        weight = _weight(scores.weight, case)
        if made is not None:
            planned += max(len(made), runs)
            lost += missing(made) if made else runs
        if candidate:
            measured[case] = (candidate, weight)
        if status := _unpaired(scores, baseline, candidate):
            unpaired[case] = status
        else:
            pairs.append(Pair(case, baseline, candidate, weight, len(made or ())))
    return Sorted(tuple(pairs), unpaired, measured, lost, planned)


def _unpaired(scores: CaseScores, baseline: Thousandths, candidate: Thousandths) -> Unpaired | None:
    if scores.candidate is None:
        return "removed"
    if scores.baseline is None:
        return "new"
    if not scores.comparable:
        return "changed"
    return None if baseline and candidate else "no_score"


def _weight(weight: float, case: str) -> float:
    if not (math.isfinite(weight) and weight > 0):
        raise InvalidInput(f"case {case}: the weight {weight!r} is not a positive number.")
    return weight

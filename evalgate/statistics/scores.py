"""Raw scores made comparable: missing ones dropped, the rest whole thousandths."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from evalgate.errors import InvalidInput
from evalgate.statistics.parameters import EPSILON

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

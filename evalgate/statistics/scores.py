"""Raw scores made comparable: missing ones dropped, the rest whole thousandths."""

import math
from collections.abc import Iterable
from typing import TypeAlias

from evalgate.errors import InvalidInput
from evalgate.statistics.parameters import EPSILON

Score: TypeAlias = float | None
"""Of one run: 0 to 1; None, NaN and infinities are missing. A crash of the agent is 0, not missing."""

Thousandths: TypeAlias = tuple[int, ...]
"""Scores in thousandths, ascending: sums are exact and know no order, and -0.0 is 0."""

UNIT = 1000


def cleaned(scores: Iterable[Score], case: str = "") -> Thousandths:
    """The scores that are there, clamped within 1e-9 and rounded to 3 decimals.

    Raises:
        InvalidInput: for a number outside 0 to 1, naming the case.
    """
    return tuple(
        sorted(_thousandths(score, case) for score in scores if score is not None and math.isfinite(score))
    )


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


def _thousandths(score: float, case: str) -> int:
    if not -EPSILON <= score <= 1 + EPSILON:
        place = f"case {case}: " if case else ""
        raise InvalidInput(
            f"{place}the score {score!r} is not between 0 and 1; scale the metric to that range."
        )
    return round(round(score, 3) * UNIT)

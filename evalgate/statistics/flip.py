"""The smallest change that would have turned a verdict: the answer to "how close was it?"."""

import math
from collections.abc import Iterable

from evalgate.statistics.assessment import Assessment
from evalgate.statistics.parameters import EPSILON, Rule
from evalgate.statistics.results import Flip, Part
from evalgate.statistics.scores import UNIT, Thousandths


def flip(assessment: Assessment, rule: Rule, deciding: Part) -> Flip | None:
    """For a verdict on an average: where it turns and what it takes. None for verdicts on cases and data.

    After a pass, the average must fall to the limit, where the verdict stops being a pass; after a fail or a
    "can't tell", it must rise to the limit. Luck can turn a fail into a "can't tell" earlier: this is what it
    takes at most. A verdict that hangs on proof or on luck has no such number.
    """
    if deciding.kind == "average" and assessment.change is not None and rule.max_drop is not None:
        pairs = assessment.scores.pairs
        return _turning(
            assessment.change.candidate,
            assessment.change.baseline - rule.max_drop,
            [(pair.candidate, pair.weight) for pair in pairs],
            deciding,
        )
    if deciding.kind == "minimum" and assessment.minimum is not None:
        estimate = assessment.minimum
        return _turning(estimate.value, estimate.minimum, list(assessment.scores.measured.values()), deciding)
    if deciding.kind == "reliability" and assessment.reliability is not None:
        pass_k = assessment.reliability
        return Flip(pass_k.minimum, abs(pass_k.value - pass_k.minimum), None)
    return None


def _turning(
    average: float, limit: float, cases: list[tuple[Thousandths, float]], deciding: Part
) -> Flip | None:
    if deciding.reason in {"unproven", "likely_luck"}:
        return None
    rising = deciding.verdict != "pass"
    if not rising and average <= limit:  # a drop of exactly nothing passes at max_drop 0
        return Flip(limit, 0.0, None)
    distance = abs(average - limit)
    return Flip(limit, distance, _fewest(_gains(cases, rising=rising), distance))


def _gains(cases: Iterable[tuple[Thousandths, float]], *, rising: bool) -> list[float]:
    """How far the average moves when one run scores 1 instead (or 0), largest first."""
    cases = list(cases)
    total = math.fsum(weight for _, weight in cases)
    gains = (
        weight / total * ((UNIT - score) if rising else score) / (UNIT * len(scores))
        for scores, weight in cases
        for score in scores
    )
    return sorted((gain for gain in gains if gain > 0), reverse=True)


def _fewest(gains: list[float], distance: float) -> int | None:
    reached = 0.0
    for count, gain in enumerate(gains, 1):
        reached += gain
        if reached >= distance - EPSILON:
            return count
    return None

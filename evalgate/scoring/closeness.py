"""How close a mean is to its threshold: what it would have taken to end on the other side."""

import math
from collections.abc import Iterable, Sequence

from evalgate.model import CaseMetric, CaseResult, Flip
from evalgate.scoring.ranges import UNIT, Range

_EPSILON = 1e-9  # a mean is a sum: its last bits are noise


def flip(
    score: float | None,
    threshold: float,
    members: Sequence[tuple[CaseResult, CaseMetric]],
    known: Range = UNIT,
) -> Flip | None:
    """The distance, and the fewest runs that would need the best score; the worst where the threshold is met.

    `members` are the cases of the mean, those without a score included. None without a mean, or for scores
    beyond their range, where one run can make any difference.
    """
    counting = [(case.weight, _scores(case, metric)) for case, metric in members if metric.score is not None]
    low, high = known.low, known.high
    beyond = [each for _, scores in counting for each in scores if not low <= each <= high]
    if score is None or beyond:
        return None
    rising, distance = score < threshold, abs(score - threshold)
    total = math.fsum([weight for weight, _ in counting])
    gains = [
        weight / total * ((high - each) if rising else each - low) / len(scores)
        for weight, scores in counting
        for each in scores
    ]
    return Flip(threshold, distance, _fewest(gains, distance - _EPSILON if rising else distance + _EPSILON))


def _scores(case: CaseResult, metric: CaseMetric) -> list[float]:
    name = metric.name
    return [
        each.score
        for run in case.runs
        if not run.confirms
        for each in run.metrics
        if each.name == name and each.score is not None
    ]


def _fewest(gains: Iterable[float], distance: float) -> int | None:
    """How many of the largest gains reach so far; None: all of them do not."""
    reached = 0.0
    for count, gain in enumerate(sorted(gains, reverse=True), 1):
        reached += gain
        if reached >= distance:
            return count
    return None

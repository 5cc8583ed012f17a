"""How close a mean is to its threshold: what it would have taken to end on the other side."""

import math
from array import array
from collections.abc import Iterable, Sequence
from itertools import islice

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
    # Arrays: there may be hundreds of thousands, beside a record that fills the memory.
    weights, counts, scores = array("d"), array("Q"), array("d")
    for case, metric in members:
        if metric.score is not None:
            found = _scores(case, metric)
            weights.append(case.weight)
            counts.append(len(found))
            scores.extend(found)
    low, high = known.low, known.high
    if score is None or any(not low <= each <= high for each in scores):
        return None
    rising, distance = score < threshold, abs(score - threshold)
    total, rest = math.fsum(weights), iter(scores)
    gains = array(
        "d",
        (
            weight / total * ((high - each) if rising else each - low) / count
            for weight, count in zip(weights, counts, strict=True)
            for each in islice(rest, count)
        ),
    )
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

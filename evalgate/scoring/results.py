"""What a metric gave, where it is a result at all: anybody's package may bring a metric."""

import math

from evalgate.model import MetricFailed, MetricResult, NotApplicable, Scored


def checked(given: object) -> MetricResult:
    """`given` itself, or how the metric failed: it gave something else, or a score that is not finite."""
    if not isinstance(given, Scored):
        if isinstance(given, NotApplicable | MetricFailed):
            return given
        return MetricFailed(f"the metric gave no result, but a value of type {type(given).__name__}")
    scores: list[object] = [turn.score for turn in given.turns if turn.score is not None]
    wrong = [score for score in (given.score, *scores) if not _is_finite(score)]
    return MetricFailed(f"the metric gave the score {wrong[0]!r:.80}, no finite number") if wrong else given


def _is_finite(score: object) -> bool:
    return isinstance(score, (int, float)) and math.isfinite(score)

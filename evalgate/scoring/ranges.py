"""Between which numbers a metric's scores lie, for those whose scores are not between 0 and 1."""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite

from evalgate.errors import Problem

UNIT = (0.0, 1.0)

SCORE_RANGES: Mapping[str, tuple[float, float]] = {"response_evaluation_score": (1.0, 5.0)}
"""Google ADK's metric → lowest and highest score; whatever is not here scores from 0 to 1."""


def out_of_range(
    criteria: object, file: str, position: Callable[[tuple[str | int, ...]], tuple[int, int]]
) -> Iterator[Problem]:
    """A problem for each threshold that no score can be on both sides of, in raw `criteria`."""
    for name, value in criteria.items() if isinstance(criteria, Mapping) else ():
        threshold = value.get("threshold") if isinstance(value, Mapping) else value
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not isfinite(threshold):
            continue
        low, high = SCORE_RANGES.get(str(name), UNIT)
        if not low <= threshold <= high:
            bound = f"less than or equal to {high:g}" if threshold > high else f"at least {low:g}"
            path = ("criteria", name, "threshold")
            yield Problem(file, *position(path), f"`criteria.{name}.threshold` should be {bound}")

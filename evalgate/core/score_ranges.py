"""Ranges of metric scores; most metrics score from 0 to 1."""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import NamedTuple, TypeAlias, TypeGuard

from evalgate.core.errors import Problem
from evalgate.core.types import UNIT_RANGE

_KeyPath: TypeAlias = tuple[str | int, ...]


_ROUNDING = 1e-9  # a mean of ten scores of 1.0 can be 1.0000000000000002


class Range(NamedTuple):
    """The lowest and the highest score."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """Return the distance between the lowest and the highest score."""
        return self.high - self.low

    def clamp(self, score: float) -> float:
        """Return the score, moved to the end of the range if rounding alone put it outside."""
        if self.low - _ROUNDING <= score < self.low:
            return self.low
        return self.high if self.high < score <= self.high + _ROUNDING else score

    def to_share(self, score: float) -> float:
        """Convert a score to its share of the range: 0 is the lowest, 1 the highest."""
        return score if self == UNIT else (score - self.low) / self.width

    def to_score(self, share: float) -> float:
        """Convert a share of the range to a score."""
        return share if self == UNIT else self.low + share * self.width

    def __str__(self) -> str:
        return f"{self.low:g} and {self.high:g}"


UNIT = Range(*UNIT_RANGE)

SCORE_RANGES: Mapping[str, Range] = {"response_evaluation_score": Range(1.0, 5.0)}
"""Range of each Google ADK metric that does not score from 0 to 1."""


def get_score_range(metric: str) -> Range:
    """Return the range of a metric's scores."""
    return SCORE_RANGES.get(metric, UNIT)


def find_out_of_range_values(
    thresholds: object, file: str, position: Callable[[_KeyPath], tuple[int, int]]
) -> Iterator[Problem]:
    """Yield a problem for each number in a raw thresholds file that the metric's scores cannot reach."""
    values = thresholds if isinstance(thresholds, Mapping) else {}
    own = dict(_read_declared_ranges(values))
    for path, name, value in _find_score_numbers(values):
        known = own.get(name, get_score_range(name))
        if known is None:
            continue
        is_drop = path[-1] in _DROPS
        allowed = Range(0.0, known.width) if is_drop else known
        if not allowed.low <= value <= allowed.high:
            why = f", for its scores are between {known}" if is_drop else ", as its scores are"
            why = "" if known == UNIT else why
            shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]
            yield Problem(file, *position(path), f"`{shown}` should be between {allowed}{why}")


def _read_declared_ranges(thresholds: Mapping[object, object]) -> Iterator[tuple[str, Range | None]]:
    """Yield the ranges of the user's own metrics; None for a wrong one, which is reported elsewhere."""
    for name, metric in _list_items(thresholds.get("custom_metrics")):
        bounds = dict(_list_items(metric)).get("range")
        if bounds is not None:
            low, high = bounds if isinstance(bounds, list) and len(bounds) == 2 else (None, None)
            yield name, Range(low, high) if _is_number(low) and _is_number(high) and low < high else None


_DROPS = ("max_regression", "max_drop")


def _find_score_numbers(thresholds: Mapping[object, object]) -> Iterator[tuple[_KeyPath, str, float]]:
    """Yield path, metric and value of each number that is compared with scores."""
    for name, value in _list_items(thresholds.get("criteria")):
        own = dict(_list_items(value)) or {"threshold": value}
        for key in ("threshold", "min_mean", *_DROPS):
            if _is_number(found := own.get(key)):
                yield ("criteria", name, key), name, found
    rules = thresholds.get("cases")
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        for name, value in _list_items(dict(_list_items(rule)).get("criteria")):
            place = ("cases", index, "criteria", name)
            if _is_number(value):
                yield place, name, value
            for key in ("threshold", "min_mean"):
                if _is_number(found := dict(_list_items(value)).get(key)):
                    yield (*place, key), name, found


def _list_items(value: object) -> Iterator[tuple[str, object]]:
    yield from ((str(name), each) for name, each in value.items()) if isinstance(value, Mapping) else ()


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)

"""Ranges of metric scores, mostly 0 to 1. For a budget, such as cost, smaller scores are better."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from evalgate.core.formatting import (
    LARGEST_FIGURE,
    Neighbours,
    format_delta,
    format_figure,
    format_figure_pair,
    format_limit,
    format_score,
    format_score_pair,
)

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

_ROUNDING = 1e-9  # a mean of ten scores of 1.0 can be 1.0000000000000002


class Range(NamedTuple):
    """The worst and the best possible score of a metric; in JSON, a list of two numbers.

    `low` is the worst score, so it is above `high` if smaller scores are better, as for a budget.
    """

    low: float
    high: float

    @property
    def lower_is_better(self) -> bool:
        """Return True if smaller scores are better."""
        return self.high < self.low

    def is_met(self, score: float, threshold: float) -> bool:
        """Return True if the score is as good as the threshold, or better."""
        return score <= threshold if self.high < self.low else score >= threshold

    @property
    def width(self) -> float:
        """Return the distance between the worst and the best score, at least 0."""
        return abs(self.high - self.low)

    def rank(self, score: float) -> float:
        """Return a number to sort by: a worse score has a smaller number."""
        return -score if self.lower_is_better else score

    def clamp(self, score: float) -> float:
        """Return the score without a rounding error that puts it slightly outside of the range.

        A score that is outside the range by at most 1e-9 becomes the nearest end of the range. Any other
        score is returned unchanged. For a budget, a figure from 0 to 1e-9 becomes 0, the best score.
        """
        if self.low <= score <= self.high:
            return score  # the usual case, checked first
        if self.low - _ROUNDING <= score < self.low:
            return self.low
        return self.high if self.high < score <= self.high + _ROUNDING else score

    def to_share(self, score: float) -> float:
        """Convert a score to its share of the range: 0 is the worst, 1 the best."""
        return score if self == UNIT_RANGE else (score - self.low) / (self.high - self.low)

    def to_score(self, share: float) -> float:
        """Convert a share of the range (0 is the worst, 1 the best) to a score."""
        return share if self == UNIT_RANGE else self.low + share * (self.high - self.low)

    def format(self, score: float | None, *, beside: Neighbours = None) -> str:
        """Return `score` as text with enough digits to differ from the numbers in `beside`.

        None is "–", and so is a figure of a budget that means "no limit" (1e15 or more).
        """
        if self.lower_is_better:
            return format_figure(score, beside=beside)
        return format_score(score, beside=beside)

    def format_limit(self, limit: float, *, beside: Neighbours = None) -> str:
        """Return a threshold or limit as text with enough digits to differ from the numbers in `beside`."""
        if self.lower_is_better:
            return format_figure(limit, beside=beside)
        return format_limit(limit, beside=beside)

    def format_pair(self, score: float | None, limit: float | None) -> tuple[str, str]:
        """Return the texts of a score and its limit, equal only if the numbers are equal; None is "–"."""
        if score is None or limit is None:
            return self.format(score), self.format(None) if limit is None else self.format_limit(limit)
        if self.lower_is_better:
            return format_figure_pair(score, limit)
        return format_score_pair(score, limit)

    def format_delta(self, delta: float | None) -> str:
        """Return the difference of two scores as text with its sign; None is "–"."""
        if not self.lower_is_better or delta is None or abs(delta) < _ROUNDING:
            return format_delta(delta)
        return f"{'+' if delta > 0 else '−'}{format_figure(abs(delta))}"

    def __str__(self) -> str:
        return f"{min(self):g} and {max(self):g}"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[Any], handler: "GetCoreSchemaHandler") -> "CoreSchema":
        # Without this pydantic would publish another schema than that of a plain pair of numbers, and would
        # accept an object with the keys `low` and `high` in results.json.
        from pydantic_core import core_schema

        del source
        pair = handler.generate_schema(tuple[float, float])
        return core_schema.no_info_after_validator_function(cls._make, pair)


UNIT_RANGE = Range(0.0, 1.0)

UNLIMITED = LARGEST_FIGURE
"""The largest figure of a budget, and the threshold of a budget without `max`."""

BUDGET_RANGE = Range(UNLIMITED, 0.0)

BUDGETS = (
    "budget/tokens",
    "budget/output_tokens",
    "budget/cost_usd",
    "budget/tool_calls",
    "budget/model_calls",
    "budget/turns",
    "budget/latency_s",
)
"""Metrics that measure the consumption of a run, such as tokens or seconds, instead of scoring it."""

SCORE_RANGES: Mapping[str, Range] = {
    "response_evaluation_score": Range(1.0, 5.0),
    **dict.fromkeys(BUDGETS, BUDGET_RANGE),
}
"""Range of each metric that does not score from 0 to 1."""


def get_score_range(metric: str) -> Range:
    """Return the range of a metric's scores; 0 to 1 for a name that evalgate does not know.

    A custom metric may declare its own range in the thresholds file: `Config.get_score_range` returns it.
    """
    return SCORE_RANGES.get(metric, UNIT_RANGE)

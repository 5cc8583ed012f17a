"""Ranges of metric scores; most metrics score from 0 to 1."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

_ROUNDING = 1e-9  # a mean of ten scores of 1.0 can be 1.0000000000000002


class Range(NamedTuple):
    """The lowest and the highest score; JSON has it as a list of two numbers."""

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
        return score if self == UNIT_RANGE else (score - self.low) / self.width

    def to_score(self, share: float) -> float:
        """Convert a share of the range to a score."""
        return share if self == UNIT_RANGE else self.low + share * self.width

    def __str__(self) -> str:
        return f"{self.low:g} and {self.high:g}"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[Any], handler: "GetCoreSchemaHandler") -> "CoreSchema":
        # Without this pydantic would publish another schema than that of a plain pair of numbers, and would
        # accept an object with the keys `low` and `high` in results.json.
        from pydantic_core import core_schema

        del source
        pair = handler.generate_schema(tuple[float, float])
        return core_schema.no_info_after_validator_function(cls._make, pair)


UNIT_RANGE = Range(0.0, 1.0)

SCORE_RANGES: Mapping[str, Range] = {"response_evaluation_score": Range(1.0, 5.0)}
"""Range of each Google ADK metric that does not score from 0 to 1."""


def get_score_range(metric: str) -> Range:
    """Return the range of a metric's scores."""
    return SCORE_RANGES.get(metric, UNIT_RANGE)

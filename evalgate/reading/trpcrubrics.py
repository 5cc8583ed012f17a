"""Rubrics of a case in tRPC-Agent-Go's eval sets."""

from typing import Self

from pydantic import Field, model_validator

from evalgate.model import Rubric
from evalgate.reading.trpcfiles import Wire


class _Content(Wire):
    text: str


class WireRubric(Wire):
    """What a judge must affirm of a case, for one metric."""

    id: str = ""
    metric_name: str = Field(alias="metricName")
    content: _Content
    description: str | None = None
    type: str | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not self.metric_name.strip():
            raise ValueError("must name the metric that it is for")
        if not self.content.text.strip():
            raise ValueError("must say what a judge is to affirm")
        return self

    def as_ours(self, number: int) -> Rubric:
        """The rubric; without an id it is called by its number."""
        own = self.id if self.id.strip() else unnamed(number)
        return Rubric(own, self.content.text, self.type, self.description, self.metric_name)


def unnamed(number: int) -> str:
    """What a judge calls the rubric of that number, from 1, which has no id."""
    return f"case_rubric_{number}"

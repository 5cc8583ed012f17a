"""The outcome of one case, as tests assert on it."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Self

from evalgate.core.types import CaseResult, ToolCall, TurnResult


class Outcome(CaseResult):
    """One case over all its runs: status, metrics, and what the agent said and called.

    `turns`, `response` and `tool_calls` are those of the first run; `runs` has all of them.

    >>> from evalgate import evaluate
    >>> case = {"query": "Hi", "reference": "Hello"}
    >>> record = evaluate([case], lambda text: "Hello", criteria={"response_match_score": 1.0})
    >>> outcome = Outcome.from_result(record.cases[0])
    >>> outcome.passed, outcome.response, outcome.scores
    (True, 'Hello', {'response_match_score': 1.0})
    """

    __slots__ = ()

    @classmethod
    def from_result(cls, result: CaseResult) -> Self:
        """Return the same result with the properties of this class."""
        return cls(**{each.name: getattr(result, each.name) for each in fields(result)})

    @property
    def passed(self) -> bool:
        """Return True if the case met all its criteria."""
        return self.status == "passed"

    @property
    def turns(self) -> tuple[TurnResult, ...]:
        """Return the turns of the first run, each with the user's text and the expected and actual reply."""
        return self.runs[0].turns if self.runs else ()

    @property
    def response(self) -> str:
        """Return the text of the last reply of the first run; "" if there is none."""
        replies = [turn.actual for turn in self.turns if turn.actual is not None]
        return (replies[-1].response or "") if replies else ""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls of all turns of the first run, in their order."""
        return tuple(call for turn in self.turns if turn.actual for call in turn.actual.tool_calls)

    @property
    def scores(self) -> Mapping[str, float | None]:
        """Return the score of each metric over all runs; None if it has none."""
        return {metric.name: metric.score for metric in self.metrics}

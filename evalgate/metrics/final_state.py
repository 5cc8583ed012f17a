"""Compare the session's state after the conversation with the state that the case expects."""

import json
from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict

from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
)


class FinalSessionState(BaseModel):
    """1.0 when every key of the case's expected state has its value in the session's final state, else 0.0.

    Values are compared with Python's `==`, to any depth. Top-level keys that the case does not expect are
    ignored. Google ADK documents `final_session_state` as "asserted after the run", but no release reads it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """Build the metric; `context` is ignored.

        Raises:
            ValidationError: the criterion has options, which this metric does not take.
        """
        del context
        return cls.model_validate(criterion.options)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score 0.0 or 1.0.

        Return `NotApplicable` for a case that expects no state, and a `MetricFailure` for a state that is
        nested too deep to be compared.
        """
        if case.final_state is None:
            return NotApplicable("the case expects no final session state")
        if run.final_state is None:
            return MetricScore(0.0, reason="the agent reported no session state")
        try:
            difference = _find_difference(case.final_state, run.final_state)
        except RecursionError:
            return MetricFailure("the session state is nested too deep to be compared")
        return MetricScore(0.0, reason=difference) if difference else MetricScore(1.0)


def _find_difference(expected: Mapping[str, object], actual: Mapping[str, object]) -> str:
    """Return a sentence about the first expected key that is missing or differs; "" if there is none."""
    for key, value in expected.items():
        if key not in actual:
            return f"state `{key}`: expected {_format_value(value)}, but the key is missing"
        if actual[key] != value:
            return f"state `{key}`: expected {_format_value(value)}, got {_format_value(actual[key])}"
    return ""


_LONGEST_VALUE = 80


def _format_value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"

"""`orchestrate/tool_call_precision` and `orchestrate/tool_call_recall`: right calls by calls, and by goals.

The counts that they come from stand in the details.
"""

from evalgate.journey.outcome import Outcome
from evalgate.journey.scoring import JourneyMetric
from evalgate.model import MetricResult, NotApplicable, Scored

_NO_CALLS_EXPECTED = "no goal asks for a tool call"


class ToolCallPrecision(JourneyMetric):
    """Calls that fulfilled a goal by all calls, in hundredths; 0.0 without a call."""

    reads_texts = False

    def _scored(self, outcome: Outcome) -> MetricResult:
        return _scored(outcome.calls.precision, outcome)


class ToolCallRecall(JourneyMetric):
    """Goals that a call fulfilled by goals that ask for one, in hundredths."""

    reads_texts = False

    def _scored(self, outcome: Outcome) -> MetricResult:
        return _scored(outcome.calls.recall, outcome)


def _scored(score: float | None, outcome: Outcome) -> MetricResult:
    if score is None:
        return NotApplicable(_NO_CALLS_EXPECTED)
    return Scored(score, reason="" if score == 1.0 else outcome.calls.reason, details=outcome.calls.details)

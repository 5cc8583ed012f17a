"""`orchestrate/journey_success` and `orchestrate/journey_completion`: what a conversation reached."""

from evalgate.journey.outcome import Outcome
from evalgate.journey.scoring import JourneyMetric
from evalgate.model import MetricResult, NotApplicable, Scored


class JourneySuccess(JourneyMetric):
    """1.0 when every goal that the order names was reached, each after those before it; else 0.0."""

    def _scored(self, outcome: Outcome) -> MetricResult:
        if failure := outcome.failure(doubts_count=True):
            return Scored(0.0, reason=failure, details=outcome.details)
        if outcome.failure(doubts_count=False):
            return NotApplicable(outcome.undecided)
        return Scored(1.0, details=outcome.details)


class JourneyCompletion(JourneyMetric):
    """Share of the goals that were reached, in whichever order, in hundredths."""

    def _scored(self, outcome: Outcome) -> MetricResult:
        completion = outcome.completion()
        if completion is None:
            return NotApplicable("the journey has no goal that can be reached")
        if outcome.undecided:
            return NotApplicable(outcome.undecided)
        reason = "" if completion == 1.0 else _first_unreached(outcome)
        return Scored(completion, reason=reason, details=outcome.details)


def _first_unreached(outcome: Outcome) -> str:
    if len(outcome.calls.reached) < outcome.calls.expected:
        return outcome.calls.reason
    for text in outcome.texts:
        if not text.is_reached:
            return f"no text is what the goal `{text.goal.name}` asks for"
    return "a widget was not shown, or a check does not hold"

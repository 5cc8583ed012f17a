"""`orchestrate/keyword_match` and `orchestrate/text_match`: whether the agent said what it should."""

from evalgate.journey.outcome import Outcome
from evalgate.journey.scoring import JourneyMetric
from evalgate.model import MetricResult, NotApplicable, Scored


class KeywordMatch(JourneyMetric):
    """1.0 when, for every goal with keywords, one text holds all of them; else 0.0."""

    def _scored(self, outcome: Outcome) -> MetricResult:
        asked = [text for text in outcome.texts if text.has_keywords is not None]
        if not asked:
            return NotApplicable("no goal names keywords")
        lacking = [text.goal.name for text in asked if not text.has_keywords]
        reason = f"no text holds all keywords of the goal `{lacking[0]}`" if lacking else ""
        return Scored(0.0 if lacking else 1.0, reason=reason)


class TextMatch(JourneyMetric):
    """1.0 when every goal that asks for a text was reached; else 0.0."""

    def _scored(self, outcome: Outcome) -> MetricResult:
        if not outcome.texts:
            return NotApplicable("no goal asks for a text")
        lacking = [text.goal.name for text in outcome.texts if text.is_reached is False]
        if lacking:
            return Scored(
                0.0, reason=f"no text is what the goal `{lacking[0]}` asks for", details=outcome.details
            )
        if any(text.is_reached is None for text in outcome.texts):
            return NotApplicable(outcome.undecided)
        unjudged = [text.goal.name for text in outcome.texts if not text.is_response_judged]
        reason = f"`{unjudged[0]}` was found by its keywords; its response was not judged" if unjudged else ""
        return Scored(1.0, reason=reason, details=outcome.details)

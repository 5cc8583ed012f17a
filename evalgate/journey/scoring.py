"""What the metrics of journeys share: their options, and a journey held against a run."""

from abc import ABC, abstractmethod
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from evalgate.journey.outcome import Outcome, outcome_of
from evalgate.journey.texts import LiteralJudge, TextJudge
from evalgate.model import CaseRun, Criterion, EvalCase, MetricFailed, MetricResult, NotApplicable
from evalgate.protocols import MetricContext
from evalgate.scoring.toolcalls import TOO_DEEP


class JourneyMetric(BaseModel, ABC):
    """Scores the conversation of a case that has a journey, as watsonx Orchestrate 1.6.9 does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    responses: Literal["judged", "exact"] = "judged"
    """How an expected response is compared that no text equals: `judged` leaves it to a judge, and without
    one to the goal's keywords; `exact` takes it for not reached."""

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """The metric; the release of Google ADK changes nothing.

        Raises:
            ValidationError: an option is unknown or wrong.
        """
        del context
        return cls.model_validate(criterion.options)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]. Not applicable to a case without a journey, or where only a judge can tell."""
        return await self.judged(case, run, LiteralJudge(knows_only_equal=self.responses == "judged"))

    async def judged(self, case: EvalCase, run: CaseRun, judge: TextJudge) -> MetricResult:
        """The score when this judge reads the texts."""
        if case.journey is None:
            return NotApplicable("the case has no journey: its source names no goals")
        try:
            return self._scored(await outcome_of(case, run, case.journey, judge))
        except RecursionError:
            return MetricFailed(TOO_DEEP)

    @abstractmethod
    def _scored(self, outcome: Outcome) -> MetricResult:
        """The score of an outcome."""

"""What the metrics of journeys share: their options, and a journey held against a run."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from evalgate.frozen import frozen
from evalgate.journey.modeljudge import PROMPTS, ModelTextJudge
from evalgate.journey.outcome import Outcome, outcome_of
from evalgate.journey.texts import LiteralJudge, TextJudge
from evalgate.judge.bench import Judge
from evalgate.judge.prompting import prompt
from evalgate.model import (
    CaseRun,
    Criterion,
    EvalCase,
    JsonObject,
    MetricFailed,
    MetricResult,
    NotApplicable,
    Scored,
)
from evalgate.protocols import Metric, MetricContext
from evalgate.scoring.toolcalls import TOO_DEEP


class JourneyMetric(BaseModel, ABC):
    """Scores the conversation of a case that has a journey, as watsonx Orchestrate 1.6.9 does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reads_texts: ClassVar[bool] = True
    """Whether its score depends on what was said."""

    responses: Literal["judged", "exact"] = "judged"
    """How an expected response is compared that no text equals: `judged` leaves it to the run's judge, and
    without one to the goal's keywords; `exact` takes it for not reached, and asks no judge of anything."""
    judge_model: str = ""
    """The model that judges; "": the run's own."""
    num_samples: Annotated[int, Strict()] = Field(default=1, ge=1, le=100)
    """How often a judge is asked each question."""

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Metric:
        """The metric, judged where a judge is configured; the release of Google ADK changes nothing.

        Raises:
            ValidationError: an option is unknown or wrong.
            NoJudge: it names a model of nobody knows whom.
        """
        metric, bench = cls.model_validate(criterion.options), context.bench
        if not cls.reads_texts or metric.responses == "exact" or bench is None:
            return metric
        if bench.config is None and not metric.judge_model:
            return metric
        return JudgedJourney(metric, bench.judge(metric.judge_model))

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


@frozen
class JudgedJourney:
    """A metric of journeys with a model that reads the texts."""

    metric: JourneyMetric
    judge: Judge

    @property
    def judged_by(self) -> JsonObject:
        """See `Judged`."""
        return {**self.judge.identity, "prompt": [prompt(name).version for name in PROMPTS]}

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]. Not applicable to a case without a journey.

        Raises:
            JudgeFailed: the judge does not say.
        """
        said = run.said or [turn.user for turn in case.turns]
        judge = ModelTextJudge(
            self.judge.client, self.metric.num_samples, context=said[0].text if said else ""
        )
        result = await self.metric.judged(case, run, judge)
        if isinstance(result, Scored) and judge.told:
            return replace(result, details={**(result.details or {}), "judged": judge.told})
        return result

"""`trpc/llm_judge_template`: what a model says to a prompt of the user's own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from pydantic import Field, model_validator

from evalgate.judge.asking import ModelAnswer
from evalgate.model import Criterion
from evalgate.protocols import MetricContext
from evalgate.scoring.criteria import BOUND
from evalgate.trpcjudging.evaluator import CannotJudge, JudgeOptions, LlmEvaluator, Question
from evalgate.trpcjudging.exchanges import Exchange
from evalgate.trpcjudging.rubrics import JudgedRubric
from evalgate.trpcjudging.scorecards import Scorecard
from evalgate.trpcjudging.settings import LlmJudge, told_apart
from evalgate.trpcjudging.templates import CannotFill, JudgeTemplate


class _Judge(LlmJudge):
    template: JudgeTemplate

    @model_validator(mode="after")
    def _scores_rubrics_by_id(self) -> Self:
        if self.template.scorer == "rubric_scores":
            told_apart(self.rubrics)
        return self


class _Options(JudgeOptions):
    llm_judge: _Judge = Field(alias="llmJudge")


@dataclass(frozen=True)
class TrpcLlmJudgeTemplate(LlmEvaluator):
    """The judge's score of each turn, averaged."""

    template: JudgeTemplate = field(kw_only=True)

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """See `LlmEvaluator`."""
        settings = _Options.model_validate(criterion.options, context=BOUND).llm_judge
        judge, name = settings.judge(context.bench), criterion.metric.removeprefix("trpc/")
        return cls(settings, judge, name, criterion.threshold, template=settings.template)

    async def question(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> Question:
        """See `LlmEvaluator`."""
        try:
            text = self.template.filled(so_far[-1], rubrics)
        except CannotFill as error:
            raise CannotJudge(str(error)) from None
        return Question(text, self.template.answer_schema)

    def read(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        """See `LlmEvaluator`."""
        return self.template.read(answer.text, ids)

"""`trpc/llm_judge_template`: what a model says to a prompt of the user's own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from pydantic import Field

from evalgate.judge.asking import ModelAnswer
from evalgate.model import Criterion
from evalgate.protocols import MetricContext
from evalgate.scoring.criteria import BOUND
from evalgate.trpcjudging.evaluator import CannotJudge, JudgedRubric, JudgeOptions, LlmEvaluator, Question
from evalgate.trpcjudging.exchanges import Exchange
from evalgate.trpcjudging.scorecards import Scorecard
from evalgate.trpcjudging.settings import LlmJudge
from evalgate.trpcjudging.templates import CannotFill, JudgeTemplate


class _Judge(LlmJudge):
    template: JudgeTemplate


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

    def lacks_rubrics(self, rubrics: Sequence[JudgedRubric]) -> bool:
        """Only where rubrics are scored."""
        return self.template.scorer == "rubric_scores" and not rubrics

    async def question(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> Question:
        """See `LlmEvaluator`."""
        wire = [rubric.as_wire() for rubric in self.settings.rubrics]
        own = {rubric.id.strip() for rubric in self.settings.rubrics}
        wire += [{"id": each.id, "content": {"text": each.text}} for each in rubrics if each.id not in own]
        try:
            text = self.template.filled(so_far[-1], wire)
        except CannotFill as error:
            raise CannotJudge(str(error)) from None
        return Question(text, self.template.answer_schema([rubric.id for rubric in rubrics]))

    def read(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        """See `LlmEvaluator`."""
        return self.template.read(answer.text, ids)

"""`trpc/llm_final_response`: whether the final response says what the expected one does, for a model."""

from collections.abc import Sequence

from evalgate.judge.asking import ModelAnswer
from evalgate.trpcjudging.evaluator import LlmEvaluator, Question, material_of
from evalgate.trpcjudging.exchanges import Exchange
from evalgate.trpcjudging.rubrics import JudgedRubric
from evalgate.trpcjudging.scorecards import Scorecard
from evalgate.trpcjudging.textanswers import final_response


class TrpcLlmFinalResponse(LlmEvaluator):
    """1.0 for each turn whose response is valid, else 0.0, averaged."""

    needs_reference = True
    prompt_name = "trpc_final_response"

    async def question(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> Question:
        """See `LlmEvaluator`."""
        del rubrics
        return Question(self.prompt.filled(**material_of(so_far[-1])))

    def read(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        """See `LlmEvaluator`."""
        del ids
        return final_response(answer.text)

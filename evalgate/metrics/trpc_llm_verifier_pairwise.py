"""`trpc/llm_verifier_pairwise`: how much better a response is than the expected one, by rubrics."""

from collections.abc import Sequence

from evalgate.judge.asking import ModelAnswer
from evalgate.trpcjudging.evaluator import (
    LlmEvaluator,
    Question,
    material_of,
)
from evalgate.trpcjudging.exchanges import Exchange
from evalgate.trpcjudging.letterscores import SCALE, pairwise
from evalgate.trpcjudging.rubrics import JudgedRubric, listed
from evalgate.trpcjudging.scorecards import Scorecard


class TrpcLlmVerifierPairwise(LlmEvaluator):
    """0.5 for a response as good as the expected one, up to 1.0 for a better one, averaged.

    Read from the probabilities of the judge's grades, so that the model must give them.
    """

    needs_rubrics = True
    needs_reference = True
    prompt_name = "trpc_verifier_pairwise"

    async def question(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> Question:
        """See `LlmEvaluator`."""
        material = material_of(so_far[-1])
        text = self.prompt.filled(**material, rubrics=listed(rubrics))
        return Question(text, parameters={"logprobs": True, "top_logprobs": len(SCALE)})

    def read(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        """See `LlmEvaluator`."""
        del ids
        return pairwise(answer.choices)

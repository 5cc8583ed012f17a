"""`trpc/llm_rubric_knowledge_recall`: whether the agent's knowledge search found what an answer needs."""

from collections.abc import Mapping

from evalgate.trpcjudging.evaluator import CannotJudge, RubricEvaluator
from evalgate.trpcjudging.exchanges import Exchange
from evalgate.trpcjudging.knowledge import NOTHING_FOUND, NoKnowledge, knowledge_in


class TrpcLlmRubricKnowledgeRecall(RubricEvaluator):
    """Share of the rubrics that hold of each turn's search results, averaged."""

    prompt_name = "trpc_rubric_knowledge_recall"

    def material(self, exchange: Exchange) -> Mapping[str, str]:
        """See `RubricEvaluator`."""
        try:
            knowledge = knowledge_in(exchange.reply) if exchange.reply else NOTHING_FOUND
        except NoKnowledge as error:
            raise CannotJudge(str(error)) from None
        return {"user": exchange.user, "knowledge": knowledge}

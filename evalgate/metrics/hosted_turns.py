"""`safety_v1` and `response_evaluation_score`: in Google ADK services of Google's, here the run's judge."""

from typing import ClassVar

from evalgate.adkjudging.answers import number_between
from evalgate.adkjudging.exchanges import Exchange, exchanges
from evalgate.adkjudging.options import JudgedMetric
from evalgate.adkjudging.turns import NO_REPLY, JudgedTurn, averaged, mean_of, unjudged
from evalgate.model import CaseRun, EvalCase, MetricResult
from evalgate.scoring.ranges import SCORE_RANGES, UNIT


class _TurnByTurn(JudgedMetric):
    """The mean of the samples of each turn, and of the turns."""

    score_range: ClassVar[tuple[float, float]]

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In `score_range`; a turn in which the agent says nothing has no score."""
        turns = [await self._turn(exchange) for exchange in exchanges(case, run)]
        return mean_of(turns, nothing="nothing was said")

    async def _turn(self, exchange: Exchange) -> JudgedTurn:
        if exchange.reply is None:
            return unjudged(NO_REPLY)
        response = exchange.response(with_intermediate=self.include_intermediate_responses_in_final)
        if not response:
            return unjudged("the agent said nothing that could be judged")
        expected = exchange.turn.expected.response if exchange.turn else None
        material = {"user": exchange.user, "response": response, "reference": expected or "None given."}
        return averaged(await self.ask(number_between(*self.score_range), material))


class Safety(_TurnByTurn):
    """How harmless the responses are."""

    score_range = UNIT
    prompt_names = ("adk_safety",)
    more_variables = frozenset({"reference"})


class ResponseEvaluation(_TurnByTurn):
    """How coherent the responses are, from 1 to 5."""

    score_range = SCORE_RANGES["response_evaluation_score"]
    prompt_names = ("adk_coherence",)

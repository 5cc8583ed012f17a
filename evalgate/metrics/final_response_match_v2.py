"""`final_response_match_v2`: whether a model finds the final response equivalent to the expected one."""

from typing import ClassVar, Literal

from evalgate.adkjudging.answers import validity
from evalgate.adkjudging.exchanges import Exchange, exchanges
from evalgate.adkjudging.options import JudgedMetric
from evalgate.adkjudging.turns import (
    NO_REPLY,
    NOT_ASKED_FOR,
    JudgedTurn,
    mean_of,
    unjudged,
    voted,
    worthless,
)
from evalgate.model import CaseRun, EvalCase, MetricResult, NotApplicable


class FinalResponseMatch(JudgedMetric):
    """Each turn by majority over the samples, a tie being a miss; the share of the turns that match."""

    compares_with: ClassVar[Literal["response", "tools"]] = "response"
    prompt_names = ("adk_final_response_match",)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]. A turn that is missing or unasked scores 0.0."""
        if not case.turns:
            return NotApplicable("the case has no written turns to compare with")
        turns = [await self._turn(exchange) for exchange in exchanges(case, run)]
        return mean_of(turns, nothing="nothing was said")

    async def _turn(self, exchange: Exchange) -> JudgedTurn:
        if not exchange.is_asked_for:
            return worthless(NOT_ASKED_FOR)
        if exchange.reply is None:
            return worthless(NO_REPLY)
        expected = exchange.turn.expected.response if exchange.turn else None
        if expected is None:
            return unjudged("the eval set gives no `final_response` to compare with")
        response = exchange.response(with_intermediate=self.include_intermediate_responses_in_final)
        material = {"user": exchange.user, "response": response, "reference": expected}
        return voted(await self.ask(validity(self._release), material))

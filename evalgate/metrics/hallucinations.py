"""`hallucinations_v1`: how much of what the agent says its context supports."""

from collections.abc import AsyncIterator, Sequence

from evalgate.adkjudging.answers import Opinion, sentences, support
from evalgate.adkjudging.exchanges import (
    Exchange,
    declarations_of,
    events_told,
    exchanges,
    instructions_of,
)
from evalgate.adkjudging.options import JudgedMetric
from evalgate.adkjudging.turns import NO_REPLY, JudgedTurn, averaged, mean_of, unjudged
from evalgate.judge.fencing import indent_later_lines
from evalgate.judge.sampling import Samples
from evalgate.model import CaseRun, EvalCase, Message, MetricResult, TurnScore
from evalgate.numbers import mean_rounded_once


class Hallucinations(JudgedMetric):
    """Each response is cut into sentences, and each sentence held against all that the agent could know."""

    prompt_names = ("adk_sentences", "adk_support")

    evaluate_intermediate_nl_responses: bool = False
    """Whether what the agent says on its way is judged as well."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]: the mean over the turns that say anything."""
        turns = [await self._turn(exchange) for exchange in exchanges(case, run)]
        return mean_of(turns, nothing="nothing was said", mean=mean_rounded_once)

    async def _turn(self, exchange: Exchange) -> JudgedTurn:
        if exchange.reply is None:
            return unjudged(NO_REPLY)
        judged = [turn async for turn in self._responses(exchange)]
        scored = [turn.score for turn in judged if turn.score.score is not None]
        if not scored:
            return judged[-1] if judged else unjudged("the agent said nothing that could be judged")
        if len(judged) == 1:
            return judged[0]
        score = mean_rounded_once([each.score for each in scored if each.score is not None])
        told = {"responses": [each.details for each in scored]}
        return JudgedTurn(TurnScore(score, "; ".join(filter(None, (s.reason for s in scored))), told))

    async def _responses(self, exchange: Exchange) -> AsyncIterator[JudgedTurn]:
        events = exchange.reply.events if exchange.reply else ()
        for at, event in enumerate(events if self.evaluate_intermediate_nl_responses else ()):
            if isinstance(event, Message) and event.text:
                yield await self._response(event.text, self._context(exchange, at))
        if exchange.response():
            yield await self._response(exchange.response(), self._context(exchange, None))

    async def _response(self, response: str, context: str) -> JudgedTurn:
        cut = await self.ask(sentences, {"response": response}, samples=1)
        if not cut.good:
            nothing: Samples[Opinion] = Samples((), cut.failed)
            return averaged(nothing)
        listed = "\n".join(f"<sentence>{sentence}</sentence>" for sentence in cut.values[0])
        material = {"sentences": listed, "context": context}
        return averaged(await self.ask(support, material, at=1, samples=1))

    def _context(self, exchange: Exchange, until: int | None) -> str:
        """What the agent knew when it spoke."""
        parts: Sequence[tuple[str, str]] = (
            ("Developer instructions", instructions_of([exchange])),
            ("User", exchange.user),
            ("Tools", declarations_of([exchange])),
            ("Events", "\n".join(events_told(exchange, until=until)) or "None."),
        )
        return "\n\n".join(f"{name}:\n  {indent_later_lines(text)}" for name, text in parts)

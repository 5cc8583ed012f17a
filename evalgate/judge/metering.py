"""Counting what a model costs, and asking nothing more when the budget is spent."""

from collections.abc import Callable
from datetime import UTC, date, datetime

from evalgate.budget import Meter, Spent
from evalgate.judge.asking import ModelAnswer, ModelClient, ModelRequest
from evalgate.judge.failures import JudgeFailed
from evalgate.judge.tally import count_paid
from evalgate.prices import PriceTable, Tokens, cost_usd


def check_budget(meter: Meter) -> None:
    """Look whether a model may be asked.

    Raises:
        JudgeFailed: of kind `budget_spent`.
    """
    if spent := meter.exhausted():
        raise JudgeFailed("budget_spent", spent[:1].upper() + spent[1:])


class WatchedModel:
    """A model that says when a question is on its way: it may be paid for even if no answer arrives."""

    def __init__(self, inner: ModelClient, begun: Callable[[], None], ended: Callable[[bool], None]) -> None:
        """`ended` is told whether there is an answer, which is counted right afterwards."""
        self._inner = inner
        self._begun = begun
        self._ended = ended

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """Return the inner model's answer.

        Raises:
            JudgeFailed: there is none.
        """
        self._begun()
        try:
            answer = await self._inner.ask(request)
        except BaseException:
            self._ended(False)
            raise
        self._ended(True)
        return answer


class MeteredModel:
    """A model whose every call is counted."""

    def __init__(
        self,
        inner: ModelClient,
        meter: Meter,
        prices: PriceTable,
        priced_as: Callable[[str], str],
        wall: Callable[[], float],
    ) -> None:
        self._inner = inner
        self._meter = meter
        self._prices = prices
        self._priced_as = priced_as
        self._wall = wall
        self.spent = Spent()
        """By this model alone; the meter may count others too."""

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The inner model's answer, paid for.

        Raises:
            JudgeFailed: there is none; of kind `budget_spent` when none was asked for.
        """
        check_budget(self._meter)
        try:
            answer = await self._inner.ask(request)
        except JudgeFailed as failure:
            if failure.tokens is not None:
                self._pay(request, failure.tokens)
            raise
        self._pay(request, answer.tokens)
        return answer

    def price(self, request: ModelRequest, tokens: Tokens | None) -> Spent:
        """What a call that used so many tokens costs; None: nobody knows how many."""
        if tokens is None:
            return Spent.of_call(None, None)
        name = self._priced_as(request.model)
        return Spent.of_call(tokens, cost_usd(self._prices, name, tokens, self._today()))

    def _pay(self, request: ModelRequest, tokens: Tokens | None) -> None:
        spent = self.price(request, tokens)
        self.spent += spent
        self._meter.add(spent)
        count_paid(spent)

    def _today(self) -> date:
        return datetime.fromtimestamp(self._wall(), UTC).date()

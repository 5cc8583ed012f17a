"""Wrap a model in a meter, which counts its tokens, its cost and the requests that wait for an answer."""

from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evalgate.config.token_prices import PriceTable, Tokens, compute_cost_usd
from evalgate.core.types import ModelUsage
from evalgate.llm.budget_guard import UsageMeter
from evalgate.llm.client import ModelAnswer, ModelClient, ModelRequest
from evalgate.llm.errors import JudgeError
from evalgate.llm.usage import MeteredUsage, count_model_usage

if TYPE_CHECKING:
    from evalgate.llm.judge_resolver import Purpose


def check_budget(meter: UsageMeter) -> None:
    """Check that the budget allows another request to a model.

    Raises:
        JudgeError: the budget is spent; its kind is `budget_spent`.
    """
    if spent := meter.explain_exhaustion():
        raise JudgeError("budget_spent", spent[:1].upper() + spent[1:])


class WatchedModel:
    """A wrapper around a model that counts the requests under way: sent, but not answered yet.

    Such requests may cost money, too. The count is the value of `purpose` in the mapping `under_way`.
    `on_change` is called when a request begins and when it fails. It is not called after an answer, because
    the meter then calls its own listener.
    """

    def __init__(
        self,
        inner: ModelClient,
        under_way: MutableMapping["Purpose", int],
        purpose: "Purpose",
        on_change: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._under_way = under_way
        self._purpose = purpose
        self._on_change = on_change

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """Return the inner model's answer.

        Raises:
            JudgeError: the inner model gave no answer.
        """
        self._under_way[self._purpose] += 1
        self._on_change()
        try:
            answer = await self._inner.ask(request)
        except BaseException:  # a cancelled request has ended too
            self._under_way[self._purpose] -= 1
            self._on_change()
            raise
        self._under_way[self._purpose] -= 1  # the meter notifies after it has counted the answer
        return answer


class MeteredModel:
    """A wrapper around a model that counts usage and cost, and refuses calls once the budget is spent."""

    def __init__(
        self,
        inner: ModelClient,
        meter: UsageMeter,
        prices: PriceTable,
        get_price_name: Callable[[str], str],
        wall: Callable[[], float],
    ) -> None:
        self._inner = inner
        self._meter = meter
        self._prices = prices
        self._get_price_name = get_price_name
        self._wall = wall
        self.usage = ModelUsage()
        """Usage of this model alone; the meter also counts other models."""

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """Return the inner model's answer, and count the usage of the call.

        Raises:
            JudgeError: the inner model gave no answer, or the budget is spent. In the second case the kind
                is `budget_spent`, and nothing was sent.
        """
        # Before every request, because other cases may have spent the rest of the budget since the last one.
        check_budget(self._meter)
        try:
            answer = await self._inner.ask(request)
        except JudgeError as failure:
            if failure.is_answer:
                self._record_usage(request, failure.tokens)
            raise
        self._record_usage(request, answer.tokens)
        return answer

    def compute_cost(self, request: ModelRequest, tokens: Tokens | None) -> MeteredUsage:
        """Return the usage and the cost of a call; `tokens` is None if the provider did not report them."""
        if tokens is None:
            return MeteredUsage.from_call(None, None)
        name = self._get_price_name(request.model)
        today = datetime.fromtimestamp(self._wall(), UTC).date()
        return MeteredUsage.from_call(tokens, compute_cost_usd(self._prices, name, tokens, today))

    def _record_usage(self, request: ModelRequest, tokens: Tokens | None) -> None:
        spent = self.compute_cost(request, tokens)
        paid = spent.to_paid_usage()
        self.usage += paid
        self._meter.add_usage(spent)
        count_model_usage(paid)

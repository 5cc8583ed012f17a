"""Wrap a model in rate limits, retries and metering."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evalgate.config.schema.prices import PriceTable, Tokens, compute_cost_usd
from evalgate.core.formatting import pluralize
from evalgate.core.types import ModelUsage
from evalgate.llm.budget_guard import UsageMeter
from evalgate.llm.client import ModelAnswer, ModelClient, ModelRequest
from evalgate.llm.errors import RETRYABLE_FAILURES, JudgeError
from evalgate.llm.usage import MeteredUsage, count_model_usage
from evalgate.system.throttling.backoff import REAL_CLOCK, Clock, RetryPolicy
from evalgate.system.throttling.rate_limiter import Admission, RateLimiter

if TYPE_CHECKING:
    from evalgate.llm.judge_resolver import Purpose

_CHARACTERS_PER_TOKEN = 4  # in English; in other languages there are fewer, so this is a rough estimate
_TOKENS_OF_AN_ANSWER = 500


class EndpointLimiter:
    """Limiter of an endpoint's concurrent requests, and of its requests and tokens per minute.

    Requests are admitted in the order in which they were made.
    """

    def __init__(
        self, limiter: RateLimiter, *, concurrency: int, longest_hold: float, clock: Clock = REAL_CLOCK
    ) -> None:
        self._limiter = limiter
        self._longest_hold = longest_hold
        self._clock = clock
        self._slots = asyncio.Semaphore(concurrency)
        self._queue = asyncio.Lock()

    @asynccontextmanager
    async def admit_request(self, tokens: int, check_allowed: Callable[[], None]) -> AsyncIterator[Admission]:
        """Wait until a request with `tokens` may be sent, and count it as concurrent during the block.

        `check_allowed` is called after each wait, and raises if the request must not be sent any more.
        """
        # First the slot, then the limits of a minute: a request that waits for a slot after its admission
        # would use up these limits before it is sent.
        async with self._slots:
            async with self._queue:
                check_allowed()
                while (wait := self._limiter.compute_wait(tokens, self._clock.now())) > 0:
                    await self._clock.sleep(wait)
                    check_allowed()
                admission = self._limiter.admit_request(tokens, self._clock.now())
            yield admission

    def settle_tokens(self, admission: Admission, tokens: int) -> None:
        """Replace the estimated number of tokens of an admitted request by the real one."""
        self._limiter.settle_tokens(admission, tokens)

    def pause_requests(self, seconds: float) -> None:
        """Admit no request for the next `seconds`; do nothing if `seconds` is longer than `longest_hold`."""
        if seconds <= self._longest_hold:
            self._limiter.pause_until(self._clock.now() + seconds)


class LimitedModel:
    """A wrapper around a model that delays requests until the limits of the endpoint admit them."""

    def __init__(
        self, inner: ModelClient, limiter: EndpointLimiter, check_allowed: Callable[[], None] = lambda: None
    ) -> None:
        """Wrap a model. After each wait, `check_allowed` raises JudgeError if no request may be sent now."""
        self._inner = inner
        self._limiter = limiter
        self._check_allowed = check_allowed

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """Wait until the limits admit the request, and return the inner model's answer.

        If the provider asks for a pause, later requests to the endpoint wait as long. A pause that is longer
        than the limiter's `longest_hold` is ignored.

        Raises:
            JudgeError: the inner model gave no answer, or `check_allowed` raised.
        """
        async with self._limiter.admit_request(estimate_tokens(request), self._check_allowed) as admission:
            try:
                answer = await self._inner.ask(request)
            except JudgeError as failure:
                if failure.retry_after is not None:
                    self._limiter.pause_requests(failure.retry_after)
                if failure.tokens is not None:
                    self._limiter.settle_tokens(admission, failure.tokens.total)
                raise
            if answer.tokens is not None:
                self._limiter.settle_tokens(admission, answer.tokens.total)
            return answer


def estimate_tokens(request: ModelRequest) -> int:
    """Estimate the number of input and output tokens of a request before it is sent."""
    characters = sum(len(message.text) for message in request.messages)
    longest = request.parameters.get("max_tokens")
    answer = min(longest, _TOKENS_OF_AN_ANSWER) if isinstance(longest, int) else _TOKENS_OF_AN_ANSWER
    return characters // _CHARACTERS_PER_TOKEN + 1 + answer


class RetryingModel:
    """A wrapper around a model that retries after `RETRYABLE_FAILURES`, each time after a pause."""

    def __init__(
        self,
        inner: ModelClient,
        policy: RetryPolicy,
        clock: Clock = REAL_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._inner = inner
        self._policy = policy
        self._clock = clock
        self._chance = chance

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """Return the first answer that the inner model gives to the request.

        Raises:
            JudgeError: no attempt succeeded. The error is the last failure, with the number of attempts.
        """
        paused, attempt = 0.0, 0
        while True:
            attempt += 1
            try:
                return await self._inner.ask(request)
            except JudgeError as failure:
                pause = self._compute_pause(failure, attempt, paused)
                if pause is None:
                    last = failure
                    break
            await self._clock.sleep(pause)
            paused += pause
        raise _add_attempts(last, attempt)

    def _compute_pause(self, failure: JudgeError, attempt: int, paused: float) -> float | None:
        """Return the seconds until the next attempt; None if the request must not be retried.

        Args:
            failure: failure of the last attempt.
            attempt: number of attempts so far.
            paused: seconds of all pauses so far.
        """
        if failure.kind not in RETRYABLE_FAILURES or attempt > self._policy.retries:
            return None
        pause = self._policy.compute_delay(attempt, self._chance(), failure.retry_after)
        # Only pauses count: waiting for the endpoint's limits is no reason to give up.
        return pause if paused + pause <= self._policy.give_up_after else None


def _add_attempts(failure: JudgeError, attempts: int) -> JudgeError:
    if attempts == 1:
        return failure
    return JudgeError(
        failure.kind,
        f"{failure.message} (asked {pluralize(attempts, 'time')})",
        retry_after=failure.retry_after,
        is_answer=failure.is_answer,
        tokens=failure.tokens,
        attempts=attempts,
    )


def check_budget(meter: UsageMeter) -> None:
    """Check that the budget allows another request to a model.

    Raises:
        JudgeError: the budget is spent; its kind is `budget_spent`.
    """
    if spent := meter.explain_exhaustion():
        raise JudgeError("budget_spent", spent[:1].upper() + spent[1:])


class WatchedModel:
    """A wrapper around a model that counts its requests without an answer, which may cost money.

    The count is the value of `purpose` in the mapping `under_way`. `on_change` is called when a request
    begins and when it fails. After an answer it is not called, because the meter reports the answer.
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
    """A wrapper around a model that counts the usage and the cost of every call."""

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
        # Before every request, also to the same question, because other cases may have spent the rest.
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

"""Rate limits, retries and metering around a model."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime

from evalgate.config.schema.budget import MeteredUsage, PriceTable, Tokens, UsageMeter, compute_cost_usd
from evalgate.core.formatting import pluralize
from evalgate.llm.client import ModelAnswer, ModelClient, ModelRequest
from evalgate.llm.errors import RETRYABLE_FAILURES, JudgeError
from evalgate.llm.usage import count_paid
from evalgate.throttling.rate_limiter import REAL_CLOCK, Admission, Clock, RateLimiter, RetryPolicy

_CHARACTERS_A_TOKEN = 4  # of English; others have fewer, so that this is a first guess only
_TOKENS_OF_AN_ANSWER = 500


class EndpointLimiter:
    """Lets requests to one endpoint through, first come, first served."""

    def __init__(
        self, limiter: RateLimiter, *, concurrency: int, longest_hold: float, clock: Clock = REAL_CLOCK
    ) -> None:
        self._limiter = limiter
        self._longest_hold = longest_hold
        self._clock = clock
        self._slots = asyncio.Semaphore(concurrency)
        self._queue = asyncio.Lock()

    @asynccontextmanager
    async def admit_request(self, tokens: int, may_pass: Callable[[], None]) -> AsyncIterator[Admission]:
        """Wait for room for a request of so many tokens, and hold a place while it lasts.

        `may_pass` raises where the request must not be made any more when its turn comes.
        """
        async with self._slots:
            async with self._queue:
                may_pass()
                while (wait := self._limiter.compute_wait(tokens, self._clock.now())) > 0:
                    await self._clock.sleep(wait)
                    may_pass()
                admission = self._limiter.admit_request(tokens, self._clock.now())
            yield admission

    def settle_tokens(self, admission: Admission, tokens: int) -> None:
        """Correct the guess that a request was let through with."""
        self._limiter.settle_tokens(admission, tokens)

    def pause_requests(self, seconds: float) -> None:
        """Let nothing through for so long, unless it is longer than anybody would wait."""
        if seconds <= self._longest_hold:
            self._limiter.pause_until(self._clock.now() + seconds)


class LimitedModel:
    """A model that is asked no faster, and no more often at the same time, than its endpoint allows."""

    def __init__(
        self, inner: ModelClient, limiter: EndpointLimiter, may_ask: Callable[[], None] = lambda: None
    ) -> None:
        """`may_ask` raises JudgeFailed where nothing is to be asked any more; called when its turn comes."""
        self._inner = inner
        self._limiter = limiter
        self._may_ask = may_ask

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The inner model's answer, when there is room. When the provider wants a pause, everyone pauses.

        Raises:
            JudgeError: there is none.
        """
        async with self._limiter.admit_request(estimate_tokens(request), self._may_ask) as admission:
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
    """A guess at the input and output tokens of a request, before it is made."""
    characters = sum(len(message.text) for message in request.messages)
    longest = request.parameters.get("max_tokens")
    answer = min(longest, _TOKENS_OF_AN_ANSWER) if isinstance(longest, int) else _TOKENS_OF_AN_ANSWER
    return characters // _CHARACTERS_A_TOKEN + 1 + answer


class RetryingModel:
    """A model that is asked again, after a pause, while what fails may pass."""

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
        """The first answer.

        Raises:
            JudgeError: the last failure, with how often it was asked.
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
        """Seconds until the next attempt; None when there is to be none."""
        if failure.kind not in RETRYABLE_FAILURES or attempt > self._policy.retries:
            return None
        pause = self._policy.compute_delay(attempt, self._chance(), failure.retry_after)
        # Only pauses count: what a question waits for its turn is no reason to give it up.
        return pause if paused + pause <= self._policy.give_up_after else None


def _add_attempts(failure: JudgeError, attempts: int) -> JudgeError:
    if attempts == 1:
        return failure
    return JudgeError(
        failure.kind,
        f"{failure.message} (asked {pluralize(attempts, 'time')})",
        retry_after=failure.retry_after,
        tokens=failure.tokens,
        attempts=attempts,
    )


def check_budget(meter: UsageMeter) -> None:
    """Look whether a model may be asked.

    Raises:
        JudgeError: of kind `budget_spent`.
    """
    if spent := meter.explain_exhaustion():
        raise JudgeError("budget_spent", spent[:1].upper() + spent[1:])


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
            JudgeError: there is none.
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
        self.spent = MeteredUsage()
        """By this model alone; the meter may count others too."""

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The inner model's answer, paid for.

        Raises:
            JudgeError: there is none; of kind `budget_spent` when none was asked for.
        """
        check_budget(self._meter)
        try:
            answer = await self._inner.ask(request)
        except JudgeError as failure:
            if failure.tokens is not None:
                self._record_usage(request, failure.tokens)
            raise
        self._record_usage(request, answer.tokens)
        return answer

    def compute_cost(self, request: ModelRequest, tokens: Tokens | None) -> MeteredUsage:
        """What a call that used so many tokens costs; None: nobody knows how many."""
        if tokens is None:
            return MeteredUsage.from_call(None, None)
        name = self._get_price_name(request.model)
        return MeteredUsage.from_call(tokens, compute_cost_usd(self._prices, name, tokens, self._get_today()))

    def _record_usage(self, request: ModelRequest, tokens: Tokens | None) -> None:
        spent = self.compute_cost(request, tokens)
        self.spent += spent
        self._meter.add_usage(spent)
        count_paid(spent)

    def _get_today(self) -> date:
        return datetime.fromtimestamp(self._wall(), UTC).date()

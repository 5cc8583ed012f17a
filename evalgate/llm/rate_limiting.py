"""Wrap a model in the limits of its endpoint: concurrent requests, and requests and tokens per minute."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from evalgate.llm.client import ModelAnswer, ModelClient, ModelRequest
from evalgate.llm.errors import JudgeError
from evalgate.system.throttling.backoff import REAL_CLOCK, Clock
from evalgate.system.throttling.rate_limiter import Admission, RateLimiter

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
        """Wait until a request of about `tokens` tokens may be sent, then run the `async with` block.

        Until the block ends, the request counts as concurrent. Yield the admission, which `settle_tokens`
        takes to correct the number of tokens. `check_allowed` is called before and after each wait for the
        limits per minute. It raises an error if the request must not be sent any more.
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
        """Admit no request for the next `seconds`; do nothing if `seconds` is longer than `longest_hold`.

        `longest_hold` is the longest time for which a question is retried. Rather than wait longer, requests
        are sent and may fail.
        """
        if seconds <= self._longest_hold:
            self._limiter.pause_until(self._clock.now() + seconds)


class LimitedModel:
    """A wrapper around a model that delays requests until the limits of the endpoint admit them."""

    def __init__(
        self, inner: ModelClient, limiter: EndpointLimiter, check_allowed: Callable[[], None] = lambda: None
    ) -> None:
        """Wrap `inner`. `check_allowed` is called before each request is sent, and may raise JudgeError."""
        self._inner = inner
        self._limiter = limiter
        self._check_allowed = check_allowed

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """Wait until the limits admit the request, and return the inner model's answer.

        If the provider asks for a pause, later requests to the endpoint wait until the end of the pause. A
        pause longer than the limiter's `longest_hold` is ignored.

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

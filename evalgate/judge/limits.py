"""How fast a provider may be asked."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from evalgate.judge.asking import ModelAnswer, ModelClient, ModelRequest
from evalgate.judge.failures import JudgeFailed
from evalgate.pacing.clock import REAL, Clock
from evalgate.pacing.limiter import Admission, RateLimiter

_CHARACTERS_A_TOKEN = 4  # of English; others have fewer, so that this is a first guess only
_TOKENS_OF_AN_ANSWER = 500


class Turnstile:
    """Lets requests to one endpoint through, first come, first served."""

    def __init__(
        self, limiter: RateLimiter, *, concurrency: int, longest_hold: float, clock: Clock = REAL
    ) -> None:
        self._limiter = limiter
        self._longest_hold = longest_hold
        self._clock = clock
        self._places = asyncio.Semaphore(concurrency)
        self._queue = asyncio.Lock()

    @asynccontextmanager
    async def passing(self, tokens: int, may_pass: Callable[[], None]) -> AsyncIterator[Admission]:
        """Wait for room for a request of so many tokens, and hold a place while it lasts.

        `may_pass` raises where the request must not be made any more when its turn comes.
        """
        async with self._places:
            async with self._queue:
                may_pass()
                while (wait := self._limiter.wait(tokens, self._clock.now())) > 0:
                    await self._clock.sleep(wait)
                    may_pass()
                admission = self._limiter.admit(tokens, self._clock.now())
            yield admission

    def settle(self, admission: Admission, tokens: int) -> None:
        """Correct the guess that a request was let through with."""
        self._limiter.settle(admission, tokens)

    def pause(self, seconds: float) -> None:
        """Let nothing through for so long, unless it is longer than anybody would wait."""
        if seconds <= self._longest_hold:
            self._limiter.hold(self._clock.now() + seconds)


class LimitedModel:
    """A model that is asked no faster, and no more often at the same time, than its endpoint allows."""

    def __init__(
        self, inner: ModelClient, turnstile: Turnstile, may_ask: Callable[[], None] = lambda: None
    ) -> None:
        """`may_ask` raises JudgeFailed where nothing is to be asked any more; called when its turn comes."""
        self._inner = inner
        self._turnstile = turnstile
        self._may_ask = may_ask

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The inner model's answer, when there is room. When the provider wants a pause, everyone pauses.

        Raises:
            JudgeFailed: there is none.
        """
        async with self._turnstile.passing(estimated_tokens(request), self._may_ask) as admission:
            try:
                answer = await self._inner.ask(request)
            except JudgeFailed as failure:
                if failure.retry_after is not None:
                    self._turnstile.pause(failure.retry_after)
                if failure.tokens is not None:
                    self._turnstile.settle(admission, failure.tokens.total)
                raise
            if answer.tokens is not None:
                self._turnstile.settle(admission, answer.tokens.total)
            return answer


def estimated_tokens(request: ModelRequest) -> int:
    """A guess at the input and output tokens of a request, before it is made."""
    characters = sum(len(message.text) for message in request.messages)
    longest = request.parameters.get("max_tokens")
    answer = min(longest, _TOKENS_OF_AN_ANSWER) if isinstance(longest, int) else _TOKENS_OF_AN_ANSWER
    return characters // _CHARACTERS_A_TOKEN + 1 + answer

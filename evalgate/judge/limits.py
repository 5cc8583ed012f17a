"""How fast a provider may be asked."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from evalgate.judge.asking import ModelAnswer, ModelClient, ModelRequest
from evalgate.judge.clock import REAL, Clock
from evalgate.judge.failures import JudgeFailed

MINUTE = 60.0
_CHARACTERS_A_TOKEN = 4  # of English; others have fewer, so that this is a first guess only
_TOKENS_OF_AN_ANSWER = 500


@dataclass(slots=True)
class Admission:
    """One request that was let through."""

    at: float
    tokens: int


@dataclass(slots=True)
class RateLimiter:
    """Requests and tokens in any 60 seconds. Pure: the caller says what time it is.

    A request of more tokens than a minute may have is let through alone.
    """

    requests: int | None = None
    """In any minute; None: any number."""
    tokens: int | None = None
    _admitted: deque[Admission] = field(default_factory=deque)
    _held_until: float = 0.0

    def wait(self, tokens: int, now: float) -> float:
        """Seconds until a request of so many tokens may go; 0 when it may go now."""
        self._forget(now)
        free_at = max(now, self._held_until)
        free_at = max(free_at, self._free_for_request(), self._free_for_tokens(tokens))
        return free_at - now if free_at > now else 0.0

    def admit(self, tokens: int, now: float) -> Admission:
        """Let a request through, whether or not it should have waited."""
        admission = Admission(now, tokens)
        self._admitted.append(admission)
        return admission

    def settle(self, admission: Admission, tokens: int) -> None:
        """Correct the guess that a request was admitted with."""
        admission.tokens = tokens

    def hold(self, until: float) -> None:
        """Let nothing through before that time: the provider asked for a pause."""
        self._held_until = max(self._held_until, until)

    def _forget(self, now: float) -> None:
        while self._admitted and self._admitted[0].at + MINUTE <= now:
            self._admitted.popleft()

    def _free_for_request(self) -> float:
        if self.requests is None or len(self._admitted) < self.requests:
            return 0.0
        return self._admitted[-self.requests].at + MINUTE

    def _free_for_tokens(self, tokens: int) -> float:
        if self.tokens is None:
            return 0.0
        room = max(self.tokens - tokens, 0)  # none for a request that is larger than the limit: it goes alone
        used = 0
        for admission in reversed(self._admitted):
            used += admission.tokens
            if used > room:
                return admission.at + MINUTE
        return 0.0


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
    async def passing(self, tokens: int) -> AsyncIterator[Admission]:
        """Wait for room for a request of so many tokens, and hold a place while it lasts."""
        async with self._places:
            async with self._queue:
                while (wait := self._limiter.wait(tokens, self._clock.now())) > 0:
                    await self._clock.sleep(wait)
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

    def __init__(self, inner: ModelClient, turnstile: Turnstile) -> None:
        self._inner = inner
        self._turnstile = turnstile

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The inner model's answer, when there is room. When the provider wants a pause, everyone pauses.

        Raises:
            JudgeFailed: there is none.
        """
        async with self._turnstile.passing(estimated_tokens(request)) as admission:
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

"""Asking again when the provider is down, slow or busy."""

import random
from collections.abc import Callable

from evalgate.judge.asking import ModelAnswer, ModelClient, ModelRequest
from evalgate.judge.clock import REAL, Clock
from evalgate.judge.failures import PASSING, JudgeFailed
from evalgate.judge.pauses import RetryPolicy
from evalgate.numbers import counted


class RetryingModel:
    """A model that is asked again, after a pause, while what fails may pass."""

    def __init__(
        self,
        inner: ModelClient,
        policy: RetryPolicy,
        clock: Clock = REAL,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._inner = inner
        self._policy = policy
        self._clock = clock
        self._chance = chance

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The first answer.

        Raises:
            JudgeFailed: the last failure, with how often it was asked.
        """
        began = self._clock.now()
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = await self._inner.ask(request)
            except JudgeFailed as failure:
                pause = self._pause(failure, attempt, began)
                if pause is None:
                    final = failure
                    break
            else:
                return answer
            await self._clock.sleep(pause)
        raise _after(final, attempt, self._clock.now() - began)

    def _pause(self, failure: JudgeFailed, attempt: int, began: float) -> float | None:
        """Seconds until the next attempt; None when there is to be none."""
        if failure.kind not in PASSING or attempt > self._policy.retries:
            return None
        pause = self._policy.pause(attempt, self._chance(), failure.retry_after)
        return pause if self._clock.now() - began + pause <= self._policy.give_up_after else None


def _after(failure: JudgeFailed, attempts: int, seconds: float) -> JudgeFailed:
    if attempts == 1:
        return failure
    message = f"{failure.message} (asked {counted(attempts, 'time')} in {seconds:.0f} s)"
    return JudgeFailed(
        failure.kind, message, retry_after=failure.retry_after, tokens=failure.tokens, attempts=attempts
    )

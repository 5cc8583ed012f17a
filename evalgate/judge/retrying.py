"""Asking again when the provider is down, slow or busy."""

import random
from collections.abc import Callable

from evalgate.judge.asking import ModelAnswer, ModelClient, ModelRequest
from evalgate.judge.failures import PASSING, JudgeFailed
from evalgate.numbers import counted
from evalgate.pacing.clock import REAL, Clock
from evalgate.pacing.pauses import RetryPolicy


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
        paused, attempt = 0.0, 0
        while True:
            attempt += 1
            try:
                return await self._inner.ask(request)
            except JudgeFailed as failure:
                pause = self._pause(failure, attempt, paused)
                if pause is None:
                    last = failure
                    break
            await self._clock.sleep(pause)
            paused += pause
        raise _after(last, attempt)

    def _pause(self, failure: JudgeFailed, attempt: int, paused: float) -> float | None:
        """Seconds until the next attempt; None when there is to be none."""
        if failure.kind not in PASSING or attempt > self._policy.retries:
            return None
        pause = self._policy.pause(attempt, self._chance(), failure.retry_after)
        # Only pauses count: what a question waits for its turn is no reason to give it up.
        return pause if paused + pause <= self._policy.give_up_after else None


def _after(failure: JudgeFailed, attempts: int) -> JudgeFailed:
    if attempts == 1:
        return failure
    return JudgeFailed(
        failure.kind,
        f"{failure.message} (asked {counted(attempts, 'time')})",
        retry_after=failure.retry_after,
        tokens=failure.tokens,
        attempts=attempts,
    )

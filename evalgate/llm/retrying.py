"""Wrap a model in retries: after an outage or a rate limit, a request is sent again."""

import random
from collections.abc import Callable

from evalgate.core.formatting import pluralize
from evalgate.llm.client import ModelAnswer, ModelClient, ModelRequest
from evalgate.llm.errors import RETRYABLE_FAILURES, JudgeError
from evalgate.system.throttling.backoff import REAL_CLOCK, Clock, RetryPolicy


class RetryingModel:
    """A wrapper around a model that waits after an outage or a rate limit, and sends the request again."""

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
        """Send the request until the inner model answers, and return the answer.

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

        A request is retried only after an outage or a rate limit, and within the limits of the policy.

        Args:
            failure: failure of the last attempt.
            attempt: number of attempts so far.
            paused: seconds of all pauses so far.
        """
        if failure.kind not in RETRYABLE_FAILURES or attempt > self._policy.retries:
            return None
        pause = self._policy.compute_delay(attempt, self._chance(), failure.retry_after)
        # Only pauses count. Time that a request waits for the limits of the endpoint is not counted.
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

"""Limit a run's concurrent conversations, its turns per minute, and its retries of cases."""

import asyncio
import random
from collections.abc import Callable

from evalgate.core.frozen import frozen
from evalgate.system.throttling.adaptive_concurrency import AdaptiveConcurrency, Slot
from evalgate.system.throttling.backoff import REAL_CLOCK, Clock, RetryPolicy

LONGEST_RETRY_AFTER_S = 300.0
"""Longest pause, in seconds, that a service may ask for; if it asks for more, the case is not retried."""


@frozen
class ThrottleSettings:
    """Limits from the section `agent`: concurrency, turns per minute, retries and ramp-up."""

    concurrency: int = 1
    """Greatest number of concurrent conversations."""
    requests_per_minute: int | None = None
    """Greatest number of turns that may start in any 60 seconds; None: no limit."""
    retries: int = 0
    """Greatest number of retries of a case after failures that are not the agent's."""
    ramp_up_s: float = 0.0
    """Seconds in which the concurrency rises from 1 to `concurrency`; 0: it begins at `concurrency`."""


class Throttle:
    """Concurrency and rate limits that all conversations of a run share, within one event loop."""

    def __init__(
        self,
        settings: ThrottleSettings,
        clock: Clock = REAL_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._limiter = None
        if settings.requests_per_minute is not None:
            from evalgate.system.throttling.rate_limiter import RateLimiter

            self._limiter = RateLimiter(settings.requests_per_minute)
        self._paused_until = float("-inf")
        self._policy = RetryPolicy(settings.retries)
        self._concurrency = AdaptiveConcurrency(
            settings.concurrency, ramp_up_s=settings.ramp_up_s, clock=clock
        )
        self._clock = clock
        self._chance = chance
        self._queue = asyncio.Lock()

    def create_slot(self) -> Slot:
        """Return an asynchronous context manager that waits until a conversation may run, and counts it."""
        return self._concurrency.create_slot()

    async def wait_for_turn(self) -> float:
        """Wait until a turn may start, and count this turn. Return the seconds of the wait."""
        began = self._clock.now()
        # Without a limit or pause all turns may start at once, so there is no order to keep.
        if self._limiter is None and began >= self._paused_until:
            return 0.0
        # The lock serves the waiting turns in order. Without it all of them would wake at the same time, and
        # a turn that has just arrived could go first.
        async with self._queue:
            # Again after each wait: another request may have caused a pause in the meantime.
            while (wait := self._compute_wait(self._clock.now())) > 0:
                await self._clock.sleep(wait)
            now = self._clock.now()
            if self._limiter is not None:
                self._limiter.admit_request(0, now)
        return now - began

    def _compute_wait(self, now: float) -> float:
        """Return the seconds until a turn may start; 0 if it may start now."""
        pause = max(0.0, self._paused_until - now)
        return pause if self._limiter is None else max(pause, self._limiter.compute_wait(0, now))

    def on_success(self) -> None:
        """Raise the concurrency limit by 1/limit after a conversation, at most to `concurrency`.

        Do not call this if a rate limit ended the conversation.
        """
        self._concurrency.on_success()

    def on_rate_limited(self, slot: Slot, wanted_s: float | None) -> None:
        """Lower the concurrency limit, and let no turn start for the `wanted_s` seconds that a service wants.

        `slot` is the slot of the conversation with the rejected request. There is no pause if `wanted_s` is
        None (the service asked for none) or above `LONGEST_RETRY_AFTER_S`. In the second case, the rejected
        request is not retried, and other conversations need not wait so long.
        """
        self._concurrency.on_throttled(slot.since)
        if wanted_s is not None and wanted_s <= LONGEST_RETRY_AFTER_S:
            self._paused_until = max(self._paused_until, self._clock.now() + wanted_s)

    async def wait_without_slot(self, slot: Slot, wanted_s: float, *, is_rate_limited: bool) -> float:
        """Release the slot, wait `wanted_s` seconds, then wait for a slot. Return the seconds of both waits.

        If `is_rate_limited` is True, lower the concurrency limit first, and pause the turns of all
        conversations (`on_rate_limited`).
        """
        began = self._clock.now()
        if is_rate_limited:
            self.on_rate_limited(slot, wanted_s)
        # Waiting conversations would otherwise fill all slots although none of them sends anything.
        await slot.release_during(self._clock.sleep(wanted_s))
        return self._clock.now() - began

    def compute_retry_delay(self, fault: int, wanted_s: float | None) -> float | None:
        """Return the seconds to wait before the next attempt at a case; None if the case is not retried.

        `fault` is the number of failures so far, `wanted_s` the pause that the service asked for. The case is
        not retried if all retries are used, or if `wanted_s` is above `LONGEST_RETRY_AFTER_S`.
        """
        if fault > self._policy.retries or (wanted_s or 0.0) > LONGEST_RETRY_AFTER_S:
            return None
        return self._policy.compute_delay(fault, self._chance(), wanted_s)

    async def wait_seconds(self, seconds: float) -> None:
        """Sleep on the throttle's clock, which a test may replace."""
        await self._clock.sleep(seconds)

"""How fast the agent is asked, and when it is asked again after something broke on the way."""

import asyncio
import random
from collections.abc import Callable

from evalgate.core.frozen import frozen
from evalgate.throttling.adaptive_concurrency import AdaptiveConcurrency, Slot
from evalgate.throttling.rate_limiter import REAL_CLOCK, Clock, RateLimiter, RetryPolicy

LONGEST_RETRY_AFTER_S = 300.0
"""Who wants to be left alone for longer than this is not asked again."""


@frozen
class ThrottleSettings:
    """What the user allows."""

    concurrency: int = 1
    """Conversations at the same time, at most."""
    requests_per_minute: int | None = None
    """Turns that are begun in any minute; None: any number."""
    retries: int = 0
    """How often a case is begun again when something that is not the agent broke."""
    ramp_up_s: float = 0.0
    """Seconds until all conversations may go on at the same time; one at first."""


class Throttle:
    """One pace for a whole run. Everything in one event loop."""

    def __init__(
        self,
        settings: ThrottleSettings,
        clock: Clock = REAL_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._limiter = RateLimiter(settings.requests_per_minute)
        self._is_limited = settings.requests_per_minute is not None
        self._held_until = float("-inf")
        self._policy = RetryPolicy(settings.retries)
        self._concurrency = AdaptiveConcurrency(
            settings.concurrency, ramp_up_s=settings.ramp_up_s, clock=clock
        )
        self._clock = clock
        self._chance = chance
        self._queue = asyncio.Lock()

    def create_slot(self) -> Slot:
        """The context of one conversation."""
        return self._concurrency.create_slot()

    async def wait_for_turn(self) -> float:
        """Wait until a turn may be asked; gives the seconds that it took."""
        began = self._clock.now()
        if not self._is_limited and began >= self._held_until:
            return 0.0
        async with self._queue:
            while (wait := self._limiter.compute_wait(0, self._clock.now())) > 0:
                await self._clock.sleep(wait)
            now = self._clock.now()
            if self._is_limited:
                self._limiter.admit_request(0, now)
        return now - began

    def on_finished(self) -> None:
        """A conversation came to its end: there may be more at a time, if there were less."""
        self._concurrency.on_success()

    def on_rate_limited(self, slot: Slot, wanted_s: float | None) -> None:
        """Whoever is asked refused to be asked so fast, in this place, and wants such a pause."""
        self._concurrency.on_throttled(slot.since)
        if wanted_s is not None and wanted_s <= LONGEST_RETRY_AFTER_S:
            self._held_until = max(self._held_until, self._clock.now() + wanted_s)
            self._limiter.pause_until(self._held_until)

    async def wait_without_slot(self, slot: Slot, wanted_s: float, *, is_rate_limited: bool) -> float:
        """Wait, without a place, as long as whoever is asked wants; gives the seconds that it took."""
        began = self._clock.now()
        if is_rate_limited:
            self.on_rate_limited(slot, wanted_s)
        await slot.release_during(self._clock.sleep(wanted_s))
        return self._clock.now() - began

    def compute_retry_delay(self, fault: int, wanted_s: float | None) -> float | None:
        """Seconds after which a case is begun again after fault number `fault` (1-based); None: never."""
        if fault > self._policy.retries or (wanted_s or 0.0) > LONGEST_RETRY_AFTER_S:
            return None
        return self._policy.compute_delay(fault, self._chance(), wanted_s)

    async def wait_seconds(self, seconds: float) -> None:
        """Let them pass."""
        await self._clock.sleep(seconds)

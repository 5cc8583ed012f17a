"""How many may be at work at the same time: fewer when they are too fast, more again when all is well."""

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Self

from evalgate.throttling.rate_limiter import REAL_CLOCK, Clock

_LOWERED_TO = 0.5
_RAMP_STEP_S = 0.05
"""How often somebody looks how far the ramp has risen."""


class AdaptiveConcurrency:
    """A number of places that halves when something is too fast, and grows by one a round when nothing is.

    Additive increase, multiplicative decrease (Chiu and Jain 1989, "Analysis of the Increase and Decrease
    Algorithms for Congestion Avoidance"). Of those that were at work when it was halved, no other halves it
    again. With `ramp_up_s`, there is one place at first, and the whole number after so many seconds.
    """

    def __init__(self, most: int, *, ramp_up_s: float = 0.0, clock: Clock = REAL_CLOCK) -> None:
        self._most = most
        self._limit = float(most)
        self._ramp_up_s = ramp_up_s
        self._clock = clock
        self._began: float | None = None
        self._lowered_at = float("-inf")
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def open_slots(self) -> int:
        """How many there are at this moment; 1 or more."""
        return max(1, int(min(self._limit, self._compute_ramp_limit())))

    def create_slot(self) -> "Slot":
        """The context of one that is at work."""
        return Slot(self)

    async def acquire_slot(self) -> float:
        """Wait for a place, behind all who came before; gives the time."""
        if not self._waiting and self._taken < self.open_slots:
            self._taken += 1
            return self._clock.now()
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._wake_waiters()
        self._schedule_ramp_check()
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self.release_slot()  # it was given one, and does not come
            raise
        return self._clock.now()

    def release_slot(self) -> None:
        """Give a place back."""
        self._taken -= 1
        self._wake_waiters()

    def on_success(self) -> None:
        """One that was at work came to its end."""
        if self._limit < self._most:
            self._limit = min(self._most, self._limit + 1 / self._limit)
            self._wake_waiters()

    def on_throttled(self, since: float) -> None:
        """One that has been at work since then was too fast."""
        if since > self._lowered_at:
            self._limit = max(1.0, min(self._limit, self._taken) * _LOWERED_TO)
            self._lowered_at = self._clock.now()

    def _compute_ramp_limit(self) -> float:
        if not self._is_ramping():
            return self._most
        passed = self._clock.now() - (self._began or 0.0)
        return 1 + (self._most - 1) * passed / self._ramp_up_s

    def _is_ramping(self) -> bool:
        if not self._ramp_up_s:
            return False
        if self._began is None:
            self._began = self._clock.now()
        if self._clock.now() - self._began < self._ramp_up_s:
            return True
        self._ramp_up_s = 0.0
        return False

    def _schedule_ramp_check(self) -> None:
        """Nobody says when the ramp has risen."""
        if self._timer is None and self._waiting and self._is_ramping():
            self._timer = asyncio.get_running_loop().call_later(_RAMP_STEP_S, self._on_ramp_timer)

    def _on_ramp_timer(self) -> None:
        self._timer = None
        self._wake_waiters()
        self._schedule_ramp_check()

    def _wake_waiters(self) -> None:
        """Give what is free to those who wait, in order: who comes by in this moment does not get it."""
        while self._waiting and self._taken < self.open_slots:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._taken += 1
                waiter.set_result(None)


class Slot:
    """See `AdaptiveConcurrency.create_slot`."""

    __slots__ = ("_is_taken", "_places", "since")

    def __init__(self, places: AdaptiveConcurrency) -> None:
        self._places = places
        self._is_taken = False
        self.since = 0.0
        """When it was taken."""

    async def __aenter__(self) -> Self:
        await self._acquire_slot()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._is_taken:
            self._release_slot()

    async def release_during(self, pause: Awaitable[None]) -> None:
        """Let somebody else have the place for a while, and wait for one again."""
        self._release_slot()
        await pause
        await self._acquire_slot()

    async def _acquire_slot(self) -> None:
        self.since = await self._places.acquire_slot()
        self._is_taken = True

    def _release_slot(self) -> None:
        self._is_taken = False
        self._places.release_slot()

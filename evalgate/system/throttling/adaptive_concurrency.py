"""Limit the number of concurrent tasks, with a limit that falls when a service throttles requests."""

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Self

from evalgate.system.throttling.backoff import REAL_CLOCK, Clock

_DECREASE_FACTOR = 0.5
_RAMP_STEP_S = 0.05
"""Seconds between two checks for new slots while the limit rises at the start and tasks wait."""


class AdaptiveConcurrency:
    """Limit of concurrent tasks: a throttled task halves the limit, a finished task raises it by 1/limit.

    This is additive increase, multiplicative decrease (Chiu and Jain 1989, "Analysis of the Increase and
    Decrease Algorithms for Congestion Avoidance"). A task that was already running when the limit was lowered
    does not lower it again. The limit is never above `most`. If `ramp_up_s` is not 0, the limit starts at 1
    and can reach `most` only after `ramp_up_s` seconds.
    """

    def __init__(self, most: int, *, ramp_up_s: float = 0.0, clock: Clock = REAL_CLOCK) -> None:
        self._most = most
        self._limit = float(most)
        self._ramp_up_s = ramp_up_s
        self._clock = clock
        # Set when the first task asks for a slot, so that the setup of the agent is not part of the ramp.
        self._began: float | None = None
        self._lowered_at = float("-inf")
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def current_limit(self) -> int:
        """Return the number of tasks that may run at the same time now, 1 or more."""
        if not self._ramp_up_s:
            return max(1, int(self._limit))
        return max(1, int(min(self._limit, self._compute_ramp_limit())))

    def create_slot(self) -> "Slot":
        """Return an asynchronous context manager that waits for a slot, and holds it during the block."""
        return Slot(self)

    async def acquire_slot(self) -> float:
        """Wait for a slot, and return the clock's time at the end of the wait.

        Waiting tasks get slots in the order in which they called this.
        """
        if not self._waiting and self._taken < self.current_limit:
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
                # The slot was assigned before the cancellation arrived: without this it would leak.
                self.release_slot()
            raise
        return self._clock.now()

    def release_slot(self) -> None:
        """Release a slot, and assign it to the first waiting task if the limit allows."""
        self._taken -= 1
        self._wake_waiters()

    def on_success(self) -> None:
        """Raise the limit by 1/limit, at most to `most`. Call this after a task that was not throttled."""
        if self._limit < self._most:
            # A full round of `limit` finished tasks adds one slot in all.
            self._limit = min(self._most, self._limit + 1 / self._limit)
            self._wake_waiters()

    def on_throttled(self, since: float) -> None:
        """Lower the limit to half of its value, or to half of the used slots if these are fewer.

        The limit stays at least 1. `since` is the time at which the throttled task began. Do nothing if the
        limit was lowered after that time.
        """
        # All tasks that were running at that time report the same overload. If each of them halved the limit,
        # one overload of 64 tasks would leave a single slot.
        if since > self._lowered_at:
            # If fewer slots than the limit are in use, these few have already overloaded the service.
            self._limit = max(1.0, min(self._limit, self._taken) * _DECREASE_FACTOR)
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
        """Start a timer that assigns new slots to waiting tasks while the limit rises at the start.

        Do nothing if the timer is running already, no task waits, or the limit no longer rises by time.
        """
        # One timer for all: every waiting task would otherwise start its own.
        if self._timer is None and self._waiting and self._is_ramping():
            self._timer = asyncio.get_running_loop().call_later(_RAMP_STEP_S, self._on_ramp_timer)

    def _on_ramp_timer(self) -> None:
        self._timer = None
        self._wake_waiters()
        self._schedule_ramp_check()

    def _wake_waiters(self) -> None:
        """Assign the free slots to the waiting tasks, in order.

        An assigned slot counts as taken at once, even before the waiting task runs again. So no later task
        can take it.
        """
        while self._waiting and self._taken < self.current_limit:
            waiter = self._waiting.popleft()
            # A cancelled task leaves its future in the queue: it gets no slot, which it would never release.
            if not waiter.done():
                self._taken += 1
                waiter.set_result(None)


class Slot:
    """Asynchronous context manager that holds one slot of an `AdaptiveConcurrency`."""

    __slots__ = ("_concurrency", "_is_taken", "since")

    def __init__(self, concurrency: AdaptiveConcurrency) -> None:
        self._concurrency = concurrency
        self._is_taken = False
        self.since = 0.0
        """Time of the clock at which the slot was last acquired."""

    async def __aenter__(self) -> Self:
        await self._acquire_slot()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._is_taken:
            self._release_slot()

    async def release_during(self, pause: Awaitable[None]) -> None:
        """Release the slot while `pause` is awaited, then wait for a slot again."""
        self._release_slot()
        # No `finally`: if the pause is cancelled, `__aexit__` must find no slot to release.
        await pause
        await self._acquire_slot()

    async def _acquire_slot(self) -> None:
        self.since = await self._concurrency.acquire_slot()
        self._is_taken = True

    def _release_slot(self) -> None:
        self._is_taken = False
        self._concurrency.release_slot()

"""Timers that let the event loop read input that has arrived before they act.

asyncio runs a due timer in the same round in which it finds new input, and often before the input is
delivered. The event loop may have been blocked, for example by a huge answer of another case. Then a timer of
asyncio would report a timeout although the answer arrived in time.
"""

import asyncio
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Generic, Self, TypeVar

_Key = TypeVar("_Key", bound=Hashable)

_ROUNDS = 4
# One round to poll, one for the pipe's transport, one for the subprocess's protocol, one for the waiter.
_LATE_S = 0.05
"""Delay of a timer, in seconds, above which the event loop is taken to have been blocked."""


class LoopTimer:
    """Timer that calls `act` once, `seconds` from now, after the event loop has read input that has arrived.

    When it is due, the timer waits for four more rounds of the loop, in which the loop reads input. If the
    loop was blocked and the timer is more than 0.05 s late, it first waits again for as many seconds as it is
    late, because the sender of the input may have been delayed as well.
    """

    __slots__ = ("_act", "_handle", "_loop", "_rounds", "due")

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        self._act = act
        self._loop = asyncio.get_running_loop()
        self._rounds = 0
        self.due = self._loop.time() + seconds
        """Time of the event loop at which `act` becomes due."""
        self._handle: asyncio.Handle = self._loop.call_at(self.due, self._check_due)

    def cancel(self) -> None:
        """Cancel the timer: `act` is never called."""
        self._handle.cancel()

    def _check_due(self) -> None:
        late = self._loop.time() - self.due
        if late > _LATE_S:
            self.due = self._loop.time() + late
            self._handle = self._loop.call_at(self.due, self._check_due)
            return
        self._rounds = _ROUNDS
        self._wait_rounds()

    def _wait_rounds(self) -> None:
        if self._rounds == 0:
            self._act()
            return
        self._rounds -= 1
        self._handle = self._loop.call_soon(self._wait_rounds)


class TimeLimits(Generic[_Key]):
    """Time limits for several keys, such as running requests, with a single timer for all limits.

    When a key reaches its limit, the limit is removed, and then `on_reached` is called with the key.
    """

    def __init__(self, on_reached: Callable[[_Key], None]) -> None:
        self._on_reached = on_reached
        self._ends: dict[_Key, float] = {}
        """Maps each key to the event loop's time at which it reaches its limit."""
        self._timer: LoopTimer | None = None

    def set_limit(self, key: _Key, seconds: float) -> None:
        """Set the limit of a key to `seconds` from now. An earlier limit of the key is replaced."""
        end = self._ends[key] = asyncio.get_running_loop().time() + seconds
        if self._timer is None or end < self._timer.due:
            self._set_timer(seconds)

    def remove_limit(self, key: _Key) -> None:
        """Remove the key's limit, if it has one."""
        self._ends.pop(key, None)

    def remove_all(self) -> None:
        """Remove all limits, so that `on_reached` is not called for them."""
        self._ends.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = LoopTimer(seconds, self._find_reached)

    def _find_reached(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for key in [each for each, end in self._ends.items() if end <= now]:
            # `on_reached` may have removed other limits.
            if self._ends.pop(key, None) is not None:
                self._on_reached(key)
        if self._ends:
            self._set_timer(min(self._ends.values()) - now)


class LoopTimeout:
    """Context manager like `asyncio.timeout`, but with a `LoopTimer`.

    It raises TimeoutError if the block takes more than `seconds`.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._inner = asyncio.timeout(None)
        self._timer: LoopTimer | None = None
        self._when: float | None = None

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        self.reschedule(asyncio.get_running_loop().time() + self._seconds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reschedule(None)
        await self._inner.__aexit__(kind, error, trace)

    def when(self) -> float | None:
        """Return the event loop's time at which the block will be cancelled; None without a timeout."""
        return self._when

    def reschedule(self, when: float | None) -> None:
        """Set the event loop's time at which the block will be cancelled; None removes the timeout."""
        self._when = when
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None
        if when is not None:
            self._timer = LoopTimer(max(0.0, when - loop.time()), lambda: self._inner.reschedule(loop.time()))

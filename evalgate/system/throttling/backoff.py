"""Compute the pauses between retries, and wait without holding the place of a running conversation."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TypeAlias

from evalgate.core.frozen import frozen


@frozen
class Clock:
    """Functions that read the time and sleep, in seconds; tests replace them."""

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    """Function that returns the seconds since the epoch."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


REAL_CLOCK = Clock()


SlotRelease: TypeAlias = Callable[[float, bool], Awaitable[None]]
"""Function that waits while other conversations may use the slot of the current conversation.

A slot is the permission to run at the same time as other conversations. Arguments: the seconds to wait, and
True if a rate limit is the reason.
"""

# A context variable instead of an argument: HTTP clients retry far below the conversation that holds the
# slot, behind the interface of agents, which knows nothing of slots.
slot_release: ContextVar[SlotRelease | None] = ContextVar("slot_release", default=None)
"""Function that waits without the slot of the current conversation; None if the conversation has no slot.

`runner/case_runner.py` sets it for each turn, and `wait_without_slot` reads it.
"""


async def wait_without_slot(seconds: float, *, is_rate_limited: bool) -> None:
    """Wait before a retry, while other conversations may use the slot of this conversation.

    If the conversation has a slot and no slot is free after `seconds`, the wait takes longer.
    `is_rate_limited` is True if the service rejected a request because of its rate limit. Other conversations
    are then slowed down, too.
    """
    release = slot_release.get()
    if release is None:
        await asyncio.sleep(seconds)
    else:
        await release(seconds, is_rate_limited)


@frozen
class RetryPolicy:
    """Number of retries, and the pauses between them in seconds. Pauses double up to `longest_pause`."""

    retries: int = 4
    give_up_after: float = 300.0
    """Largest sum of all pauses; a pause that would exceed this sum is not started."""
    first_pause: float = 1.0
    longest_pause: float = 60.0

    def compute_delay(self, attempt: int, chance: float, wanted: float | None = None) -> float:
        """Return the seconds to wait after failed attempt number `attempt`, counted from 1.

        The delay doubles with each attempt. Half of it is fixed, and the other half is multiplied by the
        random number `chance`, from 0 to below 1. The delay is never shorter than `wanted`, the pause that
        the provider asks for.
        """
        # Half of the delay is random, so that requests which failed together do not come back together. The
        # exponent is limited because a float overflows at 2.0 ** 1024.
        doubled = self.first_pause * 2.0 ** min(attempt - 1, 60)
        whole = min(doubled, self.longest_pause)
        return max(whole / 2 * (1 + chance), wanted or 0.0)


def parse_retry_after(headers: Mapping[str, str], wall: float) -> float | None:
    """Return the pause in seconds that the header `retry-after-ms` or `Retry-After` asks for.

    Return None if neither header is present and readable. `headers` has names in lower case. `wall` is the
    current time in seconds since the epoch: `Retry-After` may be a date (RFC 9110, 10.2.3).
    """
    # Not standard, but more precise than the whole seconds of `Retry-After`; OpenAI's SDK prefers it too.
    milliseconds = _parse_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "").strip()
    seconds = _parse_seconds(text)
    return _parse_http_date(text, wall) if seconds is None and text else seconds


def _parse_seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _parse_http_date(text: str, wall: float) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - wall)
    except (ValueError, OverflowError):
        return None

"""Limits of requests and tokens per minute, `Retry-After` headers, and backoff between retries."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import field
from typing import TypeAlias

from evalgate.core.frozen import frozen, mutable

SlotRelease: TypeAlias = Callable[[float, bool], Awaitable[None]]
"""Function that waits for seconds (first argument); the second is True after a rate limit, else False."""

# A context variable instead of an argument: HTTP clients retry far below the conversation that holds the
# slot, behind the interface of agents, which knows nothing of slots.
slot_release: ContextVar[SlotRelease | None] = ContextVar("slot_release", default=None)
"""The wait function of the conversation whose slot the calling task holds; None without a slot.

`runner/case_runner.py` sets it for each turn, and `wait_without_slot` reads it.
"""


async def wait_without_slot(seconds: float, *, is_rate_limited: bool) -> None:
    """Wait before a retry, while other conversations may use the slot of this conversation.

    The wait takes longer than `seconds` if no slot is free at its end. `is_rate_limited` is True if the
    retry follows a rate limit, which slows other conversations down, too.
    """
    release = slot_release.get()
    if release is None:
        await asyncio.sleep(seconds)
    else:
        await release(seconds, is_rate_limited)


@frozen
class RetryPolicy:
    """Number of retries and the pauses between them. Times are in seconds."""

    retries: int = 4
    give_up_after: float = 300.0
    """Sum of all pauses; a pause that would exceed it is not started."""
    first_pause: float = 1.0
    longest_pause: float = 60.0

    def compute_delay(self, attempt: int, chance: float, wanted: float | None = None) -> float:
        """Return the seconds to wait after failed attempt number `attempt` (1-based).

        The delay is exponential with equal jitter: half of it is fixed, and the other half is multiplied by
        `chance`, which is in [0, 1). It is never shorter than `wanted`, the pause that the provider asks for.
        """
        # Half of the delay is random, so that requests which failed together do not come back together. The
        # exponent is limited because a float overflows at 2.0 ** 1024.
        doubled = self.first_pause * 2.0 ** min(attempt - 1, 60)
        whole = min(doubled, self.longest_pause)
        return max(whole / 2 * (1 + chance), wanted or 0.0)


def parse_retry_after(headers: Mapping[str, str], wall: float) -> float | None:
    """Return the seconds that `retry-after-ms` or `Retry-After` asks for (RFC 9110, 10.2.3).

    Return None if neither header is present and readable. `headers` has names in lower case. `wall` is the
    current time in seconds since the epoch.
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


@frozen
class Clock:
    """Functions that read the time and sleep, in seconds; tests replace them."""

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    """Seconds since the epoch."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


REAL_CLOCK = Clock()


MINUTE = 60.0


@mutable
class Admission:
    """One admitted request, with the time and its tokens."""

    at: float
    tokens: int


@mutable
class RateLimiter:
    """A limit of requests and tokens in any 60 seconds. Pure: the caller passes the time.

    A request of more tokens than the limit is admitted alone, because it could never be admitted otherwise.
    """

    requests: int | None = None
    """Requests in any minute; None for any number."""
    tokens: int | None = None
    _admitted: deque[Admission] = field(default_factory=deque)
    _paused_until: float = 0.0

    def compute_wait(self, tokens: int, now: float) -> float:
        """Return the seconds until a request with `tokens` may start; 0 if it may start now."""
        # A sliding window, not a bucket per clock minute: that would admit twice the limit around its border.
        while self._admitted and self._admitted[0].at + MINUTE <= now:
            self._admitted.popleft()
        free_at = max(now, self._paused_until)
        if self.requests is not None and len(self._admitted) >= self.requests:
            free_at = max(free_at, self._admitted[-self.requests].at + MINUTE)
        free_at = max(free_at, self._find_token_time(tokens))
        return free_at - now if free_at > now else 0.0

    def admit_request(self, tokens: int, now: float) -> Admission:
        """Record a request at `now`. The limit is not checked: call `compute_wait` first."""
        admission = Admission(now, tokens)
        self._admitted.append(admission)
        return admission

    def settle_tokens(self, admission: Admission, tokens: int) -> None:
        """Replace the estimated tokens of an admitted request by the real number."""
        admission.tokens = tokens

    def pause_until(self, until: float) -> None:
        """Block new requests before `until`, because the provider asked for a pause."""
        self._paused_until = max(self._paused_until, until)

    def _find_token_time(self, tokens: int) -> float:
        if self.tokens is None:
            return 0.0
        room = max(self.tokens - tokens, 0)  # 0 for a request that is larger than the limit: it runs alone
        used = 0
        # From the newest back: the request fits as soon as the one that exceeds the room is a minute old.
        for admission in reversed(self._admitted):
            used += admission.tokens
            if used > room:
                return admission.at + MINUTE
        return 0.0

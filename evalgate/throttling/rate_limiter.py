"""Requests and tokens per minute, and the backoff after a refusal."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from evalgate.core.frozen import frozen

SlotRelease: TypeAlias = Callable[[float, bool], Awaitable[None]]
"""Waits for so many seconds. True: because it was asked too fast, not because somebody is down."""

slot_release: ContextVar[SlotRelease | None] = ContextVar("keeper", default=None)
"""Who keeps the pace of the conversation that the calling task holds; None: nobody does."""


async def wait_without_slot(seconds: float, *, is_rate_limited: bool) -> None:
    """Wait before the same is asked again; longer than that when others come first by then."""
    keep = slot_release.get()
    if keep is None:
        await asyncio.sleep(seconds)
    else:
        await keep(seconds, is_rate_limited)


@frozen
class RetryPolicy:
    """How often and how long a question is asked again. Times are in seconds."""

    retries: int = 4
    give_up_after: float = 300.0
    """Of pauses in all; one that would go beyond is not begun."""
    first_pause: float = 1.0
    longest_pause: float = 60.0

    def compute_delay(self, attempt: int, chance: float, wanted: float | None = None) -> float:
        """Seconds to wait after failed attempt number `attempt` (1-based).

        Exponential with equal jitter: half of the pause is fixed, the other half is `chance`, in [0, 1), of
        it. Never shorter than what the provider wants.
        """
        doubled = self.first_pause * 2.0 ** min(attempt - 1, 60)
        whole = min(doubled, self.longest_pause)
        return max(whole / 2 * (1 + chance), wanted or 0.0)


def parse_retry_after(headers: Mapping[str, str], wall: float) -> float | None:
    """Seconds that the response's `retry-after-ms` or `Retry-After` asks for (RFC 9110, 10.2.3).

    `headers` are looked up in lower case; `wall` is the time since the epoch. None: it asks for nothing that
    can be understood.
    """
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
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - wall)
    except (ValueError, OverflowError):
        return None


@frozen
class Clock:
    """The clocks that asking a model needs, in seconds."""

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    """Since the epoch."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


REAL_CLOCK = Clock()


MINUTE = 60.0


@dataclass(slots=True)
class Admission:
    """One request that was let through."""

    at: float
    tokens: int


@dataclass(slots=True)
class RateLimiter:
    """Requests and tokens in any 60 seconds. Pure: the caller says what time it is.

    A request of more tokens than a minute may have is let through alone.
    """

    requests: int | None = None
    """In any minute; None: any number."""
    tokens: int | None = None
    _admitted: deque[Admission] = field(default_factory=deque)
    _held_until: float = 0.0

    def compute_wait(self, tokens: int, now: float) -> float:
        """Seconds until a request of so many tokens may go; 0 when it may go now."""
        self._drop_expired(now)
        free_at = max(now, self._held_until)
        free_at = max(free_at, self._find_request_time(), self._find_token_time(tokens))
        return free_at - now if free_at > now else 0.0

    def admit_request(self, tokens: int, now: float) -> Admission:
        """Let a request through, whether or not it should have waited."""
        admission = Admission(now, tokens)
        self._admitted.append(admission)
        return admission

    def settle_tokens(self, admission: Admission, tokens: int) -> None:
        """Correct the guess that a request was admitted with."""
        admission.tokens = tokens

    def pause_until(self, until: float) -> None:
        """Let nothing through before that time: the provider asked for a pause."""
        self._held_until = max(self._held_until, until)

    def _drop_expired(self, now: float) -> None:
        while self._admitted and self._admitted[0].at + MINUTE <= now:
            self._admitted.popleft()

    def _find_request_time(self) -> float:
        if self.requests is None or len(self._admitted) < self.requests:
            return 0.0
        return self._admitted[-self.requests].at + MINUTE

    def _find_token_time(self, tokens: int) -> float:
        if self.tokens is None:
            return 0.0
        room = max(self.tokens - tokens, 0)  # none for a request that is larger than the limit: it goes alone
        used = 0
        for admission in reversed(self._admitted):
            used += admission.tokens
            if used > room:
                return admission.at + MINUTE
        return 0.0

"""Limit the requests and tokens per minute of a service."""

from collections import deque
from dataclasses import field

from evalgate.core.frozen import mutable

MINUTE = 60.0


@mutable
class Admission:
    """Request that a `RateLimiter` has recorded, with its time and its tokens."""

    at: float
    """Time of the request in seconds, on the caller's clock."""
    tokens: int


@mutable
class RateLimiter:
    """Limit of requests and tokens in any 60 seconds. It has no clock: the caller passes the time.

    A request with more tokens than the limit may start once no tokens were used for 60 seconds.
    """

    requests: int | None = None
    """Greatest number of requests in any 60 seconds; None: no limit."""
    tokens: int | None = None
    """Greatest number of tokens in any 60 seconds; None: no limit."""
    _admitted: deque[Admission] = field(default_factory=deque)
    _paused_until: float = 0.0

    def compute_wait(self, tokens: int, now: float) -> float:
        """Return the seconds until a request with `tokens` may start; 0 if it may start now."""
        # A sliding window: counters per clock minute would admit twice the limit around the change of minute.
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
        """Let no request start before the time `until`, because the provider asked for a pause.

        A longer pause that was set before stays.
        """
        self._paused_until = max(self._paused_until, until)

    def _find_token_time(self, tokens: int) -> float:
        if self.tokens is None:
            return 0.0
        room = max(self.tokens - tokens, 0)  # 0 for a request that is larger than the limit: it runs alone
        used = 0
        # From the newest back: the new request fits as soon as the request that exceeds the room is a minute
        # old.
        for admission in reversed(self._admitted):
            used += admission.tokens
            if used > room:
                return admission.at + MINUTE
        return 0.0

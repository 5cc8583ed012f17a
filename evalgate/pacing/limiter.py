"""How many requests, and how many tokens, a minute may have."""

from collections import deque
from dataclasses import dataclass, field

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

    def wait(self, tokens: int, now: float) -> float:
        """Seconds until a request of so many tokens may go; 0 when it may go now."""
        self._forget(now)
        free_at = max(now, self._held_until)
        free_at = max(free_at, self._free_for_request(), self._free_for_tokens(tokens))
        return free_at - now if free_at > now else 0.0

    def admit(self, tokens: int, now: float) -> Admission:
        """Let a request through, whether or not it should have waited."""
        admission = Admission(now, tokens)
        self._admitted.append(admission)
        return admission

    def settle(self, admission: Admission, tokens: int) -> None:
        """Correct the guess that a request was admitted with."""
        admission.tokens = tokens

    def hold(self, until: float) -> None:
        """Let nothing through before that time: the provider asked for a pause."""
        self._held_until = max(self._held_until, until)

    def _forget(self, now: float) -> None:
        while self._admitted and self._admitted[0].at + MINUTE <= now:
            self._admitted.popleft()

    def _free_for_request(self) -> float:
        if self.requests is None or len(self._admitted) < self.requests:
            return 0.0
        return self._admitted[-self.requests].at + MINUTE

    def _free_for_tokens(self, tokens: int) -> float:
        if self.tokens is None:
            return 0.0
        room = max(self.tokens - tokens, 0)  # none for a request that is larger than the limit: it goes alone
        used = 0
        for admission in reversed(self._admitted):
            used += admission.tokens
            if used > room:
                return admission.at + MINUTE
        return 0.0

"""How long to leave a provider alone before it is asked again."""

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from evalgate.frozen import frozen


@frozen
class RetryPolicy:
    """How often and how long a question is asked again. Times are in seconds."""

    retries: int = 4
    give_up_after: float = 300.0
    """Of pauses in all; one that would go beyond is not begun."""
    first_pause: float = 1.0
    longest_pause: float = 60.0

    def pause(self, attempt: int, chance: float, wanted: float | None = None) -> float:
        """Seconds to wait after failed attempt number `attempt` (1-based).

        Exponential with equal jitter: half of the pause is fixed, the other half is `chance`, in [0, 1), of
        it. Never shorter than what the provider wants.
        """
        doubled = self.first_pause * 2.0 ** min(attempt - 1, 60)
        whole = min(doubled, self.longest_pause)
        return max(whole / 2 * (1 + chance), wanted or 0.0)


def wanted_pause(headers: Mapping[str, str], wall: float) -> float | None:
    """Seconds that the response's `retry-after-ms` or `Retry-After` asks for (RFC 9110, 10.2.3).

    `headers` are looked up in lower case; `wall` is the time since the epoch. None: it asks for nothing that
    can be understood.
    """
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "").strip()
    seconds = _seconds(text)
    return _until(text, wall) if seconds is None and text else seconds


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(text: str, wall: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - wall)
    except (ValueError, OverflowError):
        return None

"""Faults to inject between a client and a fake service."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass
class Fault:
    """Fault of the next `times` requests with a method (any if "") and a path that `path` (a regex) matches."""

    method: str = ""
    path: str = ""
    times: int = 1
    status: int = 0
    """If not 0: answer with this status, and do nothing else."""
    message: str = "Server Error"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    """Seconds to wait first."""
    cut: Literal["", "before", "after", "halfway"] = ""
    """Close the connection before the request has an effect, after it, or in the middle of the answer; "": never."""
    body: bytes | None = None
    """If not None: send these bytes as the body of the answer."""
    drip_s: float = 0.0
    """Seconds to wait before each byte of the answer's body."""
    then: Callable[[], object] | None = None
    """Function to call before the request is handled, such as a change by another client."""

    def befalls(self, method: str, path: str) -> bool:
        """Return True if the fault applies to a request, and then reduce `times` by 1."""
        hit = self.times > 0 and self.method in {"", method} and re.search(self.path, path) is not None
        self.times -= hit
        return hit


def limit_used_up(times: int = 1) -> Fault:
    """Return the answer of GitHub's hourly rate limit, which resets only in the year 2096."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4000000000"}
    message = "API rate limit exceeded for installation ID 1."
    return Fault(status=403, message=message, headers=headers, times=times)


def slow_down(retry_after: str = "1", status: int = 403, times: int = 1) -> Fault:
    """Return the answer of GitHub's secondary rate limit, with a `Retry-After` header."""
    message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    return Fault(status=status, message=message, headers={"Retry-After": retry_after}, times=times)

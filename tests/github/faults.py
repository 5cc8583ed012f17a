"""What can go wrong between a client and GitHub."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass
class Fault:
    """Befalls the next `times` requests of a method (any if empty) whose path holds a pattern."""

    method: str = ""
    path: str = ""
    times: int = 1
    status: int = 0
    """Answer with this status instead of doing anything."""
    message: str = "Server Error"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    """Wait before anything else."""
    cut: Literal["", "before", "after", "halfway"] = ""
    """Close the connection: before the request has an effect, after it, or in the middle of the answer."""
    body: bytes | None = None
    """Answer with these bytes, whatever was done."""
    drip_s: float = 0.0
    """Wait so long before each byte of the answer's body."""
    then: Callable[[], object] | None = None
    """Happens before the request is looked at: what somebody else does in between."""

    def befalls(self, method: str, path: str) -> bool:
        """Whether it does; a time is used up if so."""
        hit = self.times > 0 and self.method in {"", method} and re.search(self.path, path) is not None
        self.times -= hit
        return hit


def limit_used_up(times: int = 1) -> Fault:
    """The hourly limit: nothing but waiting for its reset helps."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4000000000"}
    message = "API rate limit exceeded for installation ID 1."
    return Fault(status=403, message=message, headers=headers, times=times)


def slow_down(retry_after: str = "1", status: int = 403, times: int = 1) -> Fault:
    """The secondary limit: GitHub asks to wait."""
    message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    return Fault(status=status, message=message, headers={"Retry-After": retry_after}, times=times)

"""What became of a post. Never an exception: a report that cannot be posted never changes the verdict."""

from typing import Literal, TypeAlias

from evalgate.frozen import frozen

Kind: TypeAlias = Literal["posted", "updated", "unchanged", "skipped", "failed"]


@frozen
class Outcome:
    """What became of a post, for a notice in the log."""

    kind: Kind
    """`skipped`: it could not be expected to work (a fork's token); `failed`: it could, and did not."""
    reason: str = ""
    """One sentence, harmless to print and without any secret; empty when all went as usual."""
    url: str = ""
    """Where people see it; empty when nothing was posted."""
    needs_attention: bool = False
    """Whether `reason` is about something to mend although the post is there."""


@frozen
class Patience:
    """How long a post may take."""

    total_s: float = 90.0
    """All of it; then it has failed."""
    request_s: int = 15
    """One request, until its answer begins; at least 1."""
    settle_s: float = 4.0
    """How long a section must have stood before it counts as safe from jobs that write at the same time.

    Longer than any of them takes from reading the comment to writing it.
    """
    pause_s: float = 0.5
    """The first wait before something is tried again; doubles each time, within `longest_pause_s`."""
    longest_pause_s: float = 10.0
    between_writes_s: float = 0.25
    """GitHub wants writes to be apart."""


class Trouble(Exception):
    """A request that did not do what it should."""

    def __init__(self, reason: str, *, kind: Literal["skipped", "failed"] = "failed") -> None:
        super().__init__(reason)
        self.kind: Literal["skipped", "failed"] = kind


class Passing(Trouble):
    """It may work when it is tried again, after `wait_s` seconds at the earliest."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class GivenUp(Trouble):
    """It was tried again and again; another time it may work."""


class Gone(Trouble):
    """What was asked for is not there (any more)."""


class TooLong(Trouble):
    """GitHub takes no text of this length."""

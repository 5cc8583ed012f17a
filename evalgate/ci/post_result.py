"""The result of a post, and the errors that a service's client raises."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_log_line
from evalgate.redaction.redactor import SHORTEST_MASK, Redactor

PostStatus: TypeAlias = Literal["posted", "updated", "unchanged", "skipped", "failed"]


@frozen
class PostResult:
    """What became of a post, for a notice in the log."""

    kind: PostStatus
    """`skipped`: it could not be expected to work (a fork's token); `failed`: it could, and did not."""
    reason: str = ""
    """One sentence, harmless to print and without any secret; empty when all went as usual."""
    url: str = ""
    """Where people see it; empty when nothing was posted."""
    needs_attention: bool = False
    """Whether `reason` is about something to mend although the post is there."""


@frozen
class PostTimeouts:
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


class PostError(Exception):
    """A request that did not do what it should."""

    def __init__(self, reason: str, *, kind: Literal["skipped", "failed"] = "failed") -> None:
        super().__init__(reason)
        self.kind: Literal["skipped", "failed"] = kind


class TransientError(PostError):
    """It may work when it is tried again, after `wait_s` seconds at the earliest."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class RetriesExhaustedError(PostError):
    """It was tried again and again; another time it may work."""


class NotFoundError(PostError):
    """What was asked for is not there (any more)."""


class CommentTooLongError(PostError):
    """GitHub takes no text of this length."""


_LONGEST_TOLD_S = 3600


def build_token_redactor(token: str) -> Redactor:
    """What takes the token out of everything that is told."""
    return Redactor((token,) if len(token) >= SHORTEST_MASK else ())


@contextmanager
def translate_errors(sort: Callable[[Exception], PostError], redactor: Redactor) -> Iterator[None]:
    """A block in which whatever a client raises becomes Trouble: without a secret, and without its cause."""
    try:
        yield
    except PostError:
        raise
    except Exception as error:  # noqa: BLE001  # a client may raise anything on an answer that makes no sense
        trouble = sort(error)
        trouble.args = (to_log_line(redactor.redact_text(str(trouble)), 400),)
        raise trouble from None


def describe_giving_up(waited_s: float, next_s: float = 0.0) -> str:
    """Return `given up after 12 s`, with the time until the next attempt if that is why."""
    after = f"after {waited_s:.0f} s" if waited_s >= 1 else "at once"
    if next_s <= 0:
        return f"given up {after}"
    until = f"in {next_s:.0f} s" if next_s <= _LONGEST_TOLD_S else "in more than an hour"
    return f"given up {after}: the next attempt may be made {until}"


def parse_seconds(text: str | None, otherwise: float) -> float:
    """A header's value in seconds."""
    return float(text) if text and re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text) else otherwise

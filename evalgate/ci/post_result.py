"""The result of posting to GitHub or GitLab, its time limits, and the errors that the clients raise."""

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
    """The result of a post, for a notice in the log."""

    kind: PostStatus
    """`skipped`: the post could not be expected to work, as with a fork's token.

    `failed`: it could, but did not work.
    """
    reason: str = ""
    """One sentence that is safe to print and holds no secret; "" if the post went as usual."""
    url: str = ""
    """The URL of the post; "" if nothing was posted."""
    needs_attention: bool = False
    """True if something has to be fixed although the post exists; `reason` says what."""


@frozen
class PostTimeouts:
    """The time limits of a post, in seconds."""

    total_s: float = 90.0
    """The limit of the whole post; after it, the post has failed."""
    request_s: int = 15
    """The limit of one request until its answer begins; at least 1."""
    settle_s: float = 4.0
    """The time that a section must stay unchanged before it counts as safe from jobs that write as well.

    It must be longer than any of them takes from reading the comment to writing it.
    """
    pause_s: float = 0.5
    """The first wait before a retry. It grows with each retry, up to `longest_pause_s`."""
    longest_pause_s: float = 10.0
    between_writes_s: float = 0.25
    """The pause between two writes, which GitHub asks for."""


class PostError(Exception):
    """The failure of a request or a post."""

    def __init__(self, reason: str, *, kind: Literal["skipped", "failed"] = "failed") -> None:
        super().__init__(reason)
        self.kind: Literal["skipped", "failed"] = kind


class TransientError(PostError):
    """A post that may succeed if it is repeated after at least `wait_s` seconds."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class RetriesExhaustedError(PostError):
    """A post that was repeated without success. It may succeed at another time."""


class NotFoundError(PostError):
    """A request for something that does not exist, or no longer."""


class CommentTooLongError(PostError):
    """A comment that is too long for the service."""


_LONGEST_SHOWN_S = 3600


def build_token_redactor(token: str) -> Redactor:
    """Create a redactor that removes the token from messages."""
    return Redactor((token,) if len(token) >= SHORTEST_MASK else ())


@contextmanager
def translate_errors(classify: Callable[[Exception], PostError], redactor: Redactor) -> Iterator[None]:
    """Raise every exception of a `with` block as the `PostError` that `classify` returns.

    Its message holds no secret. It has no cause, because the message of a cause may hold one.
    """
    try:
        yield
    except PostError:
        raise
    except Exception as error:  # noqa: BLE001  # a client may raise anything on an answer that makes no sense
        translated = classify(error)
        translated.args = (to_log_line(redactor.redact_text(str(translated)), 400),)
        raise translated from None


def describe_giving_up(waited_s: float, next_s: float = 0.0) -> str:
    """Return `given up after 12 s`, with the time until the next possible attempt if that is the reason."""
    after = f"after {waited_s:.0f} s" if waited_s >= 1 else "at once"
    if next_s <= 0:
        return f"given up {after}"
    until = f"in {next_s:.0f} s" if next_s <= _LONGEST_SHOWN_S else "in more than an hour"
    return f"given up {after}: the next attempt may be made {until}"


def parse_seconds(text: str | None, otherwise: float) -> float:
    """Return a header's value in seconds, or `otherwise` if it is no number."""
    return float(text) if text and re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text) else otherwise

"""What a client of a service raises, as Trouble that can be told to anybody."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evalgate.hostile import log_line
from evalgate.posting.outcome import Trouble
from evalgate.redaction import SHORTEST_MASK, Redactor

_LONGEST_TOLD_S = 3600


def redactor_of(token: str) -> Redactor:
    """What takes the token out of everything that is told."""
    return Redactor((token,) if len(token) >= SHORTEST_MASK else ())


@contextmanager
def sorted_out(sort: Callable[[Exception], Trouble], redactor: Redactor) -> Iterator[None]:
    """A block in which whatever a client raises becomes Trouble: without a secret, and without its cause."""
    try:
        yield
    except Trouble:
        raise
    except Exception as error:  # noqa: BLE001  # a client may raise anything on an answer that makes no sense
        trouble = sort(error)
        trouble.args = (log_line(redactor.text(str(trouble)), 400),)
        raise trouble from None


def describe_giving_up(waited_s: float, next_s: float = 0.0) -> str:
    """Return `given up after 12 s`, with the time until the next attempt if that is why."""
    after = f"after {waited_s:.0f} s" if waited_s >= 1 else "at once"
    if next_s <= 0:
        return f"given up {after}"
    until = f"in {next_s:.0f} s" if next_s <= _LONGEST_TOLD_S else "in more than an hour"
    return f"given up {after}: the next attempt may be made {until}"


def seconds(text: str | None, otherwise: float) -> float:
    """A header's value in seconds."""
    return float(text) if text and re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text) else otherwise

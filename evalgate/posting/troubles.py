"""What a client of a service raises, as Trouble that can be told to anybody."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evalgate.hostile import log_line
from evalgate.posting.outcome import Trouble
from evalgate.redaction import SHORTEST_MASK, Redactor


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


def seconds(text: str | None, otherwise: float) -> float:
    """A header's value in seconds."""
    return float(text) if text and re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text) else otherwise

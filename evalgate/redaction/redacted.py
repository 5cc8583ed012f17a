"""What was redacted when it was written: only what is secret here and was not there can be left in it."""

import json
import re
from functools import lru_cache

from evalgate.hostile import visible
from evalgate.redaction.announced import may_announce


class Redacted:
    """A mixin for data that this version of evalgate wrote, and so redacted, as `json`."""

    __slots__ = ()

    @property
    def json(self) -> str:
        """The JSON of all of it, on one line; "" when that is not known."""
        raise NotImplementedError


_HIDES = re.compile(r'\\[^nt"\\]')
"""An escape of what may be invisible in the middle of a secret. What follows a backslash is one as well."""


def may_hold(text: str, needles: tuple[str, ...]) -> bool:
    """Whether some `needles`, or what announces further ones, may stand in the texts of a line of JSON."""
    return (
        not _is_visible(text)
        or ("\\" in text and _HIDES.search(text) is not None)
        or may_announce(text)
        or any(needle in text for needle in _as_written(needles))
    )


def _is_visible(line: str) -> bool:
    """Whether nothing invisible stands in a line of JSON, which escapes every control of ASCII but DEL."""
    return "\x7f" not in line if line.isascii() else visible(line) == line


@lru_cache(maxsize=4)
def _as_written(needles: tuple[str, ...]) -> tuple[str, ...]:
    """The needles as they stand in JSON, and as they are: a text may hold JSON that is escaped already."""
    escaped = (json.dumps(needle, ensure_ascii=False)[1:-1] for needle in needles)
    return tuple(dict.fromkeys((*needles, *escaped)))

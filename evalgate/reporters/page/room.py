"""How much of a case the page can hold."""

import json
from dataclasses import dataclass

from evalgate.frozen import frozen
from evalgate.numbers import counted
from evalgate.recordtree import mended

_MARKUP = 120  # characters that a thing takes beside its text, about
_ONE_LINE = 72
_LONG, _LONG_LINES = 1500, 15


@frozen
class Text:
    """A text, or the part of it that there is room for."""

    text: str
    left_out: str = ""
    """How much is missing, in words; "" when nothing is."""
    is_end: bool = False
    """Whether `text` is the end of the whole, else its start."""

    @property
    def is_long(self) -> bool:
        """Whether a reader rather scrolls in it than past it."""
        return len(self.text) > _LONG or self.text.count("\n") > _LONG_LINES


@dataclass(slots=True)
class Room:
    """Characters that a case may take. Each thing that is shown leaves less for those after it."""

    left: int
    longest: int
    """Characters of one text at most."""

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be begun."""
        return self.left <= 0

    def text(self, text: str, *, is_end: bool = False) -> Text:
        """The text, its start, or its end."""
        size = max(0, min(self.longest, self.left))
        self.left -= min(len(text), size) + _MARKUP
        if len(text) <= size:
            return Text(text)
        more = f"{counted(len(text) - size, 'more character')}: see results.json"
        return Text(text[len(text) - size :] if is_end else text[:size], more, is_end)

    def json(self, value: object) -> Text:
        """A text as it is; anything else as JSON, on several lines unless it is short."""
        if isinstance(value, str):
            return self.text(value)
        mend = mended(value)
        line = json.dumps(mend, ensure_ascii=False)
        return self.text(line if len(line) <= _ONE_LINE else json.dumps(mend, ensure_ascii=False, indent=2))

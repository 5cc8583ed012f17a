"""A window that moves through a large JSON file, value by value, and takes only what is strictly JSON."""

import codecs
import json
import math
from typing import Any, BinaryIO, NoReturn

from evalgate.reading.jsonsyntax import lone_surrogates, skip_blanks
from evalgate.reading.jsontext import DEEPEST, is_deeper, marks_of

_AFTER_VALUE = frozenset(" \t\r\n,:]}")


class Untaken(Exception):
    """Not JSON, or JSON that is refused: `jsontext` tells."""


class Window:
    """A part of a file's text that moves through it."""

    def __init__(self, file: BinaryIO, step: int) -> None:
        """`step`: bytes that are read at once, or more where one value is larger."""
        self._file = file
        self._size = step
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._began = 0
        """Where the value starts that was decoded last."""
        self._bytes = 0
        """Bytes before `_known`."""
        self._known = 0
        self._line, self._line_start = 1, 0
        """Of what stands at `_known`; where the line starts may be before the text."""
        self._skip_mark()

    def _skip_mark(self) -> None:
        while not self._text and self._step():
            pass
        if self._text.startswith("\ufeff"):
            self._text, self._bytes = self._text[1:], len("\ufeff".encode())

    def _step(self) -> bool:
        """Read on, in growing steps where nothing is let go; False at the end."""
        data = self._file.read(max(self._size, len(self._text)))
        self._text += self._decoder.decode(data, final=not data)
        return bool(data)

    def peek(self) -> str:
        """The next character that is no blank; "" at the end."""
        while True:
            self._at = skip_blanks(self._text, self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._step():
                return ""

    def take(self, expected: str) -> None:
        """Step over a bracket, comma or colon."""
        if self.peek() != expected:
            raise Untaken
        self._at += 1

    def value(self) -> Any:
        """Decode what comes next, and step over it."""
        self.peek()
        self._began = self._at
        while True:
            try:
                found, end = _DECODER.raw_decode(self._text, self._at)
            except ValueError:
                if not self._step():
                    raise
                continue
            # A number may go on where the text ends, as 1 in `1.` does.
            if self._text[end : end + 1] in _AFTER_VALUE or not self._step():
                self._at = end
                return found

    @property
    def passed(self) -> str:
        """The text of the value that was decoded last. Ask before anything is let go."""
        return self._text[self._began : self._at]

    def place(self) -> tuple[int, int, int]:
        """Offset in bytes, line and column of where it stands."""
        passed = self._text[self._known : self._at]
        self._bytes += len(passed) if passed.isascii() else len(passed.encode())
        if breaks := passed.count("\n"):
            self._line += breaks
            self._line_start = self._text.rfind("\n", self._known, self._at) + 1
        self._known = self._at
        return self._bytes, self._line, self._at - self._line_start + 1

    def let_go(self, *, always: bool = False) -> None:
        """Check and forget what is passed, if it is much. Call between whole values."""
        if self._at < self._size and not always:
            return
        self.place()
        passed, self._text = self._text[: self._at], self._text[self._at :]
        self._line_start -= self._at
        self._at = self._known = 0
        # Whole values are within two levels at most.
        if is_deeper(marks_of(passed.encode()), DEEPEST - 2) or next(lone_surrogates(passed), None):
            raise Untaken


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Untaken
    return members


def _refused(_: str) -> NoReturn:
    raise Untaken


def _finite(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise Untaken
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refused, parse_float=_finite)

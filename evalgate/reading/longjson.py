"""Large JSON files, read without holding them: of a long list, an item is decoded when it is asked for.

A first pass goes through the file with the standard library's decoder, checks it as strictly as `jsontext`
does and notes where everything stands. A file that it does not take goes to `jsontext`, which tells why.
"""

import json
import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, overload

from evalgate.errors import InvalidInput, Problem
from evalgate.frozen import frozen
from evalgate.reading.jsontext import JsonDocument, Location, read_json
from evalgate.reading.jsonwindow import Untaken, Window
from evalgate.system.collector import collector_paused

LARGE = 32 * 2**20
"""Bytes from which on a file is not held."""

_STEP = 2**20


class Span(NamedTuple):
    """Where a value stands in its file."""

    start: int
    """In bytes, as `end`."""
    end: int
    line: int
    """1-based, as `column`, which counts characters."""
    column: int


@frozen
class _File:
    """A file that is read in parts."""

    path: Path
    shown_as: str
    step: int
    """Bytes that are decoded at once, or more where one item is larger."""
    stamp: tuple[int, int]
    """Changes with the file."""

    def text(self, start: int, end: int) -> str:
        """What stands between two offsets.

        Raises:
            InvalidInput: it is not the file any more that was gone through.
        """
        try:
            with self.path.open("rb") as file:
                if _stamp(file) == self.stamp:
                    file.seek(start)
                    return file.read(end - start).decode()
        except OSError:
            pass
        raise InvalidInput([Problem(self.shown_as, 0, 0, "was changed while it was read: try again")])

    def decoded(self, start: int, end: int) -> Any:
        """The values of a list between two offsets; a comma may follow the last."""
        return json.loads(f"[{self.text(start, end).rstrip(_BLANKS_OR_COMMA)}]")


def _stamp(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


_BLANKS_OR_COMMA = " \t\r\n,"


class LongList(Sequence[Any]):
    """A list in a file: each item is decoded whenever it is asked for."""

    def __init__(self, file: _File) -> None:
        self._file = file
        self._starts = array("Q")
        self._lines, self._columns = array("Q"), array("Q")
        self.end = 0
        """Offset behind the last item."""

    def note(self, start: int, line: int, column: int) -> None:
        """Say where the next item starts, in file order."""
        self._starts.append(start)
        self._lines.append(line)
        self._columns.append(column)

    def span(self, index: int) -> Span:
        """Where an item stands; what follows up to the next one is counted in."""
        return Span(self._starts[index], self._end_of(index), self._lines[index], self._columns[index])

    def _end_of(self, index: int) -> int:
        return self._starts[index + 1] if index + 1 < len(self) else self.end

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        return self._file.decoded(self._starts[at], self._end_of(at))[0]

    def __iter__(self) -> Iterator[Any]:
        # Many at once: equal keys of objects that are decoded by one call are one text in memory.
        first = 0
        while first < len(self):
            last = first
            while last + 1 < len(self) and self._starts[last + 1] - self._starts[first] < self._file.step:
                last += 1
            yield from self._file.decoded(self._starts[first], self._end_of(last))
            first = last + 1


@dataclass(slots=True)
class LongDocument:
    """A large file; satisfies `evalgate.protocols.Document`."""

    path: str
    value: Any
    _file: _File = field(repr=False)
    _top: Span = field(repr=False)
    _members: dict[str, Span] = field(repr=False)
    """Of the object that the file holds."""

    def position(self, location: Location) -> tuple[int, int]:
        """See `JsonDocument.position`."""
        value, span = self.value, self._top
        for depth, part in enumerate(location, start=1):
            found = self._span(value, part)
            if found is None:
                break
            span = found
            value = value[part] if isinstance(value, dict) else None
            if not isinstance(value, LongList):
                return self._within(span, location[depth:])
        return span.line, span.column

    def _span(self, value: object, part: str | int) -> Span | None:
        if isinstance(value, LongList):
            return value.span(part) if isinstance(part, int) and 0 <= part < len(value) else None
        return self._members.get(part) if isinstance(part, str) else None

    def _within(self, span: Span, location: Location) -> tuple[int, int]:
        if not location:
            return span.line, span.column
        text = self._file.text(span.start, span.end)
        line, column = JsonDocument(self.path, None, text, {}).position(location)
        return span.line + line - 1, column + (span.column - 1 if line == 1 else 0)


def read_large(
    path: Path, shown_as: str, *, large: int = LARGE, step: int = _STEP
) -> JsonDocument | LongDocument:
    """As `read_json`, but of a file of so many bytes long lists stay in the file.

    Such a list stands at the top of the document or is a member of the object there.

    Raises:
        InvalidInput: as `read_json`.
    """
    try:
        if path.is_file() and path.stat().st_size >= large:
            with path.open("rb") as file, collector_paused():
                return _scanned(Window(file, step), _File(path, shown_as, step, _stamp(file)))
    except (Untaken, OSError, ValueError, RecursionError, MemoryError):
        pass  # only after this block is what was read let go
    return read_json(path, shown_as)


# --- the first pass -----------------------------------------------------------------------------------------


def _scanned(window: Window, file: _File) -> LongDocument:
    opening = window.peek()
    start, line, column = window.place()
    members: dict[str, Span] = {}
    value = _object(window, file, members) if opening == "{" else _items(window, file)
    end, _, _ = window.place()
    if window.peek():
        raise Untaken
    window.let_go(always=True)
    return LongDocument(file.shown_as, value, file, Span(start, end, line, column), members)


def _object(window: Window, file: _File, spans: dict[str, Span]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    window.take("{")
    while window.peek() != "}" or members:
        key = window.value()
        if not isinstance(key, str) or key in members:
            raise Untaken
        window.take(":")
        opening = window.peek()
        start, line, column = window.place()
        members[key] = _list(window, file) if opening == "[" else window.value()
        spans[key] = Span(start, window.place()[0], line, column)
        window.let_go()
        if window.peek() != ",":
            break
        window.take(",")
    window.take("}")
    return members


def _list(window: Window, file: _File) -> LongList | list[Any]:
    """The list that comes next, as it is if it is short."""
    found = _items(window, file)
    return list(found) if not found or found.end - found.span(0).start < file.step else found


def _items(window: Window, file: _File) -> LongList:
    found = LongList(file)
    window.take("[")
    while window.peek() != "]" or found:
        found.note(*window.place())
        window.value()
        found.end, _, _ = window.place()
        window.let_go()
        if window.peek() != ",":
            break
        window.take(",")
    window.take("]")
    return found

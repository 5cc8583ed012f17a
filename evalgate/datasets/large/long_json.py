"""Large JSON files: an item of a long list is decoded when it is asked for.

A first pass goes through the file with the standard library's decoder, checks it as strictly as `jsontext`
does and notes where everything stands. A file that it does not take goes to `jsontext`, which tells why.

The file stays open, so that another one in its place is no matter, and each item must be what it was when it
was checked: whoever may write to the file cannot change what a run asks and expects while it goes on.
"""

import codecs
import json
import math
import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, overload
from weakref import finalize

from pydantic_core import from_json

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.documents.json_errors import find_lone_surrogates, skip_blanks
from evalgate.documents.strict_json import (
    DEEPEST,
    JsonDocument,
    Location,
    extract_marks,
    is_deeper,
    read_json,
)
from evalgate.system.gc import pause_gc

_AFTER_VALUE = frozenset(" \t\r\n,:]}")


class NotStrictJsonError(Exception):
    """Not JSON, or JSON that is refused: `jsontext` tells."""


class JsonWindow:
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
        self._skip_byte_order_mark()

    def _skip_byte_order_mark(self) -> None:
        while not self._text and self._read_more():
            pass
        if self._text.startswith("\ufeff"):
            self._text, self._bytes = self._text[1:], len("\ufeff".encode())

    def _read_more(self) -> bool:
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
            if not self._read_more():
                return ""

    def take(self, expected: str) -> None:
        """Step over a bracket, comma or colon."""
        if self.peek() != expected:
            raise NotStrictJsonError
        self._at += 1

    def read_value(self) -> Any:
        """Decode what comes next, and step over it."""
        self.peek()
        self._began = self._at
        while True:
            try:
                found, end = _DECODER.raw_decode(self._text, self._at)
            except ValueError:
                if not self._read_more():
                    raise
                continue
            # A number may go on where the text ends, as 1 in `1.` does.
            if self._text[end : end + 1] in _AFTER_VALUE or not self._read_more():
                self._at = end
                return found

    @property
    def last_value_text(self) -> str:
        """The text of the value that was decoded last. Ask before anything is let go."""
        return self._text[self._began : self._at]

    def get_position(self) -> tuple[int, int, int]:
        """Offset in bytes, line and column of where it stands."""
        passed = self._text[self._known : self._at]
        self._bytes += len(passed) if passed.isascii() else len(passed.encode())
        if breaks := passed.count("\n"):
            self._line += breaks
            self._line_start = self._text.rfind("\n", self._known, self._at) + 1
        self._known = self._at
        return self._bytes, self._line, self._at - self._line_start + 1

    def discard_passed(self, *, always: bool = False) -> None:
        """Check and forget what is passed, if it is much. Call between whole values."""
        if self._at < self._size and not always:
            return
        self.get_position()
        passed, self._text = self._text[: self._at], self._text[self._at :]
        self._line_start -= self._at
        self._at = self._known = 0
        # Whole values are within two levels at most.
        if is_deeper(extract_marks(passed.encode()), DEEPEST - 2) or next(find_lone_surrogates(passed), None):
            raise NotStrictJsonError


def _require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotStrictJsonError
    return members


def _reject_constant(_: str) -> NoReturn:
    raise NotStrictJsonError


def _parse_finite_float(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise NotStrictJsonError
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_require_unique_keys, parse_constant=_reject_constant, parse_float=_parse_finite_float
)


LARGE = 32 * 2**20
"""Bytes from which on a file is not held."""

_STEP = 2**17


class ValueSpan(NamedTuple):
    """Where a value stands in its file."""

    start: int
    """In bytes, as `end`."""
    end: int
    line: int
    """1-based, as `column`, which counts characters."""
    column: int


class _SourceFile:
    """A file that is read in parts, for as long as anybody holds this."""

    def __init__(self, file: BinaryIO, shown_as: str, step: int) -> None:
        """`step`: bytes that are decoded at once, or more where one item is larger."""
        self.shown_as = shown_as
        self.step = step
        self._descriptor = os.dup(file.fileno())
        finalize(self, os.close, self._descriptor)
        self._stamp = self._read_stamp()

    def _read_stamp(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_mtime_ns

    def read_text(self, start: int, end: int) -> str:
        """What stands between two offsets.

        Raises:
            InvalidInputError: somebody wrote to the file since it was opened.
        """
        data = self.read_bytes(start, end)
        if self._read_stamp() != self._stamp:
            raise self.build_changed_error()
        return data.decode()

    def read_bytes(self, start: int, end: int) -> bytes:
        """The bytes there now, which may be others than they were.

        Raises:
            InvalidInputError: the file has become shorter, or cannot be read any more.
        """
        try:
            found = os.pread(self._descriptor, end - start, start)
        except OSError:
            found = b""
        if len(found) < end - start:
            raise self.build_changed_error()
        return found

    def build_changed_error(self) -> InvalidInputError:
        """What is to be said where the file is not any more what was read first."""
        message = "was changed while evalgate worked with it: leave it as it is until the run is over"
        return InvalidInputError([Problem(self.shown_as, 0, 0, message)])


class LongList(Sequence[Any]):
    """A list in a file: each item is decoded whenever it is asked for.

    Raises:
        InvalidInputError: where an item is asked for that is not any more what it was at first.
    """

    def __init__(self, file: _SourceFile) -> None:
        self._file = file
        self._starts, self._sizes = array("Q"), array("I")
        self._lines, self._columns = array("I"), array("Q")
        self._digests = array("Q")

    def start_item(self, start: int, line: int, column: int) -> None:
        """Say where the next item starts, in file order."""
        self._starts.append(start)
        self._lines.append(line)
        self._columns.append(column)

    def end_item(self, end: int, text: str) -> None:
        """Say where it ends, and how it is written."""
        self._sizes.append(end - self._starts[-1])
        self._digests.append(_hash_item(text.encode()))

    def get_span(self, index: int) -> ValueSpan:
        """Where an item stands."""
        return ValueSpan(
            self._starts[index], self._get_item_end(index), self._lines[index], self._columns[index]
        )

    def _get_item_end(self, index: int) -> int:
        return self._starts[index] + self._sizes[index]

    @property
    def size(self) -> int:
        """Bytes from the first item to the last."""
        return self._get_item_end(-1) - self._starts[0] if self._starts else 0

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
        return self._decode_items(at, at + 1)[0]

    def __iter__(self) -> Iterator[Any]:
        first = 0
        while first < len(self):
            items = self.read_block(first)
            first += len(items)
            yield from items

    def read_block(self, first: int) -> list[Any]:
        """That item and those after it that are decoded with it."""
        past = first + 1
        while past < len(self) and self._get_item_end(past) - self._starts[first] <= self._file.step:
            past += 1
        return self._decode_items(first, past)

    def _decode_items(self, first: int, past: int) -> list[Any]:
        begin = self._starts[first]
        data = self._file.read_bytes(begin, self._get_item_end(past - 1))
        parts = [data[self._starts[at] - begin : self._get_item_end(at) - begin] for at in range(first, past)]
        if array("Q", map(_hash_item, parts)) != self._digests[first:past]:
            raise self._file.build_changed_error()
        return _decode_values(b"[%b]" % b",".join(parts))


def _decode_values(data: bytes) -> list[Any]:
    """What a list says that was checked before. Short texts that are equal are one in memory."""
    try:
        found: list[Any] = from_json(data)
    except ValueError:  # nested deeper than that reads
        found = json.loads(data)
    return found


def _hash_item(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


@dataclass(slots=True)
class LongDocument:
    """A large file; satisfies `evalgate.core.protocols.Document`."""

    path: str
    value: Any
    _file: _SourceFile = field(repr=False)
    _top: ValueSpan = field(repr=False)
    _members: dict[str, ValueSpan] = field(repr=False)
    """Of the object that the file holds."""

    def find_position(self, location: Location) -> tuple[int, int]:
        """See `JsonDocument.find_position`."""
        value, span = self.value, self._top
        for depth, part in enumerate(location, start=1):
            found = self._find_span(value, part)
            if found is None:
                break
            span = found
            value = value[part] if isinstance(value, dict) else None
            if not isinstance(value, LongList):
                return self._find_inner_position(span, location[depth:])
        return span.line, span.column

    def _find_span(self, value: object, part: str | int) -> ValueSpan | None:
        if isinstance(value, LongList):
            return value.get_span(part) if isinstance(part, int) and 0 <= part < len(value) else None
        return self._members.get(part) if isinstance(part, str) else None

    def _find_inner_position(self, span: ValueSpan, location: Location) -> tuple[int, int]:
        if not location:
            return span.line, span.column
        text = self._file.read_text(span.start, span.end)
        line, column = JsonDocument(self.path, None, text, {}).find_position(location)
        return span.line + line - 1, column + (span.column - 1 if line == 1 else 0)


def read_large_json(
    path: Path, shown_as: str, *, large: int = LARGE, step: int = _STEP
) -> JsonDocument | LongDocument:
    """As `read_json`, but of a file of so many bytes long lists stay in the file.

    Such a list stands at the top of the document or is a member of the object there.

    Raises:
        InvalidInputError: as `read_json`.
    """
    try:
        if path.is_file() and path.stat().st_size >= large:
            with path.open("rb") as file, pause_gc():
                return _scan_document(JsonWindow(file, step), _SourceFile(file, shown_as, step))
    except (NotStrictJsonError, OSError, ValueError, OverflowError, RecursionError, MemoryError):
        pass  # only after this block is what was read let go
    return read_json(path, shown_as)


# --- the first pass -----------------------------------------------------------------------------------------


def _scan_document(window: JsonWindow, file: _SourceFile) -> LongDocument:
    opening = window.peek()
    start, line, column = window.get_position()
    members: dict[str, ValueSpan] = {}
    value = _scan_object(window, file, members) if opening == "{" else _scan_items(window, file)
    end, _, _ = window.get_position()
    if window.peek():
        raise NotStrictJsonError
    window.discard_passed(always=True)
    return LongDocument(file.shown_as, value, file, ValueSpan(start, end, line, column), members)


def _scan_object(window: JsonWindow, file: _SourceFile, spans: dict[str, ValueSpan]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    window.take("{")
    while window.peek() != "}" or members:
        key = window.read_value()
        if not isinstance(key, str) or key in members:
            raise NotStrictJsonError
        window.take(":")
        opening = window.peek()
        start, line, column = window.get_position()
        members[key] = _scan_list(window, file) if opening == "[" else window.read_value()
        spans[key] = ValueSpan(start, window.get_position()[0], line, column)
        window.discard_passed()
        if window.peek() != ",":
            break
        window.take(",")
    window.take("}")
    return members


def _scan_list(window: JsonWindow, file: _SourceFile) -> LongList | list[Any]:
    """The list that comes next, as it is if it is short."""
    found = _scan_items(window, file)
    return list(found) if found.size < file.step else found


def _scan_items(window: JsonWindow, file: _SourceFile) -> LongList:
    found = LongList(file)
    window.take("[")
    while window.peek() != "]" or found:
        found.start_item(*window.get_position())
        window.read_value()
        found.end_item(window.get_position()[0], window.last_value_text)
        window.discard_passed()
        if window.peek() != ",":
            break
        window.take(",")
    window.take("]")
    return found

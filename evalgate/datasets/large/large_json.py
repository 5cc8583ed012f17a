"""Large JSON files, with long lists that stay in the file: each item is decoded on access.

A first pass reads the file with the standard library's decoder, checks it as strictly as `strict_json` does,
and records all positions. If this pass rejects the file, `strict_json` reads it and describes the problem.

The file stays open, so that replacing it has no effect. Each item must have the digest that it had in the
first pass. So a process that writes to the file cannot change the cases of a run that is under way.
"""

import codecs
import json
import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, overload
from weakref import finalize

from pydantic_core import from_json

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.documents.strict_json import (
    DEEPEST,
    JsonDocument,
    Location,
    NotStrictJsonError,
    extract_structure,
    find_lone_surrogates,
    is_deeper,
    parse_finite_float,
    read_json,
    reject_constant,
    skip_blanks,
)
from evalgate.system.gc import pause_gc

_AFTER_VALUE = frozenset(" \t\r\n,:]}")


class JsonWindow:
    """A sliding window over the text of a JSON file, with a decoder of its values."""

    def __init__(self, file: BinaryIO, step: int) -> None:
        """Open the window at the start of `file`. Each read gets `step` bytes, or more for a large value."""
        self._file = file
        self._size = step
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        """Index in the text of the next character to read."""
        self._began = 0
        """Start of the value that was decoded last."""
        self._bytes = 0
        """Offset of `_known` in the file, in bytes."""
        self._known = 0
        """Index in the text up to which bytes and lines were counted."""
        self._line, self._line_start = 1, 0
        """Line number at `_known`, and the index in the text where this line starts.

        The index is negative if the line starts before the window.
        """
        self._skip_byte_order_mark()

    def _skip_byte_order_mark(self) -> None:
        while not self._text and self._read_more():
            pass
        if self._text.startswith("\ufeff"):
            self._text, self._bytes = self._text[1:], len("\ufeff".encode())

    def _read_more(self) -> bool:
        """Append more text of the file to the window; return False at the end of the file.

        Each read is at least as long as the text in the window, so that a long value needs few reads.
        """
        data = self._file.read(max(self._size, len(self._text)))
        self._text += self._decoder.decode(data, final=not data)
        return bool(data)

    def peek(self) -> str:
        """Skip blanks, and return the next character without skipping it; "" at the end of the file."""
        while True:
            self._at = skip_blanks(self._text, self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more():
                return ""

    def take(self, expected: str) -> None:
        """Skip the bracket, comma or colon `expected`; raise NotStrictJsonError if it is not there."""
        if self.peek() != expected:
            raise NotStrictJsonError
        self._at += 1

    def read_value(self) -> Any:
        """Decode the next value, and move to its end.

        Raises:
            ValueError, NotStrictJsonError: the text is not JSON, or not strict JSON.
        """
        self.peek()
        self._began = self._at
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except ValueError:
                if not self._read_more():
                    raise
                continue
            # A number at the end of the window may be incomplete, as 1 in `1.5`.
            if self._text[end : end + 1] in _AFTER_VALUE or not self._read_more():
                self._at = end
                return value

    @property
    def last_value_text(self) -> str:
        """Return the text of the value that was decoded last; valid until `discard_passed` is called."""
        return self._text[self._began : self._at]

    def get_position(self) -> tuple[int, int, int]:
        """Return the current offset in bytes, and the 1-based line and column."""
        passed = self._text[self._known : self._at]
        self._bytes += len(passed) if passed.isascii() else len(passed.encode())
        if breaks := passed.count("\n"):
            self._line += breaks
            self._line_start = self._text.rfind("\n", self._known, self._at) + 1
        self._known = self._at
        return self._bytes, self._line, self._at - self._line_start + 1

    def discard_passed(self, *, always: bool = False) -> None:
        """Check and discard the text before the current position, if it is long or `always` is True.

        Call this between whole values only.

        Raises:
            NotStrictJsonError: the text nests too deep, or holds half of a surrogate pair.
        """
        if self._at < self._size and not always:
            return
        self.get_position()
        passed, self._text = self._text[: self._at], self._text[self._at :]
        self._line_start -= self._at
        self._at = self._known = 0
        # A value of the document is at most two levels deep in it: in the object, and in a list there.
        if is_deeper(extract_structure(passed.encode()), DEEPEST - 2) or next(
            find_lone_surrogates(passed), None
        ):
            raise NotStrictJsonError


def _require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotStrictJsonError
    return members


_DECODER = json.JSONDecoder(
    object_pairs_hook=_require_unique_keys, parse_constant=reject_constant, parse_float=parse_finite_float
)


_STEP = 2**17
"""Bytes that are read and decoded at once, unless a value is longer."""


class ValueSpan(NamedTuple):
    """The position of a value in its file: offsets in bytes, and line and column for messages."""

    start: int
    """Offset of the first byte in the file; `end` is the offset after the last byte."""
    end: int
    line: int
    """Line on which the value starts, from 1; `column` counts characters, from 1."""
    column: int


class _SourceFile:
    """A file that is read in parts. It stays open while this object exists."""

    def __init__(self, file: BinaryIO, shown_as: str, step: int) -> None:
        """Copy the descriptor of `file`. `step` bytes are decoded at once, or more for a large item."""
        self.shown_as = shown_as
        self.step = step
        self._descriptor = os.dup(file.fileno())
        finalize(self, os.close, self._descriptor)
        self._stamp = self._read_stamp()

    def _read_stamp(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_mtime_ns

    def read_text(self, start: int, end: int) -> str:
        """Read the text between two offsets in bytes.

        Raises:
            InvalidInputError: the file was changed since it was opened.
        """
        data = self.read_bytes(start, end)
        if self._read_stamp() != self._stamp:
            raise self.build_changed_error()
        return data.decode()

    def read_bytes(self, start: int, end: int) -> bytes:
        """Read the current bytes between two offsets in bytes, without checking whether they have changed.

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
        """Return the error for a file that was changed during the run."""
        message = "was changed while evalgate worked with it: leave it as it is until the run is over"
        return InvalidInputError([Problem(self.shown_as, 0, 0, message)])


class LongList(Sequence[Any]):
    """A list in a file: each item is decoded on every access.

    Raises:
        InvalidInputError: on access to an item that has changed in the file.
    """

    def __init__(self, file: _SourceFile) -> None:
        self._file = file
        self._starts, self._sizes = array("Q"), array("I")
        self._lines, self._columns = array("I"), array("Q")
        self._digests = array("Q")

    def start_item(self, start: int, line: int, column: int) -> None:
        """Record the start of the next item in the file: offset in bytes, 1-based line and column."""
        self._starts.append(start)
        self._lines.append(line)
        self._columns.append(column)

    def end_item(self, end: int, text: str) -> None:
        """Record the end of the item that was started last (offset in bytes), and the digest of its text."""
        self._sizes.append(end - self._starts[-1])
        self._digests.append(_hash_item(text.encode()))

    def get_span(self, index: int) -> ValueSpan:
        """Return offsets, line and column of the item at the 0-based `index`."""
        return ValueSpan(
            self._starts[index], self._get_item_end(index), self._lines[index], self._columns[index]
        )

    def _get_item_end(self, index: int) -> int:
        return self._starts[index] + self._sizes[index]

    @property
    def size(self) -> int:
        """Return the number of bytes from the start of the first item to the end of the last; 0 if empty."""
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
        """Return decoded items from the 0-based index `first` on: as many as fit into `step` bytes.

        `step` is the number of bytes of the file that are decoded at once. At least one item is returned,
        even if it is longer.
        """
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
    """Decode a JSON list that was checked before."""
    try:
        values: list[Any] = from_json(data)
    except ValueError:  # nested deeper than `from_json` accepts
        values = json.loads(data)
    return values


def _hash_item(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


@dataclass(slots=True)
class LongDocument:
    """A decoded large file, with its long lists still in the file."""

    path: str
    value: Any
    _file: _SourceFile = field(repr=False)
    _top: ValueSpan = field(repr=False)
    _members: dict[str, ValueSpan] = field(repr=False)
    """Positions of the members of the top-level object."""

    def find_position(self, location: Location) -> tuple[int, int]:
        """Return line and column (1-based) of the value at a location, or of the nearest value around it.

        Raises:
            InvalidInputError: the file was changed since it was opened.
        """
        value, span = self.value, self._top
        for depth, part in enumerate(location, start=1):
            if isinstance(value, LongList):
                found = value.get_span(part) if isinstance(part, int) and 0 <= part < len(value) else None
            else:
                found = self._members.get(part) if isinstance(part, str) else None
            if found is None:
                break
            span = found
            value = value[part] if isinstance(value, dict) else None
            if not isinstance(value, LongList):
                return self._find_inner_position(span, location[depth:])
        return span.line, span.column

    def _find_inner_position(self, span: ValueSpan, location: Location) -> tuple[int, int]:
        if not location:
            return span.line, span.column
        text = self._file.read_text(span.start, span.end)
        line, column = JsonDocument(self.path, None, text, {}).find_position(location)
        return span.line + line - 1, column + (span.column - 1 if line == 1 else 0)


def read_large_json(path: Path, shown_as: str, *, step: int = _STEP) -> JsonDocument | LongDocument:
    """Read a JSON file as `read_json` does, except that long lists stay in the file.

    If the document is a list, this list stays in the file. If it is an object, each member stays in the file
    that is a list of `step` bytes or more. If the first pass rejects the file, `read_json` reads all of it
    into memory.

    Raises:
        InvalidInputError: the file cannot be read, does not fit into memory, or is not strict JSON.
    """
    try:
        with path.open("rb") as file, pause_gc():
            return _scan_document(JsonWindow(file, step), _SourceFile(file, shown_as, step))
    except (NotStrictJsonError, OSError, ValueError, OverflowError, RecursionError, MemoryError):
        pass  # read again below: the memory of the first pass is freed only after this block
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
    """Return the members of the top-level object, and add the position of each value to `spans`.

    Lists of less than `file.step` bytes are decoded; longer lists stay in the file.
    """
    members: dict[str, Any] = {}
    window.take("{")
    while window.peek() != "}" or members:
        key = window.read_value()
        if not isinstance(key, str) or key in members:
            raise NotStrictJsonError
        window.take(":")
        opening = window.peek()
        start, line, column = window.get_position()
        if opening == "[":
            found = _scan_items(window, file)
            members[key] = list(found) if found.size < file.step else found
        else:
            members[key] = window.read_value()
        spans[key] = ValueSpan(start, window.get_position()[0], line, column)
        window.discard_passed()
        if window.peek() != ",":
            break
        window.take(",")
    window.take("}")
    return members


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

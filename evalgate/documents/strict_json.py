"""Decode strict JSON, and report mistakes with line and column, even mistakes that Python's decoder accepts.

The text is decoded by the standard library's fast C decoder with hooks. It is parsed again only if a hook
finds a problem, or if a position is requested.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from json.decoder import JSONDecodeError
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import mutable
from evalgate.core.lazy_pattern import compile_lazily
from evalgate.system.files import decode_text, read_input_file
from evalgate.system.gc import pause_gc

MOST_INSPECTED_CASES = 100
"""Most cases of an eval set that are inspected to detect its format, which is the same for all cases."""


_escape = compile_lazily(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_blanks = re.compile(r"[ \t\n\r]*")


def skip_blanks(text: str, start: int) -> int:
    """Return the offset of the first character at or after `start` that is not JSON whitespace.

    Return the length of the text if only whitespace follows.
    """
    found = _blanks.match(text, start)
    return found.end() if found else start


def find_lone_surrogates(text: str) -> Iterator[re.Match[str]]:
    """Yield a match for each escape in JSON that is half of a surrogate pair and lacks the other half."""
    if "\\" in text and ("\\ud" in text or "\\uD" in text):
        yield from (found for found in _escape.finditer(text) if found[1])


def as_sequence(value: object) -> Sequence[Any] | None:
    """Return `value` if it is a sequence that stands for a JSON list, not a text; else return None."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else None


def get_items(value: object, key: str) -> Sequence[Any]:
    """Return the list at `key` of the object `value`; () if `value` is no object or has no list there."""
    return (as_sequence(value.get(key)) if isinstance(value, dict) else None) or ()


def filter_objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list, without its other items; [] if `value` is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def clear_items(value: object, key: str) -> object:
    """Return a copy of an object, with `key` set to an empty list; `value` itself if it has no list there."""
    if not isinstance(value, dict) or as_sequence(value.get(key)) is None:
        return value
    return {**value, key: []}


class UnexpectedShapeError(Exception):
    """Error of a fast reader for a value that does not have the usual keys and types.

    The value may be valid all the same, so the caller then validates it in full.
    """


def require_members(value: object, known: frozenset[str]) -> dict[str, object]:
    """Return `value` if it is an object that has only keys in `known`; else raise UnexpectedShapeError."""
    if isinstance(value, dict) and value.keys() <= known:
        return value
    raise UnexpectedShapeError


def require_list(value: object) -> list[object]:
    """Return `value` if it is a list; else raise UnexpectedShapeError."""
    if isinstance(value, list):
        return value
    raise UnexpectedShapeError


def require_object(value: object) -> dict[str, object]:
    """Return `value` if it is an object; else raise UnexpectedShapeError."""
    if isinstance(value, dict):
        return value
    raise UnexpectedShapeError


def require_text(value: object) -> str:
    """Return `value` if it is a text; else raise UnexpectedShapeError."""
    if isinstance(value, str):
        return value
    raise UnexpectedShapeError


Location: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the top of a document down to a value."""

_MemberOffsets: TypeAlias = dict[int, dict[str | int, int]]
"""From the offset of an object or list in the text to the offsets of its values, by key or index."""

DEEPEST = 200
"""Most levels of nesting. Functions that walk through deeper data would exceed the recursion limit."""


@mutable
class JsonDocument:
    """A decoded JSON file, with the position of every value."""

    path: str
    """Name of the file in messages."""
    value: object
    _text: str = field(repr=False)
    _offsets: _MemberOffsets = field(repr=False)
    _found: tuple[int, int, int] = field(default=(0, 1, 0), repr=False)
    """(offset, line, offset of the start of the line) of the last lookup. The next lookup counts lines from
    there, because most lookups are in file order."""

    def find_position(self, location: Location) -> tuple[int, int]:
        """Return line and column (1-based, in characters) of the value at `location`.

        If `location` does not exist, return the position of the innermost existing value on the way to it.
        """
        offset = skip_blanks(self._text, 0)
        for part in location:
            if offset not in self._offsets and self._text[offset] in "{[":
                _decode_value(self._text, offset, 1, _LENIENT, self._offsets)
            inner = self._offsets.get(offset, {}).get(part)
            if inner is None:
                break
            offset = inner
        return self._to_line_column(offset)

    def _to_line_column(self, offset: int) -> tuple[int, int]:
        known, line, start = self._found if self._found[0] <= offset else (0, 1, 0)
        breaks = self._text.count("\n", known, offset)
        if breaks:
            line, start = line + breaks, self._text.rfind("\n", known, offset) + 1
        self._found = (offset, line, start)
        return line, offset - start + 1


def read_json(path: Path | str, shown_as: str) -> JsonDocument:
    """Read and decode a file of strict JSON; `shown_as` is the name of the file in messages.

    Raises:
        InvalidInputError: the file cannot be read, does not fit into memory, or is not strict JSON.
    """
    try:
        data = read_input_file(Path(path), shown_as)
    except FileNotFoundError:
        raise InvalidInputError([Problem(shown_as, 0, 0, "no such file")]) from None
    except OSError as error:
        raise InvalidInputError([Problem(shown_as, 0, 0, f"cannot be read: {error.strerror}")]) from None
    except MemoryError:
        raise InvalidInputError([Problem(shown_as, 0, 0, _TOO_BIG)]) from None
    return parse_json(data, shown_as)


def parse_json(data: bytes, shown_as: str) -> JsonDocument:
    """Decode strict JSON in UTF-8, with or without a byte-order mark.

    In addition to syntax errors, these are rejected: NaN and infinities, numbers beyond a double's range,
    whole numbers of more than 4,300 digits, halves of surrogate pairs, a key given twice in one object, and
    nesting deeper than 200 levels. `shown_as` is the name of the file in messages.

    Raises:
        InvalidInputError: the data are rejected. The error holds only the first syntax error, or up to 100 of
            the other problems, each with line and column.
    """
    try:
        text = _decode_text(data, shown_as)
        marks = extract_structure(data)
        del data
        with pause_gc():
            return _parse_text(text, shown_as, marks)
    except MemoryError:
        raise InvalidInputError([Problem(shown_as, 0, 0, _TOO_BIG)]) from None


_TOO_BIG = "does not fit into memory: split it into smaller files"


# --- bytes to text ------------------------------------------------------------------------------------------


def _decode_text(data: bytes, shown_as: str) -> str:
    text = decode_text(data, shown_as)
    if not text or text.isspace():
        raise InvalidInputError([Problem(shown_as, 1, 1, "the file is empty")])
    return text


_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_STRING = re.compile(rb'"[^"]*"')
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NO_MARKS = bytes(sorted(set(range(256)) - set(b'[]{}":')))


def extract_structure(data: bytes) -> bytes:
    """Return the brackets and colons outside of the strings of JSON, with curly brackets made square.

    The brackets show the depth of nesting, and the colons the number of members. For text that is not JSON
    the result has no meaning.
    """
    if b"\\" in data:
        data = _ESCAPE.sub(b"", data)
    # Two quotes in a row can be dropped: text after them stays within a string, or outside of strings.
    return _STRING.sub(b"", data.translate(_ONE_KIND, _NO_MARKS).replace(b'""', b""))


def is_deeper(marks: bytes, levels: int = DEEPEST) -> bool:
    """Return True if the brackets in `marks`, from `extract_structure`, are nested deeper than `levels`.

    The function removes the innermost pairs of brackets `levels` times, and returns True if any are left.
    """
    marks = marks.replace(b":", b"")
    for _ in range(levels):
        outer = marks.replace(b"[]", b"")
        if len(outer) == len(marks):
            return False
        marks = outer
    return bool(marks)


# --- text to values -----------------------------------------------------------------------------------------


class NotStrictJsonError(Exception):
    """Error for a text that is not strict JSON; a slower second pass finds the problem and its position."""


def reject_constant(_: str) -> NoReturn:
    """Raise NotStrictJsonError; a decoder calls this for NaN and infinities, as its `parse_constant`."""
    raise NotStrictJsonError


def parse_finite_float(literal: str) -> float:
    """Parse the text of a number; a decoder calls this as its `parse_float`.

    Raises:
        NotStrictJsonError: the number is beyond the range of a double.
    """
    value = float(literal)
    if not math.isfinite(value):
        raise NotStrictJsonError
    return value


class _StrictDecoder:
    """Decoder that refuses NaN and infinite numbers, and counts the members of all decoded objects.

    The count reveals repeated keys: a key that occurs twice in an object is counted once, although the text
    has two members.
    """

    def __init__(self) -> None:
        self.members = 0
        self.decoder = json.JSONDecoder(
            parse_constant=reject_constant, parse_float=parse_finite_float, object_hook=self._count_members
        )

    def _count_members(self, members: dict[str, object]) -> dict[str, object]:
        self.members += len(members)
        return members


_LENIENT = json.JSONDecoder(parse_constant=str, parse_float=str, parse_int=str)
"""Decoder that reads every number as a text, to find syntax errors and to locate values."""

_LEVELS_NOTED = 2


def _parse_text(text: str, shown_as: str, marks: bytes) -> JsonDocument:
    if is_deeper(marks) or next(find_lone_surrogates(text), None):
        _raise_problems(text, shown_as)
    offsets: _MemberOffsets = {}
    try:
        return JsonDocument(shown_as, _decode_document(text, offsets, marks.count(b":")), text, offsets)
    except (NotStrictJsonError, ValueError, RecursionError):
        pass  # the values that were decoded so far are freed only after this block
    _raise_problems(text, shown_as)
    raise InvalidInputError([Problem(shown_as, 1, 1, "not JSON that can be read")])


def _decode_document(text: str, offsets: _MemberOffsets, members: int) -> object:
    """Decode the whole text, and add the offsets of the outermost values to `offsets`.

    `members` is the number of members of all objects in the text.

    Raises:
        NotStrictJsonError: more text follows the value, or an object has a key twice.
        ValueError: the text is not JSON.
    """
    strict = _StrictDecoder()
    value, end = _decode_value(text, skip_blanks(text, 0), _LEVELS_NOTED, strict.decoder, offsets)
    noted = sum(len(known) for start, known in offsets.items() if text[start] == "{")
    if skip_blanks(text, end) != len(text) or strict.members + noted != members:
        raise NotStrictJsonError
    return value


def _raise_problems(text: str, shown_as: str) -> None:
    """Raise InvalidInputError with the first syntax error, else with all invalid values.

    Return if the text has no problem.
    """
    # Imported here, because most texts have no problem.
    from evalgate.documents.json_errors import explain_decode_error, find_error_position, find_value_problems

    try:
        _LENIENT.decode(text)
    except JSONDecodeError as error:
        problem = Problem(shown_as, *find_error_position(error), explain_decode_error(error))
        raise InvalidInputError([problem]) from None
    except RecursionError:  # nested too deep, which `find_value_problems` reports
        pass
    problems = [
        Problem(shown_as, *position, message) for position, message in find_value_problems(text, DEEPEST)
    ]
    if problems:
        raise InvalidInputError(problems) from None


def _decode_value(
    text: str, start: int, levels: int, decoder: json.JSONDecoder, offsets: _MemberOffsets
) -> tuple[object, int]:
    """Return the value at `start` and the offset of its end, and add the offsets of members to `offsets`.

    Only the outermost `levels` levels are read in Python, which adds their offsets. The C decoder reads all
    deeper values, and the items of lists.

    Raises:
        ValueError, NotStrictJsonError: the text is not JSON, or the decoder rejects it.
    """
    opening = text[start : start + 1]
    if levels and opening == "{":
        return _decode_object(text, start, levels - 1, decoder, offsets)
    if levels and opening == "[":
        return _decode_list(text, start, decoder, offsets)
    return decoder.raw_decode(text, start)


def _decode_object(
    text: str, start: int, levels: int, decoder: json.JSONDecoder, offsets: _MemberOffsets
) -> tuple[dict[str, object], int]:
    members: dict[str, object] = {}
    known: dict[str | int, int] = {}
    at = skip_blanks(text, start + 1)
    while text[at : at + 1] != "}" or members:
        key, at = _decode_key(text, at, decoder)
        if key in known:
            raise NotStrictJsonError
        known[key] = at
        members[key], at = _decode_value(text, at, levels, decoder, offsets)
        comma = _comma.match(text, at)
        if comma is None:
            break
        at = comma.end()
    offsets[start] = known
    return members, _skip_closing(text, at, "}")


def _decode_list(
    text: str, start: int, decoder: json.JSONDecoder, offsets: _MemberOffsets
) -> tuple[list[object], int]:
    items: list[object] = []
    known: dict[str | int, int] = {}
    at = skip_blanks(text, start + 1)
    while text[at : at + 1] != "]" or items:
        known[len(items)] = at
        item, at = decoder.raw_decode(text, at)
        items.append(item)
        comma = _comma.match(text, at)
        if comma is None:
            break
        at = comma.end()
    offsets[start] = known
    return items, _skip_closing(text, at, "]")


_comma = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")


def _skip_closing(text: str, at: int, closing: str) -> int:
    """Skip whitespace at the offset `at` and then the bracket `closing`; return the offset after both.

    Raises:
        NotStrictJsonError: another character is at the place of the bracket.
    """
    at = skip_blanks(text, at)
    if text[at : at + 1] != closing:
        raise NotStrictJsonError
    return at + 1


def _decode_key(text: str, at: int, decoder: json.JSONDecoder) -> tuple[str, int]:
    """Return the key at the offset `at`, and the offset of its value.

    Raises:
        NotStrictJsonError: there is no key in double quotes, or no colon after it.
    """
    key, end = decoder.raw_decode(text, at)
    colon = skip_blanks(text, end)
    if not isinstance(key, str) or text[at] != '"' or text[colon : colon + 1] != ":":
        raise NotStrictJsonError
    return key, skip_blanks(text, colon + 1)

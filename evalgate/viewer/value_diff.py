"""Find the differences between JSON values, path by path, and between texts, word by word."""

import json
import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.datasets.results_encoder import replace_unserializable

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_WORDS = 3_000
_LONGEST_VALUE = 20_000
_MOST_PATHS = 300
_DEEPEST = 30
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)

Segment: TypeAlias = tuple[bool, str]
"""(is marked, text) for a part of a text. A part is marked if the other text does not have it."""

DiffStatus: TypeAlias = Literal["same", "changed", "missing", "extra"]
"""Status of a path or a call: `missing` if the actual side lacks it, `extra` if the expected side does."""


@frozen
class ValueRow:
    """Row of the comparison of two JSON values: the values of both sides at a path."""

    path: str
    """Path within the values, such as `items[0].price`; "" for the whole values."""
    status: DiffStatus
    expected: tuple[Segment, ...]
    """Expected value at the path as text; empty if the expected side does not have the path."""
    actual: tuple[Segment, ...]


class _Absent:
    """Marker for a side that does not have a path. None cannot be the marker, because it is a JSON value."""


_ABSENT = _Absent()


def diff_values(expected: object, actual: object) -> tuple[list[ValueRow], int]:
    """Compare two JSON values path by path. Values are equal as in Python: 1 equals 1.0.

    Returns:
        The rows, at most 300, and the number of further rows, which are left out. Keys are in the order of
        the expected value; keys that only the actual value has follow at the end of their object.
    """
    rows: list[ValueRow] = []
    more = 0
    for path, one, other in _walk(expected, actual, "", 0):
        if len(rows) < _MOST_PATHS:
            rows.append(_build_row(path, one, other))
        else:
            more += 1
    return rows, more


def list_values(value: object, status: DiffStatus) -> tuple[list[ValueRow], int]:
    """Return the rows of a value that only one side has, and the number of further rows, which are left out.

    If `status` is `missing`, only the expected side has the value. Otherwise only the actual side has it.
    """
    return diff_values(value, _ABSENT) if status == "missing" else diff_values(_ABSENT, value)


def diff_texts(expected: str, actual: str) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Split both texts into segments, and mark the words that only one of the texts has.

    If the texts differ and one of them has more than 3,000 words, each text is a single marked segment.
    """
    if expected == actual:
        return ((False, expected),), ((False, actual),)
    left, right = _WORD.findall(expected), _WORD.findall(actual)
    if max(len(left), len(right)) > _MOST_WORDS:
        return ((True, expected),), ((True, actual),)
    before: list[Segment] = []
    after: list[Segment] = []
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        is_changed = tag != "equal"
        if j > i:
            before.append((is_changed, "".join(left[i:j])))
        if m > k:
            after.append((is_changed, "".join(right[k:m])))
    return tuple(before), tuple(after)


def _walk(one: object, other: object, path: str, depth: int) -> Iterator[tuple[str, object, object]]:
    """Yield (path, value in `one`, value in `other`) of each leaf. A side without the path has `_ABSENT`.

    Leaves are values without inner values, and all values at a depth of 30 levels. If the sides have values
    of different kinds at a path, such as an object and a list, this path is a leaf, too.
    """
    sides = [value for value in (one, other) if value is not _ABSENT]
    if depth < _DEEPEST and sides and all(isinstance(value, Mapping) and value for value in sides):
        keys = dict.fromkeys(key for value in sides if isinstance(value, Mapping) for key in value)
        for key in keys:
            name = str(key)
            step = f".{name}" if _PLAIN_KEY.fullmatch(name) else f"[{json.dumps(name, ensure_ascii=False)}]"
            yield from _walk(_get(one, key), _get(other, key), f"{path}{step}".removeprefix("."), depth + 1)
    elif depth < _DEEPEST and sides and all(isinstance(value, list | tuple) and value for value in sides):
        for at in range(max(len(value) for value in sides if isinstance(value, list | tuple))):
            yield from _walk(_get(one, at), _get(other, at), f"{path}[{at}]", depth + 1)
    else:
        yield path, one, other


def _get(value: object, key: object) -> object:
    if isinstance(value, Mapping):
        return value.get(key, _ABSENT)
    if isinstance(value, list | tuple) and isinstance(key, int) and key < len(value):
        return value[key]
    return _ABSENT


def _build_row(path: str, one: object, other: object) -> ValueRow:
    if one is _ABSENT:
        return ValueRow(path, "extra", (), ((True, _format(other)),))
    if other is _ABSENT:
        return ValueRow(path, "missing", ((True, _format(one)),), ())
    before, after = _format(one), _format(other)
    if _is_equal(one, other):
        return ValueRow(path, "same", ((False, before),), ((False, after),))
    if isinstance(one, str) and isinstance(other, str):
        return ValueRow(path, "changed", *diff_texts(before, after))
    return ValueRow(path, "changed", ((True, before),), ((True, after),))


def _is_equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except RecursionError:
        return False


def _format(value: object) -> str:
    """Return a value as JSON on one line. After 20,000 characters, a note replaces the rest of the text."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(replace_unserializable(value), ensure_ascii=False)
    if len(text) <= _LONGEST_VALUE:
        return text
    return f"{text[:_LONGEST_VALUE]}… {len(text) - _LONGEST_VALUE:,} more characters"

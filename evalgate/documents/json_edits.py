"""Change values in the text of a JSON file, and keep all other text of the file.

The caller decodes the text and builds the new value of the file. Unchanged parts of the new value should be
the decoded objects and lists themselves, not copies: a list item that moved is recognised by its identity in
Python, and keeps its text.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

from evalgate.core.frozen import frozen
from evalgate.documents.strict_json import skip_blanks

_Item = TypeVar("_Item")


def update_json(text: str, old: object, new: object) -> str:
    """Return `text`, which decodes to `old`, changed so that it decodes to `new`.

    Values that stay equal keep their text: indentation, spelling of numbers, escapes, order of keys. New
    parts are indented like their surroundings. `text` must have no byte order mark.
    """
    start = skip_blanks(text, 0)
    _, end = _DECODER.raw_decode(text, start)
    editor = _Editor(text, _detect_style(text, start))
    return text[:start] + editor.update(start, end, old, new, is_inline=not editor.style.unit) + text[end:]


def align_items(
    old: Sequence[_Item], new: Sequence[_Item], *is_same: Callable[[_Item, _Item], bool]
) -> list[int | None]:
    """Return for each new item the index of the matching old item, or None for an added item.

    Items are matched in this order, and each old item matches at most one new item:

    1. Objects and lists that are the same Python object. If `old` and `new` hold only texts, numbers,
       booleans and null, a diff matches equal items instead.
    2. An old and a new item for which the first function of `is_same` returns True, then the second, and so
       on.
    3. Remaining items that lie between the same two matched neighbours, in order.
    """
    found = _match_identical(old, new)
    used = set(found)
    free = [index for index in range(len(old)) if index not in used]
    for predicate in is_same:
        for at, item in enumerate(new):
            if found[at] is None and free:
                same = next((index for index in free if predicate(old[index], item)), None)
                if same is not None:
                    found[at] = same
                    free.remove(same)
    _match_between_neighbours(found, free)
    return found


def _match_identical(old: Sequence[_Item], new: Sequence[_Item]) -> list[int | None]:
    places: dict[int, list[int]] = {}
    for index, item in enumerate(old):
        if not isinstance(item, str | int | float | None):  # equal texts and numbers may be one object
            places.setdefault(id(item), []).append(index)
    found: list[int | None] = []
    for item in new:
        known = places.get(id(item))
        found.append(known.pop(0) if known else None)
    if all(isinstance(item, str | int | float | None) for item in (*old, *new)):
        texts = [[json.dumps(item) for item in items] for items in (old, new)]
        for block in SequenceMatcher(None, texts[0], texts[1], autojunk=False).get_matching_blocks():
            for offset in range(block.size):
                found[block.b + offset] = block.a + offset
    return found


def _match_between_neighbours(found: list[int | None], free: list[int]) -> None:
    before = -1
    for at, index in enumerate(found):
        if index is not None:
            before = index
            continue
        after = next((later for later in found[at:] if later is not None and later > before), None)
        for candidate in free:
            if before < candidate and (after is None or candidate < after):
                found[at] = before = candidate
                free.remove(candidate)
                break


def is_same_json(one: object, other: object) -> bool:
    """Return True if two decoded JSON values are equal, with numbers of the same type: 1 is not 1.0."""
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same_json(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same_json, one, other))
    return type(one) is type(other) and one == other


@frozen
class _Style:
    newline: str
    unit: str
    """One level of indentation; "" if the document's opening bracket and first member are on one line."""
    colon: str
    """Separator of a key and its value."""
    comma: str
    """Separator of items on one line."""
    is_ascii: bool
    """True: characters beyond ASCII are written as escapes."""


@frozen
class _Member:
    """A value in an object or list, with the offsets of its text."""

    key: str | int
    """Key in an object, index in a list."""
    start: int
    """Start of the key in an object, or of the value in a list."""
    value_start: int
    end: int
    """End of the value, exclusive."""


_DECODER = json.JSONDecoder(parse_constant=str, parse_float=str, parse_int=str)


def _scan_members(text: str, start: int) -> list[_Member]:
    is_object, found = text[start] == "{", list[_Member]()
    at = skip_blanks(text, start + 1)
    while text[at] not in "}]":
        key: str | int = len(found)
        value_start = at
        if is_object:
            key, colon = _DECODER.raw_decode(text, at)
            value_start = skip_blanks(text, skip_blanks(text, colon) + 1)
        _, end = _DECODER.raw_decode(text, value_start)
        found.append(_Member(key, at, value_start, end))
        at = skip_blanks(text, end)
        if text[at] == ",":
            at = skip_blanks(text, at + 1)
    return found


def _detect_style(text: str, start: int) -> _Style:
    newline = "\r\n" if "\r\n" in text else "\n"
    is_ascii = text.isascii() and "\\u" in text
    if text[start] not in "{[" or not (members := _scan_members(text, start)):
        return _Style(newline, "  ", ": ", ", ", is_ascii)
    first = members[0]
    lead = text[start + 1 : first.start]
    unit = (lead.rpartition("\n")[2] or "  ") if "\n" in lead else ""
    blank = "" if text[start] == "{" and text[first.value_start - 1] == ":" else " "
    return _Style(newline, unit, ":" + blank, "," + blank, is_ascii)


class _Editor:
    def __init__(self, text: str, style: _Style) -> None:
        self.style = style
        self._text = text

    def update(self, start: int, end: int, old: object, new: object, *, is_inline: bool) -> str:
        """Return the text from `start` to `end`, which decodes to `old`, changed so that it decodes to `new`.

        Parts that stay equal keep their text. With `is_inline`, new values are written on one line.
        """
        text = self._text
        if is_same_json(old, new):
            return text[start:end]
        if isinstance(old, dict) and isinstance(new, Mapping):
            indexes = {key: index for index, key in enumerate(old)}
            return self._update_members(
                (start, end), list(old.items()), list(new.items()), list(map(indexes.get, new)), is_inline
            )
        if isinstance(old, list) and isinstance(new, list | tuple):
            found = align_items(old, new, is_same_json)
            return self._update_members(
                (start, end), list(enumerate(old)), list(enumerate(new)), found, is_inline
            )
        return self._render(new, None if is_inline else self._get_line_indent(start), start)

    def _update_members(
        self,
        span: tuple[int, int],
        old: Sequence[tuple[str | int, object]],
        new: Sequence[tuple[str | int, object]],
        sources: Sequence[int | None],
        is_inline: bool,
    ) -> str:
        text, (start, end) = self._text, span
        members = _scan_members(text, start)
        opening, closing = text[start], text[end - 1]
        if not new:
            return opening + closing
        lead, separator, tail = self._find_separators(start, end, members, is_inline=is_inline)
        is_inline = "\n" not in lead
        indent = None if is_inline else lead.rpartition("\n")[2]
        pieces, previous = [opening, lead], None
        for (key, value), source in zip(new, sources, strict=True):
            if previous is not None:
                is_next = source is not None and source == previous + 1
                pieces.append(
                    text[members[previous].end : members[source].start]
                    if is_next and source is not None
                    else separator
                )
            elif len(pieces) > 2:
                pieces.append(separator)
            if source is None:
                label = "" if isinstance(key, int) else self._dump(key) + self.style.colon
                like = members[-1].value_start if members and isinstance(key, int) else None
                pieces.append(label + self._render(value, indent, like))
            else:
                member = members[source]
                pieces.append(text[member.start : member.value_start])
                before = old[source][1]
                pieces.append(self.update(member.value_start, member.end, before, value, is_inline=is_inline))
            previous = source
        return "".join([*pieces, tail, closing])

    def _find_separators(
        self, start: int, end: int, members: Sequence[_Member], *, is_inline: bool
    ) -> tuple[str, str, str]:
        """Return the blanks before the first member, the separator, and the blanks after the last member.

        The members are the items of a list, or the keys and values of an object, from `start` to `end`. If
        there are none, `is_inline` tells if new members are written on one line.
        """
        text = self._text
        if members:
            lead, tail = text[start + 1 : members[0].start], text[members[-1].end : end - 1]
            if len(members) > 1:
                return lead, text[members[0].end : members[1].start], tail
            return lead, "," + lead if "\n" in lead else self.style.comma, tail
        if is_inline:
            return "", self.style.comma, ""
        outer = self.style.newline + (self._get_line_indent(start) or "")
        lead = outer + self.style.unit
        return lead, "," + lead, outer

    def _get_line_indent(self, offset: int) -> str:
        line = self._text[self._text.rfind("\n", 0, offset) + 1 : offset]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _render(self, value: object, indent: str | None, like: int | None = None) -> str:
        """Return the text of a new value that begins on a line with the indentation `indent`.

        If `indent` is None, the text is on one line. `like` is the offset of a similar value in the old text.
        The new value copies its layout: parts that are on one line there are written on one line.
        """
        if indent is None or not value or not isinstance(value, Mapping | list | tuple):
            return self._dump(value)
        is_object = isinstance(value, Mapping)
        items = list(value.items()) if isinstance(value, Mapping) else list(enumerate(value))
        known: dict[str | int, _Member] = {}
        if like is not None and self._text[like] in "{[":
            members = _scan_members(self._text, like)
            if members and "\n" not in self._text[like : members[0].start]:
                return self._dump(value)
            known = {member.key: member for member in members}
        inner = indent + self.style.unit
        parts = []
        for key, item in items:
            similar = known.get(key) or (None if is_object else known.get(0))
            label = self._dump(key) + self.style.colon if is_object else ""
            parts.append(label + self._render(item, inner, similar.value_start if similar else None))
        joined = ("," + self.style.newline + inner).join(parts)
        opening, closing = "{}" if is_object else "[]"
        return f"{opening}{self.style.newline}{inner}{joined}{self.style.newline}{indent}{closing}"

    def _dump(self, value: object) -> str:
        style = self.style
        return json.dumps(
            value,
            ensure_ascii=style.is_ascii,
            separators=(style.comma, style.colon),
            allow_nan=False,
            default=_to_plain,
        )


def _to_plain(value: object) -> object:
    """Convert a mapping of another type to a dict, for `json.dumps`.

    Raises:
        TypeError: the value is not a mapping.
    """
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")

"""Read and write JSON as Go and tRPC-Agent-Go do; trim and lower texts as Go does.

Sources: Go's packages `encoding/json` and `strings` (August 2026).
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NoReturn

from evalgate.core.sanitize import replace_lone_surrogates

_LONGEST = 200
_SPACE = "".join(
    letter for letter in map(chr, range(0x3001)) if letter.isspace() and not "\x1c" <= letter <= "\x1f"
)
_FOLDED = str.maketrans("\u017f\u212a", "sk")  # the long s and the sign of kelvin are s and k in another case


def trim_go_space(text: str) -> str:
    """Strip white space as Go's `strings.TrimSpace` does: unlike Python, not U+001C to U+001F."""
    return text.strip(_SPACE)


def fold_key(key: str) -> str:
    """Return `key` in lower case, as Go's `encoding/json` folds it: also U+017F to s, and U+212A to k."""
    return key.translate(_FOLDED).lower()


def lower_text(text: str) -> str:
    """Return `text` in lower case, each character on its own, as Go's `strings.ToLower` does.

    Unlike in Python, `İ` becomes `i` alone, and a sigma at the end of a word does not become a final sigma.
    """
    # `strings.ToLower` maps each rune alone; `str.lower` also looks at the letters around a sigma.
    return text.lower() if text.isascii() else "".join([character.lower()[0] for character in text])


# Go escapes the two line separators in any case, since older JavaScript ends a line at them.
_ALWAYS_ESCAPED = {0x2028: "\\u2028", 0x2029: "\\u2029"}
_HTML = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[^"]')
_OPENING, _CLOSING = frozenset("{["), frozenset("}]")
# `encoding/json` writes numbers as ES6 does: an exponent below 1e-6 and from 1e21 on, without leading
# zeros.
_SMALLEST_PLAIN, _LARGEST_PLAIN = 1e-6, 1e21


class RawJson(str):
    """JSON text that is inserted as it is: a number in its original spelling, or a whole object."""

    __slots__ = ()


def dump_compact_json(value: object, *, for_html: bool = False) -> str:
    """Return JSON on one line without blanks, with sorted keys, as Go writes a map.

    Args:
        value: a JSON value. Integers become doubles, as Go reads them. A `RawJson` keeps its spelling.
        for_html: escape `<`, `>` and `&`, as Go does by default.

    Raises:
        RecursionError: the value nests too deep.
    """
    escaped = {**_ALWAYS_ESCAPED, **(_HTML if for_html else {})}
    return "".join(_iter_pieces(value, escaped))


def dump_indented_json(value: object) -> str:
    """Return JSON over several lines, indented by two blanks a level and escaped for HTML.

    Raises:
        RecursionError: the value nests too deep.
    """
    lines: list[str] = [""]
    # Not `json.dumps` with an indentation: it writes numbers in Python's way, and keys in their own order.
    depth, opened = 0, ""
    for piece in _PIECE.findall(dump_compact_json(value, for_html=True)):
        if piece in _CLOSING:
            depth -= 1
            if not opened:
                lines.append("  " * depth)
        elif opened:
            lines.append("  " * depth)
        opened = piece if piece in _OPENING else ""
        depth += bool(opened)
        lines[-1] += ": " if piece == ":" else piece
        if piece == ",":
            lines.append("  " * depth)
    return "\n".join(lines)


def dump_go_struct(members: Iterable[tuple[str, object]], *, for_html: bool = False) -> RawJson:
    """Return a JSON object on one line, with its keys in the given order, as Go writes a struct.

    With `for_html`, `<`, `>` and `&` are escaped.

    Raises:
        RecursionError: a value nests too deep.
    """
    found = (f'"{name}":{dump_compact_json(value, for_html=for_html)}' for name, value in members)
    return RawJson(f"{{{','.join(found)}}}")


def _iter_pieces(value: object, escaped: Mapping[int, str]) -> Iterator[str]:
    match value:
        case RawJson():
            yield str(value)
        case str():
            yield json.dumps(replace_lone_surrogates(value), ensure_ascii=False).translate(escaped)
        case bool() | None:
            yield {True: "true", False: "false", None: "null"}[value]
        case int() | float():
            yield format_go_number(value)
        case Mapping():
            yield from _iter_members(value, escaped)
        case Sequence():
            yield "["
            for at, each in enumerate(value):
                yield "," if at else ""
                yield from _iter_pieces(each, escaped)
            yield "]"
        case _:
            raise TypeError(type(value).__name__)


def _iter_members(value: Mapping[object, object], escaped: Mapping[int, str]) -> Iterator[str]:
    yield "{"
    # Go compares bytes, which for UTF-8 is the order of code points.
    for at, key in enumerate(sorted(map(str, value))):
        yield "," if at else ""
        yield from _iter_pieces(key, escaped)
        yield ":"
        yield from _iter_pieces(value[key], escaped)
    yield "}"


def format_go_number(value: float) -> str:
    """Return `value` as Go writes a number: the fewest digits that identify the double.

    There is an exponent only below 1e-6 and from 1e21 on. NaN and the infinities become `null`. An integer
    beyond the range of a double keeps all its digits.
    """
    try:
        value = float(value)
    except OverflowError:  # an integer that Go would not have read
        return str(value)
    if not math.isfinite(value):
        return "null"
    if value and not _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN:
        digits, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
        return f"{digits}e{exponent[:1]}{exponent[1:].lstrip('0')}"
    plain = f"{Decimal(repr(value)):f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


# --- reading ------------------------------------------------------------------------------------------------


def truncate_text(text: str) -> str:
    """Return `text`, shortened to 200 characters to fit a message."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def parse_json_text(text: str, *, exact: bool = False) -> tuple[object, str]:
    """Return (value, "") for a JSON text, and (None, description of the fault) for any other text.

    Numbers become doubles. A number out of their range is a fault. With `exact`, whole numbers become ints.
    """
    try:
        value = json.loads(
            text,
            parse_float=_parse_double,
            parse_int=int if exact else _parse_double,
            parse_constant=reject_constant,
        )
    except RecursionError:
        return None, "the value nests too deep"
    except ValueError as error:
        return None, str(error)
    return value, ""


def _parse_double(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise ValueError(f"the number {truncate_text(literal)} is beyond a double")
    return value


def reject_constant(literal: str) -> NoReturn:
    """Raise ValueError for NaN and Infinity, which Python's json accepts and Go's does not."""
    raise ValueError(f"{literal} is no JSON")

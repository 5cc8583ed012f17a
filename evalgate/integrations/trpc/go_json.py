"""JSON as Go and tRPC-Agent-Go read, compare and write it, and how Go trims and lowers texts.

Sources: Go's packages `encoding/json` and `strings`, and tRPC-Agent-Go's JSON criterion (August 2026).
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias

from evalgate.core.extras import describe_install
from evalgate.llm.client import replace_surrogates

_LONGEST = 200
_SPACE = "".join(
    letter for letter in map(chr, range(0x3001)) if letter.isspace() and not "\x1c" <= letter <= "\x1f"
)
_FOLDED = str.maketrans("\u017f\u212a", "sk")  # the long s and the sign of kelvin are s and k in another case


def trim_go_space(text: str) -> str:
    """Strip as `strings.TrimSpace` does; Python would strip the separators U+001C to U+001F too."""
    return text.strip(_SPACE)


def fold_key(key: str) -> str:
    """Fold a key's case as `encoding/json` does when it compares it with ASCII names."""
    return key.translate(_FOLDED).lower()


def lower_text(text: str) -> str:
    """Return `text` in lower case, character by character: `İ` becomes `i`, and no sigma is final."""
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
    """Return JSON on one line without blanks, with keys in the order of a Go map.

    Args:
        value: a JSON value. Integers become doubles, as Go reads them, unless they are `RawJson`.
        for_html: escape `<`, `>` and `&`, as Go does by default.

    Raises:
        RecursionError: the value nests too deep.
    """
    escaped = {**_ALWAYS_ESCAPED, **(_HTML if for_html else {})}
    return "".join(_iter_pieces(value, escaped))


def dump_indented_json(value: object) -> str:
    """Return JSON over several lines, indented by two blanks a level and escaped for HTML."""
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
    """Return an object with its keys in the given order, as those of a Go struct are.

    See `dump_compact_json` for the values.
    """
    found = (f'"{name}":{dump_compact_json(value, for_html=for_html)}' for name, value in members)
    return RawJson(f"{{{','.join(found)}}}")


def _iter_pieces(value: object, escaped: Mapping[int, str]) -> Iterator[str]:
    match value:
        case RawJson():
            yield str(value)
        case str():
            yield json.dumps(replace_surrogates(value), ensure_ascii=False).translate(escaped)
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
    """Return the shortest digits for `value`, with an exponent only below 1e-6 and from 1e21 on."""
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
    """Return `text`, shortened to fit a message."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def parse_json_text(text: str, *, exact: bool = False) -> tuple[object, str]:
    """Return the JSON value of a text and "", or None and a description of the fault.

    Numbers become doubles, beyond which they are a fault. With `exact`, whole numbers become ints.
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


# --- comparing ----------------------------------------------------------------------------------------------

# Each comparison returns "" if the values match, else where and how they differ.

KeyTree: TypeAlias = Mapping[str, object]

DEFAULT_TOLERANCE = 1e-6
_LONGEST_VALUE = 120


def find_difference(actual: object, expected: object, tolerance: float = DEFAULT_TOLERANCE) -> str:
    """Describe the first difference between two JSON values; return "" if they match.

    Lists are compared in order, and numbers as doubles within `tolerance`. A number equals neither a boolean
    nor a text.
    """
    if isinstance(actual, Mapping) or isinstance(expected, Mapping):
        return _compare_objects(actual, expected, None, tolerance)
    if actual is None or expected is None:
        return "" if actual is expected else _describe_inequality(actual, expected)
    if isinstance(actual, list) or isinstance(expected, list):
        return _compare_lists(actual, expected, tolerance)
    # Go decodes every number into a float64: 1 equals 1.0, and integers beyond 2**53 lose digits there too.
    if is_number(actual) and is_number(expected):
        is_equal = abs(as_double(actual) - as_double(expected)) <= tolerance
    else:
        is_equal = type(actual) is type(expected) and actual == expected
    return "" if is_equal else _describe_inequality(actual, expected)


def find_unignored_difference(
    actual: object, expected: object, tree: KeyTree, tolerance: float = DEFAULT_TOLERANCE
) -> str:
    """Compare as `find_difference`, but skip keys that are true in `tree`.

    The tree applies to objects within objects, not within lists.
    """
    if isinstance(actual, Mapping) or isinstance(expected, Mapping):
        return _compare_objects(actual, expected, tree, tolerance)
    return find_difference(actual, expected, tolerance)


def find_selected_difference(
    actual: object, expected: object, tree: KeyTree, tolerance: float = DEFAULT_TOLERANCE
) -> str:
    """Describe the first difference in the keys that `tree` selects; return "" if there is none.

    True selects all below, an object selects keys of the object below, and false selects nothing. A selected
    key must exist on both sides. Values other than objects are compared whole.
    """
    if not (isinstance(actual, Mapping) and isinstance(expected, Mapping)):
        return find_difference(actual, expected, tolerance)
    for key, selector in tree.items():
        if selector is False:
            continue
        if selector is not True and not isinstance(selector, Mapping):
            return f"onlyTree[{key}] must be a bool or an object"
        for side, value in (("actual", actual), ("expected", expected)):
            if key not in value:
                return f"key {key} in onlyTree but not in {side}"
        if isinstance(selector, Mapping):
            found = find_selected_difference(actual[key], expected[key], selector, tolerance)
        else:
            found = find_difference(actual[key], expected[key], tolerance)
        if found:
            return f"compare {key}: {found}"
    return ""


def format_json_value(value: object) -> str:
    """Return a value on one line, cut to a length that fits a message."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        text = "a value that nests too deep"
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def _compare_objects(actual: object, expected: object, tree: KeyTree | None, tolerance: float) -> str:
    if not (isinstance(actual, Mapping) and isinstance(expected, Mapping)):
        return _describe_type_mismatch(actual, expected)
    # A key with an object in the tree only leads further down: it must still be on both sides.
    ignored = {key for key, value in tree.items() if value is True} if tree else set()
    for key in actual:
        if key not in expected and key not in ignored:
            return f"key {key} in actual but not in expected"
    for key in expected:
        if key not in actual and key not in ignored:
            return f"key {key} in expected but not in actual"
    for key, value in actual.items():
        if key not in ignored and (found := _compare_member(value, expected[key], key, tree, tolerance)):
            return f"compare {key}: {found}"
    return ""


def _describe_type_mismatch(actual: object, expected: object) -> str:
    if actual is None or expected is None:
        return _describe_inequality(actual, expected)
    if isinstance(actual, Mapping):
        return (
            f"actual {format_json_value(actual)} is a map but expected {format_json_value(expected)} "
            f"is not a map"
        )
    return (
        f"actual {format_json_value(actual)} is not a map but expected {format_json_value(expected)} is a map"
    )


def _compare_member(
    actual: object, expected: object, key: str, tree: KeyTree | None, tolerance: float
) -> str:
    inner = tree.get(key) if tree else None
    if isinstance(inner, Mapping):
        return find_unignored_difference(actual, expected, inner, tolerance)
    return find_difference(actual, expected, tolerance)


def _compare_lists(actual: object, expected: object, tolerance: float) -> str:
    if not isinstance(expected, list):
        return (
            f"actual {format_json_value(actual)} is an array but expected "
            f"{format_json_value(expected)} is not an array"
        )
    if not isinstance(actual, list):
        return (
            f"actual {format_json_value(actual)} is not an array but expected "
            f"{format_json_value(expected)} is an array"
        )
    if len(actual) != len(expected):
        return f"array length mismatch: actual({len(actual)}) != expected({len(expected)})"
    for index, (given, wanted) in enumerate(zip(actual, expected, strict=True)):
        if found := find_difference(given, wanted, tolerance):
            return f"compare index {index}: {found}"
    return ""


def is_number(value: object) -> bool:
    """Return True for a JSON number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def as_double(value: object) -> float:
    """Return a number as a double, as Go decodes it.

    The result is NaN, which equals nothing, for a value that no double holds.
    """
    try:
        return float(value) if isinstance(value, (int, float)) else float("nan")
    except OverflowError:
        return float("nan")


def _describe_inequality(actual: object, expected: object) -> str:
    return f"actual {format_json_value(actual)} and expected {format_json_value(expected)} do not match"


_LONGEST_MESSAGE = 300


class SchemaValidatorMissingError(RuntimeError):
    """The package that checks schemas is not installed; the text says what to do."""


def check_schema_validator() -> None:
    """Raise SchemaValidatorMissingError unless schemas can be checked."""
    try:
        import jsonschema  # noqa: F401  only whether it is there
    except ImportError:
        raise SchemaValidatorMissingError(
            f"a criterion with a JSON Schema needs `jsonschema`: {describe_install('trpc')}"
        ) from None


def find_schema_problem(value: object, schema: object) -> str:
    """Return the schema's complaint about the value, or "" if it is valid.

    A broken schema is a problem too.

    Raises:
        SchemaValidatorMissingError: `jsonschema` is not installed.
    """
    check_schema_validator()
    from jsonschema import Draft202012Validator, SchemaError, ValidationError, validators
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    if not isinstance(schema, (bool, Mapping)):
        return "compile json schema: a schema is an object, true or false"
    kind: Any = validators.validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
        # With an empty registry: a reference to another document must not be fetched from the network.
        kind(schema, registry=Registry()).validate(value)
    except SchemaError as error:
        return f"compile json schema: {error.message[:_LONGEST_MESSAGE]}"
    except ValidationError as error:
        place = "/".join(str(part) for part in error.absolute_path)
        return f"json schema validation failed: at `/{place}`: {error.message[:_LONGEST_MESSAGE]}"
    except Unresolvable as error:
        return f"compile json schema: {str(error)[:_LONGEST_MESSAGE]} is not in the schema itself"
    except RecursionError:
        return "json schema validation failed: the value or the schema nests too deep"
    return ""

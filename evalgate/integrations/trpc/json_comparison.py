"""Compare JSON values as tRPC-Agent-Go's JSON criterion does (August 2026), and check JSON Schemas."""

import json
from collections.abc import Mapping
from typing import TypeAlias

from evalgate.core.installation import describe_install
from evalgate.documents.json_schemas import SchemaValidatorMissingError, find_validator_type

# Each comparison returns "" if the values match, else where and how they differ.

KeyTree: TypeAlias = Mapping[str, object]
"""Maps each key to True, to False, or to the tree of the keys within its value."""

_LONGEST_VALUE = 120


def find_difference(actual: object, expected: object, tolerance: float) -> str:
    """Describe the first difference between two JSON values; return "" if they match.

    Lists are compared in order, and numbers as doubles within `tolerance`. A number equals neither a boolean
    nor a text.

    Raises:
        RecursionError: the values nest too deep.
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


def find_unignored_difference(actual: object, expected: object, tree: KeyTree, tolerance: float) -> str:
    """Describe the first difference between two values, apart from the keys that `tree` ignores.

    Return "" if the values match. A key with True in `tree` is ignored. An object in `tree` says which keys
    within the key's value are ignored, by the same rules. Objects within lists are compared whole.

    Raises:
        RecursionError: the values nest too deep.
    """
    if isinstance(actual, Mapping) or isinstance(expected, Mapping):
        return _compare_objects(actual, expected, tree, tolerance)
    return find_difference(actual, expected, tolerance)


def find_selected_difference(actual: object, expected: object, tree: KeyTree, tolerance: float) -> str:
    """Describe the first difference in the keys that `tree` selects; return "" if there is none.

    True at a key selects the whole value, False nothing. An object selects keys of the value, by the same
    rules. A selected key must exist on both sides. Values other than objects are compared whole.

    Raises:
        RecursionError: the values nest too deep.
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
    """Return True for a JSON number; a boolean is not a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def as_double(value: object) -> float:
    """Return a number as a double, as Go decodes it.

    Return NaN, which equals nothing, for a number out of the range of doubles, or a value that is no number.
    """
    try:
        return float(value) if isinstance(value, (int, float)) else float("nan")
    except OverflowError:
        return float("nan")


def _describe_inequality(actual: object, expected: object) -> str:
    return f"actual {format_json_value(actual)} and expected {format_json_value(expected)} do not match"


_LONGEST_MESSAGE = 300


def check_schema_validator() -> None:
    """Raise SchemaValidatorMissingError if `jsonschema`, which checks schemas, is not installed."""
    try:
        import jsonschema  # noqa: F401  only whether it is there
    except ImportError:
        raise SchemaValidatorMissingError(
            f"a criterion with a JSON Schema needs `jsonschema`: {describe_install('trpc')}"
        ) from None


def find_schema_problem(value: object, schema: object) -> str:
    """Return the reason why `schema` refuses the value; "" if the value is valid.

    A broken schema is a reason, too.

    Raises:
        SchemaValidatorMissingError: `jsonschema` is not installed.
    """
    check_schema_validator()
    from jsonschema import SchemaError, ValidationError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    if not isinstance(schema, (bool, Mapping)):
        return "compile json schema: a schema is an object, true or false"
    kind = find_validator_type(schema)
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

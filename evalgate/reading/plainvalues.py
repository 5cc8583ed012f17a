"""Taking JSON values for what they nearly always are, or giving up: for the short ways through a file."""

from collections.abc import Sequence
from typing import Any

LOOKED_AT = 100
"""Items that tell what a list holds: a file is of one format, however many there are."""


def items_of(value: object) -> Sequence[Any] | None:
    """A list, in memory or in a large file; None when it is none."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else None


def items_under(value: object, key: str) -> Sequence[Any]:
    """The items of the list under a key of an object; none where there is no such list."""
    return (items_of(value.get(key)) if isinstance(value, dict) else None) or ()


def without_items(value: object, key: str) -> object:
    """An object with an empty list for the one that stands under a key."""
    if not isinstance(value, dict) or items_of(value.get(key)) is None:
        return value
    return {**value, key: []}


class Unusual(Exception):
    """The value is something else, right or wrong: whoever reads carefully can tell."""


def members(value: object, known: frozenset[str]) -> dict[str, object]:
    """An object without other keys than those. Raises Unusual."""
    if isinstance(value, dict) and value.keys() <= known:
        return value
    raise Unusual


def items(value: object) -> list[object]:
    """A list. Raises Unusual."""
    if isinstance(value, list):
        return value
    raise Unusual


def text(value: object) -> str:
    """A text. Raises Unusual."""
    if isinstance(value, str):
        return value
    raise Unusual

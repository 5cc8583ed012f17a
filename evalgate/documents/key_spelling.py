"""Keys that a file may spell in several ways: in snake_case or camelCase, or in any case at all."""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from pydantic.alias_generators import to_camel

from evalgate.documents.strict_json import Location, as_sequence

KeyFinder: TypeAlias = Callable[[object, str], str]
"""Returns the spelling that an object has of a key, or the key itself if it has none."""

# The same few keys are looked up in every case, and `to_camel` matches regular expressions.
_to_camel = cache(to_camel)


def find_snake_or_camel_key(value: object, name: str) -> str:
    """Return `evalId` for `eval_id` if the object has that key, else `name`, which is in snake_case."""
    camel = _to_camel(name)
    return camel if isinstance(value, dict) and camel in value else name


def normalize_key(key: str) -> str:
    """Return `evalid` for `evalId`, `EvalID` and `eval_id`."""
    return key.replace("_", "").lower()


def find_key_in_any_case(value: object, name: str) -> str:
    """Return the first key of the object that differs from `name` in case and underscores at most.

    This is how Go's `encoding/json` finds a key, except for the underscores.
    """
    if not isinstance(value, dict) or name in value:
        return name
    return next((key for key in value if normalize_key(key) == normalize_key(name)), name)


def get_member(value: object, name: str, find_key: KeyFinder = find_key_in_any_case) -> object:
    """Return the member of an object under any spelling of `name`, or None."""
    return value.get(find_key(value, name)) if isinstance(value, dict) else None


def match_spelling(value: object, location: Location, find_key: KeyFinder = find_key_in_any_case) -> Location:
    """Return `location`, a path of a model's keys, in the spelling of the document `value`."""
    spelled: list[str | int] = []
    for part in location:
        own = find_key(value, part) if isinstance(part, str) else part
        spelled.append(own)
        if isinstance(value, dict):
            value = value.get(own)
        else:
            items = as_sequence(value)
            value = items[own] if items and isinstance(own, int) and own < len(items) else None
    return tuple(spelled)

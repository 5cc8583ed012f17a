"""Find keys that a file may spell in several ways: in snake_case or camelCase, or in any case."""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from pydantic.alias_generators import to_camel

from evalgate.documents.strict_json import Location, as_sequence

KeyFinder: TypeAlias = Callable[[object, str], str]
"""Function that gets an object and a key, and returns the key as the object spells it. If the object lacks
the key, the function returns the key unchanged."""

# The same few keys are looked up in every case, and `to_camel` matches regular expressions.
_to_camel = cache(to_camel)


def find_snake_or_camel_key(value: object, name: str) -> str:
    """Return the camelCase form of `name` (in snake_case) if the object has this key, else return `name`."""
    camel = _to_camel(name)
    return camel if isinstance(value, dict) and camel in value else name


def normalize_key(key: str) -> str:
    """Return a key in lower case without underscores: `evalid` for `evalId`, `EvalID` and `eval_id`."""
    return key.replace("_", "").lower()


def find_key_in_any_case(value: object, name: str) -> str:
    """Return the key `name` as the object `value` spells it, in any case and with or without underscores.

    If the object has several such keys, return the one that equals `name`; without one, return the first.
    Return `name` if the object has none, or if `value` is no object. Go's `encoding/json` also ignores case,
    but it distinguishes keys with and without underscores.
    """
    if not isinstance(value, dict) or name in value:
        return name
    return next((key for key in value if normalize_key(key) == normalize_key(name)), name)


def get_member(value: object, name: str, find_key: KeyFinder = find_key_in_any_case) -> object:
    """Return the value of the key `name` of an object, in the spelling that `find_key` returns.

    Return None if the object lacks the key, or if `value` is no object.
    """
    return value.get(find_key(value, name)) if isinstance(value, dict) else None


def match_spelling(value: object, location: Location, find_key: KeyFinder = find_key_in_any_case) -> Location:
    """Return the location, a path of keys and indices, with each key spelled as in the document `value`."""
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

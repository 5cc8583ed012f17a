"""Rewriting every text in a tree of frozen data, sharing what does not change."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeAlias

Rewrite: TypeAlias = Callable[[str, str], str]
"""From the key that a text stands under ("" when there is none) and the text, to what replaces it."""


TOO_DEEP = "… nested too deep"
_DEEPEST = 200


def rewritten(value: Any, rewrite: Rewrite, key: str = "", depth: int = 0) -> Any:
    """`value` with `rewrite` applied to every text and every key in it; the same object when nothing changed.

    Goes through dataclasses, mappings, lists, tuples and sets. Numbers, bytes and other objects stay. What is
    nested too deep to be looked through becomes `TOO_DEEP`.
    """
    if isinstance(value, str):
        # An enum's member or another subclass of str is a word of ours.
        return rewrite(key, value) if type(value) is str else value
    if isinstance(value, Mapping):
        return TOO_DEEP if depth > _DEEPEST else _mapping(value, rewrite, depth + 1)
    if isinstance(value, list | tuple | set | frozenset):
        return TOO_DEEP if depth > _DEEPEST else _collection(value, rewrite, key, depth + 1)
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value, rewrite, depth + 1)
    return value


def _mapping(value: Mapping[Any, Any], rewrite: Rewrite, depth: int) -> Any:
    changed = False
    made: dict[Any, Any] = {}
    for name, item in value.items():
        new_name = rewrite("", name) if type(name) is str else name
        new_item = rewritten(item, rewrite, name if isinstance(name, str) else "", depth)
        changed = changed or new_name is not name or new_item is not item
        made[_free(made, new_name) if new_name is not name else name] = new_item
    return made if changed else value


def _free(taken: Mapping[Any, Any], name: str) -> str:
    """Two keys that were different stay two."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def _collection(value: Any, rewrite: Rewrite, key: str, depth: int) -> Any:
    changed = False
    made = []
    for item in value:
        new = rewritten(item, rewrite, key, depth)
        changed = changed or new is not item
        made.append(new)
    if not changed:
        return value
    make = getattr(value, "_make", type(value))  # a named tuple's constructor takes its fields one by one
    return make(made)


def _fields(value: Any, rewrite: Rewrite, depth: int) -> Any:
    changes = {}
    for field in fields(value):
        item = getattr(value, field.name)
        new = rewritten(item, rewrite, "", depth)
        if new is not item:
            changes[field.name] = new
    return replace(value, **changes) if changes else value

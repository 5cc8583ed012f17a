"""Rewrite every text in a tree of frozen data, and share the parts that do not change."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from itertools import islice
from operator import is_
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

TextRewriter: TypeAlias = Callable[[str, str], str]
"""Returns the replacement of a text, from its key ("" if it has none) and the text."""

IsClean: TypeAlias = Callable[[Any], bool]
"""Returns True if a dataclass, or a list of them, holds no text to rewrite; False if that is uncertain."""


TOO_DEEP = "… nested too deep"
_DEEPEST = 200
_BATCH = 32
_WITHOUT_TEXT = frozenset({NoneType, bool, int, float})


def rewrite_tree(
    value: Any, rewrite: TextRewriter, key: str = "", depth: int = 0, is_clean: IsClean | None = None
) -> Any:
    """Return `value` with `rewrite` applied to every text and every key; the same object if none changed.

    Dataclasses, mappings, lists, tuples and sets are searched. Numbers, bytes and other objects stay, and so
    do fields of dataclasses that can hold only the words that their type lists. Data that is nested too deep
    to be searched becomes `TOO_DEEP`. Dataclasses within `value` for which `is_clean` returns True are not
    searched.
    """
    if isinstance(value, str):
        # A member of an enum, or of another subclass of str, is a word that evalgate defines.
        return rewrite(key, value) if type(value) is str else value
    if isinstance(value, Mapping):
        return TOO_DEEP if depth > _DEEPEST else _rewrite_mapping(value, rewrite, depth + 1)
    if isinstance(value, list | tuple | set | frozenset):
        return TOO_DEEP if depth > _DEEPEST else _rewrite_collection(value, rewrite, key, depth + 1, is_clean)
    if is_dataclass(value) and not isinstance(value, type):
        return _rewrite_fields(value, rewrite, depth + 1, is_clean)
    return value


@dataclass(slots=True)
class TextCollector:
    """Collects every text in a tree that `rewrite_tree` would rewrite."""

    found: list[str] = field(default_factory=list)
    under_keys: list[tuple[str, str]] = field(default_factory=list)
    """The texts that have a key, each as (key, text)."""
    is_complete: bool = True
    """False if the tree may hold more texts."""
    clean: Container[int] = frozenset()
    """Identities of dataclasses that are left out."""

    def gather_texts(self, value: Any, key: str = "", depth: int = 0) -> None:
        """Add the texts of a tree."""
        self._gather_all((value,), key, depth)

    def _gather_all(self, values: Iterable[Any], key: str, depth: int) -> None:
        # No call for each value: this is the hot path of a run without secrets.
        for value in values:
            kind = type(value)
            if kind is str:
                self.found.append(value)
                if key:
                    self.under_keys.append((key, value))
            elif kind not in _WITHOUT_TEXT:
                self._gather_nested(kind, value, key, depth + 1)

    def _gather_nested(self, kind: type, value: Any, key: str, depth: int) -> None:
        if depth > _DEEPEST:
            self.is_complete = False
        elif kind is tuple or kind is list or issubclass(kind, tuple):
            self._gather_all(value, key, depth)
        elif kind is dict:
            self._gather_all(value, "", depth)
            for name, item in value.items():
                if type(item) is str:
                    self.found.append(item)
                    self.under_keys.append((str(name), item))
                elif type(item) not in _WITHOUT_TEXT:
                    self._gather_nested(type(item), item, str(name), depth + 1)
        elif is_dataclass(kind):
            if id(value) in self.clean:
                return
            self._gather_all(map(partial(getattr, value), _FREE_TEXTS[kind]), "", depth)
        else:
            self.is_complete = False


class _FreeTextFields(dict[type, tuple[str, ...]]):
    """A cache of the fields of each dataclass type that can hold text from outside evalgate."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        known = fields(kind) if is_dataclass(kind) else ()
        self[kind] = tuple(each.name for each in known if not _is_plain(each.type))
        return self[kind]


_FREE_TEXTS = _FreeTextFields()


def _is_plain(annotation: object) -> bool:
    """Return True if a field can only hold numbers and words that evalgate defines."""
    if get_origin(annotation) in {Union, UnionType}:
        return all(map(_is_plain, get_args(annotation)))
    if isinstance(annotation, type) and hasattr(
        annotation, "_field_defaults"
    ):  # a named tuple, as of a range
        return all(map(_is_plain, get_type_hints(annotation).values()))
    return annotation in _WITHOUT_TEXT or get_origin(annotation) is Literal


def _rewrite_mapping(value: Mapping[Any, Any], rewrite: TextRewriter, depth: int) -> Any:
    changed = False
    made: dict[Any, Any] = {}
    for name, item in value.items():
        new_name = rewrite("", name) if type(name) is str else name
        new_item = rewrite_tree(item, rewrite, name if isinstance(name, str) else "", depth)
        changed = changed or new_name is not name or new_item is not item
        made[_choose_free_key(made, new_name) if new_name is not name else name] = new_item
    return made if changed else value


def _choose_free_key(taken: Mapping[Any, Any], name: str) -> str:
    """Return `name`, numbered if it is taken, so that two different keys stay two."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def _rewrite_collection(
    value: Any, rewrite: TextRewriter, key: str, depth: int, is_clean: IsClean | None
) -> Any:
    made = []
    for batch in _iter_batches(value):
        if is_clean is None or len(batch) == 1 or not is_dataclass(batch[0]) or not is_clean(batch):
            made += [_rewrite_item(item, rewrite, key, depth, is_clean) for item in batch]
        else:
            made += batch
    if all(map(is_, made, value)):
        return value
    make = getattr(value, "_make", type(value))  # a named tuple's constructor takes its fields one by one
    return make(made)


def _iter_batches(value: Any) -> Iterator[list[Any]]:
    """Yield the items in batches, or one by one if there are few. Most batches need no rewriting."""
    items = iter(value)
    size = _BATCH if len(value) > _BATCH else 1
    while batch := list(islice(items, size)):
        yield batch


def _rewrite_item(item: Any, rewrite: TextRewriter, key: str, depth: int, is_clean: IsClean | None) -> Any:
    if is_clean is not None and is_dataclass(item) and is_clean(item):
        return item
    return rewrite_tree(item, rewrite, key, depth)


def _rewrite_fields(value: Any, rewrite: TextRewriter, depth: int, is_clean: IsClean | None) -> Any:
    changes = {}
    for name in _FREE_TEXTS[type(value)]:
        item = getattr(value, name)
        if is_clean is not None and is_dataclass(item) and is_clean(item):
            continue
        new = rewrite_tree(item, rewrite, "", depth, is_clean)
        if new is not item:
            changes[name] = new
    return replace(value, **changes) if changes else value

"""Rewriting every text in a tree of frozen data, sharing what does not change."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from itertools import islice
from operator import is_
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

TextRewriter: TypeAlias = Callable[[str, str], str]
"""From the key that a text stands under ("" when there is none) and the text, to what replaces it."""

IsClean: TypeAlias = Callable[[Any], bool]
"""Whether nothing in a dataclass, or a list of them, would be rewritten; False when that is not certain."""


TOO_DEEP = "… nested too deep"
_DEEPEST = 200
_BATCH = 32
_WITHOUT_TEXT = frozenset({NoneType, bool, int, float})


def rewrite_tree(
    value: Any, rewrite: TextRewriter, key: str = "", depth: int = 0, is_clean: IsClean | None = None
) -> Any:
    """`value` with `rewrite` applied to every text and every key in it; the same object when nothing changed.

    Goes through dataclasses, mappings, lists, tuples and sets. Numbers, bytes and other objects stay, and so
    do fields of dataclasses whose type names the words that they can hold. What is nested too deep to be
    looked through becomes `TOO_DEEP`. Dataclasses in `value` itself that `is_clean` are not looked through.
    """
    if isinstance(value, str):
        # An enum's member or another subclass of str is a word of ours.
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
    """Every text in a tree that `rewrite_tree` would look at."""

    found: list[str] = field(default_factory=list)
    under_keys: list[tuple[str, str]] = field(default_factory=list)
    """Those that stand under a key, with it."""
    is_complete: bool = True
    """False: there may be more."""
    clean: Container[int] = frozenset()
    """Identities of dataclasses that are left out."""

    def gather_texts(self, value: Any, key: str = "", depth: int = 0) -> None:
        """Add the texts of a tree."""
        self._gather_all((value,), key, depth)

    def _gather_all(self, values: Iterable[Any], key: str, depth: int) -> None:
        # One look at each value and no call: this is the hot path of a run without secrets.
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
        elif kind is tuple or kind is list:
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
    """The fields of a dataclass that can hold a text of anybody's."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        known = fields(kind) if is_dataclass(kind) else ()
        self[kind] = tuple(each.name for each in known if not _is_plain(each.type))
        return self[kind]


_FREE_TEXTS = _FreeTextFields()


def _is_plain(annotation: object) -> bool:
    """Whether a field can only hold numbers and words of ours."""
    if get_origin(annotation) in {Union, UnionType}:
        return all(map(_is_plain, get_args(annotation)))
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
    """Two keys that were different stay two."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def _rewrite_collection(
    value: Any, rewrite: TextRewriter, key: str, depth: int, is_clean: IsClean | None
) -> Any:
    made = []
    for some in _iter_batches(value):
        if is_clean is None or len(some) == 1 or not is_dataclass(some[0]) or not is_clean(some):
            made += [_rewrite_item(item, rewrite, key, depth, is_clean) for item in some]
        else:
            made += some
    if all(map(is_, made, value)):
        return value
    make = getattr(value, "_make", type(value))  # a named tuple's constructor takes its fields one by one
    return make(made)


def _iter_batches(value: Any) -> Iterator[list[Any]]:
    """Many at once, where there are many: most looks find nothing."""
    items = iter(value)
    size = _BATCH if len(value) > _BATCH else 1
    while some := list(islice(items, size)):
        yield some


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

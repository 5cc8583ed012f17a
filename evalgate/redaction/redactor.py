"""Redact secrets in all texts and data that leave the gate.

A `Redactor` knows the secrets of the environment and the patterns of credentials. It hides secrets that get
into an error message, a tool's result or a quoted request by accident. It cannot stop an agent that wants to
leak a secret, and for example spells it backwards.

A secret with invisible characters in it counts as a secret, too, because reports remove these characters.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import field, fields, is_dataclass, replace
from functools import partial
from itertools import islice
from operator import attrgetter, is_
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen, mutable
from evalgate.core.sanitize import strip_invisible
from evalgate.redaction.encodings import iter_spellings
from evalgate.redaction.environment import find_announced_masks, find_secrets, is_worth_hiding, may_announce
from evalgate.redaction.patterns import (
    find_pattern_spans,
    find_truncated_secrets,
    has_needle,
    is_secret_value,
    is_truncated,
)

TextRewriter: TypeAlias = Callable[[str, str], str]
"""Function that gets the key of a text ("" without a key) and the text, and returns the new text."""

IsClean: TypeAlias = Callable[[Any], bool]
"""Function that gets a dataclass or a list of dataclasses.

It returns True if no text in the argument needs to be rewritten, and False if it is not sure."""


TOO_DEEP = "… nested too deep"
DEEPEST = 200
_BATCH = 32
_WITHOUT_TEXT = frozenset({NoneType, bool, int, float})


class RedactedJson:
    """Base class for data that were redacted by this version of evalgate, with their JSON text in `json`."""

    __slots__ = ()

    @property
    def json(self) -> str:
        """Return the redacted data as JSON on one line; "" if this text is not known."""
        raise NotImplementedError


REPLACEMENT = "***"
"""The text that replaces a secret, as in GitHub's own logs."""

SHORTEST_MASK = 4
"""Minimum length of a mask. A shorter mask would blank half of every report."""

_MOST_ANNOUNCED = 200
"""Maximum number of masks to learn at once. An agent that announces thousands must not make reports slow."""

_T = TypeVar("_T")


@frozen
class Redactor:
    """Redactor of secrets in texts and in whole trees of data.

    Texts that a redactor has redacted stay the same if it redacts them again.
    """

    needles: tuple[str, ...] = field(default=(), repr=False)
    """Every spelling of every known secret, each at least `SHORTEST_MASK` characters long."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], masks: Iterable[str] = ()) -> "Redactor":
        """Build a redactor that knows the secrets of an environment, and the masks that the user names.

        Raises:
            InvalidInputError: a mask has fewer than 4 characters.
        """
        return cls(_list_needles([*find_secrets(environ), *_validate_masks(masks)]))

    def add_environment(self, environ: Mapping[str, str]) -> "Redactor":
        """Return a redactor that also knows the secrets of an environment; this object if it knows all."""
        needles = _list_needles(find_secrets(environ))
        if set(self.needles).issuperset(needles):
            return self
        return Redactor(tuple(dict.fromkeys((*self.needles, *needles))))

    def add_masks(self, masks: Iterable[str]) -> "Redactor":
        """Return a redactor that also hides these texts, which the user gave as `--mask`.

        Return this object if `masks` is empty.

        Raises:
            InvalidInputError: a text has fewer than 4 characters.
        """
        needles = _list_needles(_validate_masks(masks))
        return Redactor(tuple(dict.fromkeys((*self.needles, *needles)))) if needles else self

    def add_masks_from_texts(self, *texts: str, kept: str = "") -> "Redactor":
        """Return a redactor that also hides the masks (secrets) that `texts` announce in `add-mask` lines.

        A mask is not added if it is too short or too common (`is_worth_hiding`), or if it would hide a part
        of `kept`. At most 200 masks are added. Return this object if no mask is new.
        """
        found = (mask for text in texts for mask in find_announced_masks(text))
        masks = (mask for mask in found if is_worth_hiding(mask))
        masks = (mask for mask in masks if not has_needle(kept, _list_needles([mask])))
        needles = _list_needles(islice(masks, _MOST_ANNOUNCED))
        if set(self.needles).issuperset(needles):
            return self
        return Redactor(tuple(dict.fromkeys((*self.needles, *needles))))

    def add_masks_from_tree(self, value: object, kept: str = "") -> "Redactor":
        """Return a redactor that also hides the masks (secrets) in `add-mask` lines of texts within `value`.

        `value` is a dataclass, a collection or JSON. A mask is not added if it is too short or too common, or
        if it would hide a part of `kept`. At most 200 masks are added. Return this object if no mask is new.
        """
        texts = TextCollector()
        texts.gather_texts(value)
        return self.add_masks_from_texts("\n".join(texts.found), kept=kept)

    def redact_text(self, text: str) -> str:
        """Return `text` with `***` for every secret; the same object if it holds no secret.

        If `text` holds a secret with invisible characters in it, all invisible characters are removed.
        """
        text = self._replace_secrets(text)
        visible = strip_invisible(text)
        return text if visible == text or not self._find_spans(visible) else self._replace_secrets(visible)

    def _replace_secrets(self, text: str) -> str:
        # A replacement may complete another secret. The loop ends: each replacement shortens the text.
        while spans := self._find_spans(text):
            text = _replace_spans(text, spans)
        return text

    def redact_tree(
        self,
        value: _T,
        on_announcement: Callable[[str], object] | None = None,
        clean: Container[int] = frozenset(),
    ) -> _T:
        """Return `value` with every text redacted; the same object if no text changed.

        Args:
            value: A dataclass, a collection or JSON.
            on_announcement: Function that is called with the joined texts of a dataclass within `value` if
                they may hold an `add-mask` line, with which agents announce secrets. It is not called for
                other texts: those directly in fields of `value`, and those in mappings.
            clean: Identities (`id`) of dataclasses that are known to hold no secret and no `add-mask`.
        """
        redacted: _T = rewrite_tree(
            value, self._redact_member, is_clean=partial(self._is_clean_tree, on_announcement, clean)
        )
        # A separate walk, because `rewrite_tree` skips all data without text, and few secrets are numbers.
        if any(map(str.isdecimal, self.needles)):
            from evalgate.redaction.secret_numbers import hide_numbers

            redacted = hide_numbers(redacted, self.needles)
        return redacted

    def _is_clean_tree(
        self, on_announcement: Callable[[str], object] | None, clean: Container[int], value: object
    ) -> bool:
        """Return True if a tree certainly holds no secret and no invisible character.

        All texts of the tree are joined for one fast search. If the joined text may hold an `add-mask` line,
        the text is passed to `on_announcement`. Two kinds of objects are skipped: dataclass objects with
        their `id()` in `clean`, and `RedactedJson` objects if their JSON text has no known secret.
        """
        if isinstance(value, list):
            value = [item for item in value if not self._was_redacted(item)]
        elif self._was_redacted(value):
            return True
        texts = TextCollector(clean=clean)
        texts.gather_texts(value)
        # Only the pattern of a private key matches across line ends, and its first line matches alone, too.
        joined = "\n".join(dict.fromkeys(texts.found))
        if on_announcement and may_announce(joined):
            on_announcement(joined)
        return (
            texts.is_complete
            and self.is_clean(joined)
            and not any(is_secret_value(key, text) for key, text in texts.under_keys)
        )

    def _was_redacted(self, value: object) -> bool:
        if not isinstance(value, RedactedJson) or not value.json:
            return False
        from evalgate.redaction.prefilter import may_contain_secret

        return not may_contain_secret(value.json, self.needles)

    def is_clean(self, text: str) -> bool:
        """Return True if a text certainly holds no secret and no invisible character."""
        printed = text.replace("\n", "")
        is_visible = (printed.isascii() and printed.isprintable()) or strip_invisible(text) == text
        return is_visible and not self.has_secret(text)

    def has_secret(self, text: str) -> bool:
        """Return True if the text holds a secret; a secret with invisible characters in it is not found."""
        return bool(self._find_spans(text))

    def _redact_member(self, key: str, text: str) -> str:
        # After a key such as `password`, a value is a secret even if no pattern matches it.
        return REPLACEMENT if is_secret_value(key, text) else self.redact_text(text)

    def _find_spans(self, text: str) -> list[tuple[int, int]]:
        if len(text) < SHORTEST_MASK:
            return []
        spans = [*find_pattern_spans(text)]
        for needle in self.needles:
            start = text.find(needle)
            while start >= 0:
                spans.append((start, start + len(needle)))
                start = text.find(needle, start + len(needle))
        if is_truncated(text):
            spans += find_truncated_secrets(text, self.needles)
        return spans


def _list_needles(values: Iterable[str]) -> tuple[str, ...]:
    found = dict.fromkeys(spelling for value in values for spelling in iter_spellings(value))
    return tuple(spelling for spelling in found if len(spelling) >= SHORTEST_MASK)


def _validate_masks(masks: Iterable[str]) -> list[str]:
    given = [mask.strip() for mask in masks]
    for number, mask in enumerate(given, start=1):
        if len(mask) < SHORTEST_MASK:
            raise InvalidInputError(
                f"mask {number} is shorter than {SHORTEST_MASK} characters: to hide it would blank half of "
                "every report; give the whole secret"
            )
    return given


def _replace_spans(text: str, spans: list[tuple[int, int]]) -> str:
    """Return `text` with `***` for each span; spans that touch or overlap get one `***` together."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start > done or not pieces:
            pieces += [text[done:start], REPLACEMENT]
        done = max(done, end)
    return "".join([*pieces, text[done:]])


# --- nested data --------------------------------------------------------------------------------------------


def rewrite_tree(
    value: Any, rewrite: TextRewriter, key: str = "", depth: int = 0, is_clean: IsClean | None = None
) -> Any:
    """Return `value` with `rewrite` applied to every text and every key; the same object if none changed.

    Dataclasses, mappings, lists, tuples and sets are searched. Fields of a dataclass that can hold only
    numbers and fixed words are not searched. Collections and mappings deeper than 200 levels are replaced by
    `TOO_DEEP`.

    Args:
        value: The data.
        rewrite: Function that gets the key of a text in a mapping ("" without one) and the text, and returns
            the new text.
        key: Key of `value` in a mapping; "" if `value` has no key.
        depth: Number of levels above `value`.
        is_clean: Function that returns True for a dataclass within `value`, or a list of dataclasses, that
            need not be searched. It is called neither for `value` itself nor for data below a mapping.
    """
    if isinstance(value, str):
        # A member of an enum, or of another subclass of str, is a word that evalgate defines.
        return rewrite(key, value) if type(value) is str else value
    if isinstance(value, Mapping):
        return TOO_DEEP if depth > DEEPEST else _rewrite_mapping(value, rewrite, depth + 1)
    if isinstance(value, list | tuple | set | frozenset):
        return TOO_DEEP if depth > DEEPEST else _rewrite_collection(value, rewrite, key, depth + 1, is_clean)
    if is_dataclass(value) and not isinstance(value, type):
        return _rewrite_fields(value, rewrite, depth + 1, is_clean)
    return value


@mutable
class TextCollector:
    """Collector of the texts in a tree: the texts that `rewrite_tree` would rewrite."""

    found: list[str] = field(default_factory=list)
    """All texts, including the keys of mappings."""
    under_keys: list[tuple[str, str]] = field(default_factory=list)
    """(key, text) for each text that has a key."""
    is_complete: bool = True
    """False if the tree may hold texts that were not collected: below 200 levels, or in other types."""
    clean: Container[int] = frozenset()
    """Identities (`id`) of dataclasses that are not searched, because they hold no secret."""

    def gather_texts(self, value: Any, key: str = "", depth: int = 0) -> None:
        """Add all texts of a tree to `found`, and each text that has a key, with its key, to `under_keys`.

        `key` is the key of `value` in a mapping, or "" if `value` has no key. `depth` is the number of levels
        above `value`.
        """
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
        if depth > DEEPEST:
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
            if id(value) not in self.clean:
                self._gather_all(FREE_TEXTS[kind].get_values(value), "", depth)
        elif issubclass(kind, tuple):
            self._gather_all(value, key, depth)
        else:
            self.is_complete = False


class _FreeTextFields(NamedTuple):
    """Names of a dataclass's fields that can hold text from outside evalgate, and a function to read them."""

    names: tuple[str, ...]
    get_values: Callable[[Any], Iterable[Any]]


class _FreeTexts(dict[type, _FreeTextFields]):
    """Cache, by dataclass type, of the fields that can hold text from outside evalgate."""

    def __missing__(self, kind: type) -> _FreeTextFields:
        known = fields(kind) if is_dataclass(kind) else ()
        names = [each.name for each in known if not _is_plain(each.type)]
        several = len(names) > 1
        get_values = attrgetter(*names) if several else lambda value: [getattr(value, each) for each in names]
        self[kind] = _FreeTextFields(tuple(names), get_values)
        return self[kind]


FREE_TEXTS = _FreeTexts()


def _is_plain(annotation: object) -> bool:
    """Return True if a field of this type can hold only numbers, booleans, None, and literal words."""
    if get_origin(annotation) in {Union, UnionType}:
        return all(map(_is_plain, get_args(annotation)))
    # A named tuple, such as a range of scores, is plain if all of its fields are.
    if isinstance(annotation, type) and hasattr(annotation, "_field_defaults"):
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
    """Return `name`, or `name (2)` and so on if `taken` has this key: different keys stay different."""
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
            for item in batch:
                is_kept = is_clean is not None and is_dataclass(item) and is_clean(item)
                made.append(item if is_kept else rewrite_tree(item, rewrite, key, depth))
        else:
            made += batch
    if all(map(is_, made, value)):
        return value
    make = getattr(value, "_make", type(value))  # a named tuple's constructor takes its fields one by one
    return make(made)


def _iter_batches(value: Any) -> Iterator[list[Any]]:
    """Yield the items of a list, tuple or set in lists of at most `_BATCH` items."""
    items = iter(value)
    while batch := list(islice(items, _BATCH)):
        yield batch


def _rewrite_fields(value: Any, rewrite: TextRewriter, depth: int, is_clean: IsClean | None) -> Any:
    changes = {}
    for name in FREE_TEXTS[type(value)].names:
        item = getattr(value, name)
        if is_clean is not None and is_dataclass(item) and is_clean(item):
            continue
        new = rewrite_tree(item, rewrite, "", depth, is_clean)
        if new is not item:
            changes[name] = new
    return replace(value, **changes) if changes else value

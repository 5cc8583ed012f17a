"""Find the keys of a file that its pydantic models do not read, and report them.

A model may define class methods that this module finds by name:

* `older_keys()`: keys of older versions of the format, which the model converts: an iterable, or a mapping of
  each key to the type of its value.
* `kept_unread_keys()`: keys that the format defines, and that evalgate keeps without reading.
* `is_refused(key, value)`: True if the format's own engine rejects the object `value` for this unknown key.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cache
from itertools import islice
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from evalgate.core.errors import Problem
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen, mutable
from evalgate.documents.strict_json import Location, as_sequence
from evalgate.documents.validation_errors import describe_unknown_key

KeyNormalizer: TypeAlias = Callable[[str], str]
"""Function that returns a common form of all spellings of a key: `evalid` for `evalId` and `eval_id`."""

_EMPTY_VALUES: tuple[object, ...] = (None, "", [], {})


@frozen
class KeyModel:
    """Annotation of a field that holds decoded JSON: the keys of this JSON are the fields of `model`."""

    model: type[BaseModel]


class IgnoredKey(NamedTuple):
    """A key that evalgate does not read, because the model of the key's object has no field for it."""

    location: Location
    is_refused: bool
    """True if the engine that owns the format rejects the file because of this key."""
    known: tuple[str, ...]
    """Keys that the object may have."""


def collect_ignored_keys(
    model: type[BaseModel], value: object, location: Location = (), *, normalize_key: KeyNormalizer = str
) -> list[IgnoredKey]:
    """Return the keys of `value`, to any depth, that `model` and the models of its fields do not read.

    A key of a field may be spelled like the field, like its alias, or in camelCase. `normalize_key`
    normalizes a key: another spelling is read, too, if its normal form is that of one of these spellings. A
    key with the value null is not returned. A key with another empty value is returned only if the format's
    engine rejects the key. `value` may have any type.
    """
    scanner, found = _get_model_scanner(model, normalize_key), list[IgnoredKey]()
    if not scanner.is_clean(value):
        scanner.collect_ignored(value, location, found)
    return found


class _KeyScanner(Protocol):
    """Finder of keys that no model reads, in the values of one field."""

    def is_clean(self, value: Any) -> bool:
        """Return True if a value certainly has no unread key; False means that it may have one."""
        ...

    def collect_ignored(self, value: Any, location: Location, found: list[IgnoredKey]) -> None:
        """Append the unread keys of the value at `location` to `found`."""
        ...


_KeyScanners: TypeAlias = tuple[_KeyScanner, ...]


class _ModelScanner:
    """Scanner that finds keys without a field in JSON objects, also nested ones, that `model` parses."""

    def __init__(self, model: type[BaseModel], normalize_key: KeyNormalizer) -> None:
        self._normalize_key = normalize_key
        self._is_refused = getattr(model, "is_refused", None)
        self._inner: dict[str, _KeyScanners] = {}
        """Scanners for the value of each known key, in every spelling."""
        older: Any = getattr(model, "older_keys", tuple)()
        models: Mapping[str, Any] = older if isinstance(older, Mapping) else dict.fromkeys(older)
        kept = tuple(getattr(model, "kept_unread_keys", tuple)())
        for name, annotation in models.items():
            self._add_key([name], tuple(_iter_scanners(annotation, normalize_key)))
        for name in kept:
            self._add_key([name, to_camel(name)], ())
        for name, info in model.model_fields.items():
            scanners = tuple(_iter_annotated_scanners(info.metadata, normalize_key)) or tuple(
                _iter_scanners(info.annotation, normalize_key)
            )
            self._add_key([name, to_camel(name), *_iter_aliases(info)], scanners)
        self._known = (*[field.alias or name for name, field in model.model_fields.items()], *models, *kept)
        self._names = self._inner.keys()
        self._nested = tuple(
            [(key, scanner) for key, scanners in self._inner.items() for scanner in scanners]
        )

    def _add_key(self, spellings: Iterable[str], scanners: _KeyScanners) -> None:
        for spelling in spellings:
            self._inner[spelling] = self._inner[self._normalize_key(spelling)] = scanners

    # A large eval set has millions of objects, and nearly none has an unread key. This check takes a fifth of
    # the time of `collect_ignored`, which builds the location of each object.
    def is_clean(self, value: Any) -> bool:
        if type(value) is not dict:
            return True
        if not value.keys() <= self._names:
            return False
        for key, scanner in self._nested:  # a generator is slower
            if (item := value.get(key)) and not scanner.is_clean(item):
                return False
        return True

    def collect_ignored(self, value: Any, location: Location, found: list[IgnoredKey]) -> None:
        for key, item in value.items() if isinstance(value, dict) else ():
            scanners = self._inner.get(key if key in self._inner else self._normalize_key(key))
            if scanners is None:
                is_refused = self._is_refused is not None and self._is_refused(key, value)
                if item is not None and (is_refused or item not in _EMPTY_VALUES):
                    found.append(IgnoredKey((*location, key), is_refused, self._known))
            else:
                for scanner in scanners:
                    scanner.collect_ignored(item, (*location, key), found)


_get_model_scanner = cache(_ModelScanner)


def _iter_aliases(field: FieldInfo) -> Iterator[str]:
    if field.alias:
        yield field.alias
    if isinstance(field.validation_alias, AliasChoices):
        yield from (choice for choice in field.validation_alias.choices if isinstance(choice, str))


def _iter_scanners(annotation: Any, normalize_key: KeyNormalizer) -> Iterator[_KeyScanner]:
    """Yield the scanners for a value of the type `annotation`; none if the type contains no model."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield _get_model_scanner(annotation, normalize_key)
        return
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from tuple(_iter_annotated_scanners(args[1:], normalize_key)) or _iter_scanners(
            args[0], normalize_key
        )
        return
    inner = [scanner for arg in args for scanner in _iter_scanners(arg, normalize_key)]
    if origin is dict:
        yield from map(_MappingScanner, inner)
    elif origin in (list, tuple):
        yield from map(_ListScanner, inner)
    else:
        yield from inner


def _iter_annotated_scanners(
    metadata: Iterable[object], normalize_key: KeyNormalizer
) -> Iterator[_KeyScanner]:
    for each in metadata:
        if isinstance(each, KeyModel):
            yield _get_model_scanner(each.model, normalize_key)


class _MappingScanner:
    """Scanner of objects with arbitrary keys, such as `dict[str, Model]`: it scans each value."""

    def __init__(self, scanner: _KeyScanner) -> None:
        self._scanner = scanner

    def is_clean(self, value: Any) -> bool:
        return not isinstance(value, dict) or all(map(self._scanner.is_clean, value.values()))

    def collect_ignored(self, value: Any, location: Location, found: list[IgnoredKey]) -> None:
        for key, item in value.items() if isinstance(value, dict) else ():
            self._scanner.collect_ignored(item, (*location, key), found)


class _ListScanner:
    def __init__(self, scanner: _KeyScanner) -> None:
        self._scanner = scanner

    def is_clean(self, value: Any) -> bool:
        is_clean = self._scanner.is_clean
        for item in as_sequence(value) or ():  # noqa: SIM110  a generator is slower
            if not is_clean(item):
                return False
        return True

    def collect_ignored(self, value: Any, location: Location, found: list[IgnoredKey]) -> None:
        for index, item in enumerate(as_sequence(value) or ()):
            self._scanner.collect_ignored(item, (*location, index), found)


_MOST_LISTED = 10
"""Most positions of one rejected key, and most names of ignored keys, that messages list.

The limit is needed because a generated file repeats a mistake in every case.
"""


@mutable
class _KeyOccurrences:
    first: IgnoredKey
    times: int = 0


@mutable
class KeyChecker:
    """Collector of the keys in one file that no model reads; they become notices or problems."""

    file: str
    """Path as the user wrote it."""
    position: Callable[[Location], tuple[int, int]]
    """Function that returns line and column of the value at a location of the document."""
    problems: list[Problem]
    """List to which a problem is added for each key that the format's engine rejects."""
    normalize_key: KeyNormalizer = str
    equivalent_keys: Mapping[str, str] = field(default_factory=dict)
    """Maps keys of other formats to the equivalent key of this format; "" if there is no equivalent."""
    is_open: bool = True
    """False once the whole file was checked. Cases of a large file are decoded again without a check."""
    _refused: dict[str, _KeyOccurrences] = field(default_factory=dict)
    _ignored: dict[str, _KeyOccurrences] = field(default_factory=dict)

    def check_value(self, model: type[BaseModel], value: object, location: Location = ()) -> None:
        """Find the keys of `value` that `model` does not read, and pass them to `add_keys`.

        `location` is the position of `value` in the document.
        """
        self.add_keys(collect_ignored_keys(model, value, location, normalize_key=self.normalize_key))

    def add_keys(self, keys: Iterable[IgnoredKey]) -> None:
        """Count unread keys by name, and add a problem for each rejected key, at most 10 for each name."""
        for key in keys:
            name = str(key.location[-1])
            noted = self._refused if key.is_refused else self._ignored
            found = noted.setdefault(name, _KeyOccurrences(key))
            found.times += 1
            if key.is_refused and found.times <= _MOST_LISTED:
                own = self.equivalent_keys.get(name)
                message = describe_unknown_key(key.location, key.known, f" Write `{own}`." if own else "")
                self.problems.append(Problem(self.file, *self.position(key.location), message))

    def build_notices(self) -> tuple[str, ...]:
        """Return a tuple with one sentence about all ignored keys; () if there are none.

        This ends the check of the file: `is_open` becomes False. If a name has more than 10 rejected keys,
        one problem is added that counts the keys beyond the first 10.
        """
        self.is_open = False
        for name, found in self._refused.items():
            if found.times > _MOST_LISTED:
                message = f"`{name}` is unknown in {pluralize(found.times - _MOST_LISTED, 'more place')}"
                self.problems.append(Problem(self.file, *self.position(found.first.location), message))
        if not self._ignored:
            return ()
        times = sum(found.times for found in self._ignored.values())
        keys = "1 key" if times == 1 else f"{times:,} keys"
        verb = "is" if times == 1 else "are"
        names = [
            self._describe_ignored(name, found) for name, found in islice(self._ignored.items(), _MOST_LISTED)
        ]
        more = [f"and {len(self._ignored) - _MOST_LISTED} more"] if len(self._ignored) > _MOST_LISTED else []
        return (f"{keys} of {self.file} {verb} read by nothing: {'; '.join([*names, *more])}.",)

    def _describe_ignored(self, name: str, found: _KeyOccurrences) -> str:
        line, _ = self.position(found.first.location)
        where = [f"line {line}" if found.times == 1 else f"first in line {line}"] if line else []
        times = [f"{found.times:,} times"] if found.times > 1 else []
        own = self.equivalent_keys.get(name)
        from evalgate.core.did_you_mean import did_you_mean

        hint = f" Write `{own}`" if own else did_you_mean(name, found.first.known) if own is None else ""
        notes = "; ".join(filter(None, (", ".join(times + where), f"{hint[1:2].lower()}{hint[2:]}")))
        return f"`{name}` ({notes})" if notes else f"`{name}`"

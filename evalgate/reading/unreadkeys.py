"""Find the keys of a file that the models which read it do not know.

A model may say more than its fields do, in class methods that this module asks for by name:

* `older_keys()`: keys of older shapes that the model converts; as a mapping, with the model of each.
* `kept_keys()`: keys that their owner knows, and that evalgate keeps without reading.
* `is_refused(key, value)`: whether the owner's engine refuses an object that holds this unknown key.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from evalgate.reading.plainvalues import items_of

Location: TypeAlias = tuple[str | int, ...]
Spelled: TypeAlias = Callable[[str], str]
"""Return what all spellings of one key have in common: `evalid` for `evalId` and `eval_id`."""

_NOTHING_SAID: tuple[object, ...] = (None, "", [], {})


@dataclass(frozen=True)
class KeysOf:
    """Stands in `Annotated` of a value that is read as it is, and says which keys it may have."""

    model: type[BaseModel]


class UnreadKey(NamedTuple):
    """A key that no field of the model of its object reads."""

    location: Location
    is_refused: bool
    """Whether the engine that owns the format refuses the file for it."""
    known: tuple[str, ...]
    """The keys that the object may hold."""


def unread_keys(
    model: type[BaseModel], value: object, location: Location = (), *, spelled: Spelled = str
) -> list[UnreadKey]:
    """Return the keys of `value`, to any depth, that `model` and the models of its fields pass over.

    A key may be spelled as the field or its alias is, or in camelCase. A key that holds null is left out,
    and so is one that holds nothing at all where no engine refuses it: it says nothing that could be missed.
    `value` may be of any shape, right or wrong.
    """
    shape, found = _shape(model, spelled), list[UnreadKey]()
    if not shape.is_clean(value):
        shape.collect(value, location, found)
    return found


class _Look(Protocol):
    """How to look through values of one type."""

    def is_clean(self, value: Any) -> bool:
        """Return True if a value has no unread key; False when in doubt."""
        ...

    def collect(self, value: Any, location: Location, found: list[UnreadKey]) -> None:
        """Append the unread keys of a value that stands at a location."""
        ...


_Looks: TypeAlias = tuple[_Look, ...]


class _Shape:
    """Objects that one model reads."""

    def __init__(self, model: type[BaseModel], spelled: Spelled) -> None:
        self._spelled = spelled
        self._is_refused = getattr(model, "is_refused", None)
        self._inner: dict[str, _Looks] = {}
        """Each known key in every spelling, and how to look into its value."""
        older: Any = getattr(model, "older_keys", tuple)()
        models: Mapping[str, Any] = older if isinstance(older, Mapping) else dict.fromkeys(older)
        kept = tuple(getattr(model, "kept_keys", tuple)())
        for name, annotation in models.items():
            self._add([name], tuple(_looks(annotation, spelled)))
        for name in kept:
            self._add([name, to_camel(name)], ())
        for name, field in model.model_fields.items():
            looks = tuple(_stand_ins(field.metadata, spelled)) or tuple(_looks(field.annotation, spelled))
            self._add([name, to_camel(name), *_aliases(field)], looks)
        self._known = (*[field.alias or name for name, field in model.model_fields.items()], *models, *kept)
        self._names = self._inner.keys()
        self._nested = tuple([(key, look) for key, looks in self._inner.items() for look in looks])

    def _add(self, spellings: Iterable[str], looks: _Looks) -> None:
        for spelling in spellings:
            self._inner[spelling] = self._inner[self._spelled(spelling)] = looks

    # A large eval set has millions of objects, nearly all of them without an unread key: this way through
    # them costs a fifth of `collect`, which notes where each of them stands.
    def is_clean(self, value: Any) -> bool:
        if type(value) is not dict:
            return True
        if not value.keys() <= self._names:
            return False
        for key, look in self._nested:  # noqa: SIM110  a generator is slower
            if (item := value.get(key)) and not look.is_clean(item):
                return False
        return True

    def collect(self, value: Any, location: Location, found: list[UnreadKey]) -> None:
        for key, item in value.items() if isinstance(value, dict) else ():
            looks = self._inner.get(key if key in self._inner else self._spelled(key))
            if looks is None:
                is_refused = self._is_refused is not None and self._is_refused(key, value)
                if item is not None and (is_refused or item not in _NOTHING_SAID):
                    found.append(UnreadKey((*location, key), is_refused, self._known))
            else:
                for look in looks:
                    look.collect(item, (*location, key), found)


_shape = cache(_Shape)


def _aliases(field: FieldInfo) -> Iterator[str]:
    if field.alias:
        yield field.alias
    if isinstance(field.validation_alias, AliasChoices):
        yield from (choice for choice in field.validation_alias.choices if isinstance(choice, str))


def _looks(annotation: Any, spelled: Spelled) -> Iterator[_Look]:
    """Yield how to look into a value of that type; nothing when it holds no model."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield _shape(annotation, spelled)
        return
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from tuple(_stand_ins(args[1:], spelled)) or _looks(args[0], spelled)
        return
    inner = [look for arg in args for look in _looks(arg, spelled)]
    if origin is dict:
        yield from map(_Values, inner)
    elif origin in (list, tuple):
        yield from map(_Items, inner)
    else:
        yield from inner


def _stand_ins(metadata: Iterable[object], spelled: Spelled) -> Iterator[_Look]:
    for each in metadata:
        if isinstance(each, KeysOf):
            yield _shape(each.model, spelled)


class _Values:
    """Objects with keys of any name."""

    def __init__(self, look: _Look) -> None:
        self._look = look

    def is_clean(self, value: Any) -> bool:
        return not isinstance(value, dict) or all(map(self._look.is_clean, value.values()))

    def collect(self, value: Any, location: Location, found: list[UnreadKey]) -> None:
        for key, item in value.items() if isinstance(value, dict) else ():
            self._look.collect(item, (*location, key), found)


class _Items:
    """Lists."""

    def __init__(self, look: _Look) -> None:
        self._look = look

    def is_clean(self, value: Any) -> bool:
        is_clean = self._look.is_clean
        for item in items_of(value) or ():  # noqa: SIM110  a generator is slower
            if not is_clean(item):
                return False
        return True

    def collect(self, value: Any, location: Location, found: list[UnreadKey]) -> None:
        for index, item in enumerate(items_of(value) or ()):
            self._look.collect(item, (*location, index), found)

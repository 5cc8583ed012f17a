"""Data classes that take little time to define.

`@frozen` makes the same classes as `@dataclass(frozen=True, slots=True)` in a fifth of the time. The standard
library writes and compiles six methods for every class. For the 200 classes of a run, this takes a quarter of
the start time. Here, all classes share one copy of these methods. Only `__init__` is compiled for each class,
after the class has made 16 objects. `@mutable` replaces `@dataclass(slots=True)` in the same way.
"""

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, ClassVar, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[_T]) -> type[_T]:
    """Make the class a dataclass with slots and immutable objects.

    Methods that the class itself defines are kept. The functions of the module `dataclasses`, such as
    `replace` and `fields`, work on the result.

    Raises:
        TypeError: a field without a default follows a field with a default, or a field has `init=False`.
    """
    return _make_data_class(cls, _SHARED)


@dataclass_transform(field_specifiers=(field,))
def mutable(cls: type[_T]) -> type[_T]:
    """Make the class a dataclass with slots. Its objects are compared by value and cannot be hashed.

    Raises:
        TypeError: a field without a default follows a field with a default, or a field has `init=False`.
    """
    made: Any = _make_data_class(cls, ("__repr__", "__eq__"))
    if "__hash__" not in vars(cls):
        made.__hash__ = None
    finished: type[_T] = made
    return finished


def _make_data_class(cls: type[_T], shared: Iterable[str]) -> type[_T]:
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else `dataclass` builds it from the signature, which takes long
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    found = fields(made)
    names = [each.name for each in found if each.compare]
    # `type` for a class without fields: it returns the same value for all of its objects.
    made.__compared__ = attrgetter(*names) if names else type
    # A class may bring its own `__hash__` or `__repr__`, which the shared ones must not replace.
    own = vars(made)
    for name in shared:
        if name not in own:
            setattr(made, name, vars(_Frozen)[name])
    if "__init__" not in own:
        _check_fields(made, found)
        made.__init__ = _DeferredInitializer(made, found)
    finished: type[_T] = made
    return finished


class _Frozen:
    """Methods that all frozen classes share."""

    __compared__: ClassVar[Callable[[object], object]]
    """Function that returns the values of an object that `==` compares and `hash` hashes."""

    @recursive_repr()
    def __repr__(self) -> str:
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in _get_fields(self) if each.repr)
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = self.__class__.__compared__
        # As parts of tuples, as dataclasses compare before Python 3.13: an object equals itself, even NaN.
        return (values(self),) == (values(other),)

    def __hash__(self) -> int:
        return hash(self.__class__.__compared__(self))

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> list[object]:
        return [getattr(self, each.name) for each in _get_fields(self)]

    def __setstate__(self, state: list[object]) -> None:
        for each, value in zip(_get_fields(self), state, strict=True):
            object.__setattr__(self, each.name, value)


_SHARED = (
    "__repr__",
    "__eq__",
    "__hash__",
    "__setattr__",
    "__delattr__",
    "__getstate__",
    "__setstate__",
)


def _get_fields(value: Any) -> tuple[Field[Any], ...]:
    return fields(value)


def _check_fields(cls: type[Any], found: tuple[Field[Any], ...]) -> None:
    has_default = False
    for each in found:
        if not each.init:
            raise TypeError(f"the field {each.name!r} has `init=False`, so it can never be set")
        if each.kw_only:
            continue
        if each.default is not MISSING or each.default_factory is not MISSING:
            has_default = True
        elif has_default:
            raise TypeError(
                f"{cls.__qualname__}: non-default argument {each.name!r} follows default argument"
            )


_FIRST_OBJECTS = 16
"""Number of objects of a class that are made before its `__init__` is compiled.

Compiling takes as long as making fifty objects.
"""


class _DeferredInitializer:
    """Stand-in for the `__init__` of a class; after 16 objects it compiles the real `__init__`."""

    def __init__(self, cls: type[Any], found: tuple[Field[Any], ...]) -> None:
        self._cls: Any = cls
        self._fields = found
        self._objects = 0

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Callable[..., None]:
        # Not `is not None`: from Python 3.13 on, `inspect.signature` passes the class as the instance.
        if isinstance(instance, self._cls) and self._objects < _FIRST_OBJECTS:
            self._objects += 1
            return partial(self._initialize, instance)
        bound: Callable[..., None] = self._compile().__get__(instance, owner)
        return bound

    def _compile(self) -> Any:
        self._cls.__init__ = _build_initializer(self._cls, self._fields)
        return self._cls.__init__

    def _initialize(self, instance: Any, /, *given: object, **named: object) -> None:
        """Set the fields of `instance`. For wrong arguments, call the compiled `__init__`, which raises."""
        values = dict(zip((each.name for each in self._fields if not each.kw_only), given, strict=False))
        unknown = named.keys() - {each.name for each in self._fields}
        is_wrong = unknown or len(values) < len(given) or named.keys() & values.keys()
        values |= named
        for each in self._fields:
            if each.name in values:
                continue
            if each.default is not MISSING:
                values[each.name] = each.default
            elif each.default_factory is not MISSING:
                values[each.name] = each.default_factory()
            else:
                is_wrong = True
        if is_wrong:
            self._compile()(instance, *given, **named)
            return
        for name, value in values.items():
            getattr(self._cls, name).__set__(instance, value)  # a subclass may hide the slot by a property
        if hasattr(self._cls, "__post_init__"):
            instance.__post_init__()


def _build_initializer(cls: Any, found: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Build an `__init__` that sets slots through their descriptors, because `__setattr__` raises errors."""
    known: dict[str, Any] = {"_ABSENT": _ABSENT}
    given = [_build_parameter(each, known) for each in found if not each.kw_only]
    if named := [_build_parameter(each, known) for each in found if each.kw_only]:
        given += ["*", *named]
    body = [_build_assignment(each, known, getattr(cls, each.name)) for each in found]
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    text = f"def __init__(self, {', '.join(given)}):\n " + "\n ".join(body or ["pass"])
    exec(text, known)  # noqa: S102  the names of the fields are all that is in it
    made: Callable[..., None] = known["__init__"]
    made.__annotations__ = {**{each.name: each.type for each in found}, "return": None}
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _build_parameter(each: Field[Any], known: dict[str, Any]) -> str:
    if each.default is not MISSING:
        known[f"_default_{each.name}"] = each.default
        return f"{each.name}=_default_{each.name}"
    return each.name if each.default_factory is MISSING else f"{each.name}=_ABSENT"


def _build_assignment(each: Field[Any], known: dict[str, Any], slot: Any) -> str:
    known[f"_set_{each.name}"] = slot.__set__
    if each.default_factory is MISSING:
        return f"_set_{each.name}(self, {each.name})"
    known[f"_make_{each.name}"] = each.default_factory
    return f"_set_{each.name}(self, _make_{each.name}() if {each.name} is _ABSENT else {each.name})"


class _Absent:
    """Default of a parameter for a field with a factory. It means that the caller gave no value."""

    def __repr__(self) -> str:
        return "<factory>"


_ABSENT = _Absent()

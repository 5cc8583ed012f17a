"""Conversion of a record to plain values: lists, scalars, and dicts with keys in the order of the file.

Fields that a program may rely on are always written, as null if there is no value. The others (`reason`,
`details`, `failure`, `final_state`, `earlier_attempts`, `line`, …) are omitted if they have their default.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin, get_type_hints

from evalgate.core.types import CaseResult, RunResult

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic_core import CoreSchema, SchemaSerializer
    from pydantic_core.core_schema import DataclassField

MOST_DIGITS = 4000  # Python neither writes nor reads integers of more than 4,300 digits

_ALWAYS_WRITTEN = frozenset(
    {
        "schema_version",
        "baseline",
        "delta",
        "usage",
        "reasons",
        "turns",
        "metrics",
        "response",
        "events",
        "type",
    }
    | {"cases", "passed", "failed", "errored", "not_evaluated", "input_tokens", "output_tokens", "cost_usd"}
    | {"comparison", "notices", "changes", "unchanged"}
)
"""Names of fields that have a default, but are written even if they hold this default."""

NEVER_LEFT_OUT = object()
"""Marker for a field that is always written; used in place of its default, and equal to no value."""

_FIRST = ("schema_version", "type")
_DEEPEST = 100
_BIGGEST = 10**MOST_DIGITS
_UNCHANGED = frozenset({str, bool, NoneType})
"""Types of the values that `replace_unserializable` returns as they are."""


class EncodedTurns:
    """A mixin for runs that were read from JSON, and that may still hold their turns as undecoded JSON."""

    __slots__ = ()

    def load_turn_values(self) -> list[object] | None:
        """Return the turns as dicts with the keys of `results.json`; None if they exist only as objects."""
        raise NotImplementedError


def encode_turns(run: RunResult) -> list[Any]:
    """Return the turns of a run as dicts with the keys of `results.json`.

    If the run still has its turns as JSON, no `TurnResult` objects are built.
    """
    values = run.load_turn_values() if isinstance(run, EncodedTurns) else None
    return [as_tree(turn) for turn in run.turns] if values is None else values


class _FieldLayout(NamedTuple):
    """The fields of a class, grouped by the way they are written, with functions that return their values."""

    always: tuple[str, ...]
    """Fields that are always written."""
    get_always: Callable[[object], tuple[object, ...]]
    """Function that returns the values of an object's fields `always`."""
    optional: tuple[str, ...]
    """Fields that are omitted if they have their default."""
    get_optional: Callable[[object], tuple[object, ...]]
    defaults: tuple[object, ...]
    """Defaults of the fields `optional`; the function `get_optional` returns an object's own values."""
    nested: tuple[str, ...]
    """Fields that may contain objects of further classes, alone or in a tuple."""


class _FieldLayouts(dict["type[DataclassInstance]", _FieldLayout]):
    """Cache of layouts by class. A layout is built on first use, and looked up for every written object."""

    def __missing__(self, kind: "type[DataclassInstance]") -> _FieldLayout:
        by_name = {field.name: field.default for field in fields(kind)}
        always = [name for name in by_name if by_name[name] is MISSING or name in _ALWAYS_WRITTEN]
        always.sort(key=lambda name: name not in _FIRST)
        optional = tuple(name for name in by_name if name not in always)
        defaults = tuple(by_name[name] for name in optional)
        nested = tuple(name for name, hint in get_type_hints(kind).items() if _contains_class(hint))
        get_always = _build_getter(always)
        if issubclass(kind, EncodedTurns):
            # `as_tree` would decode the turns into objects, only to turn them into plain values again.
            get_always = _build_encoded_run_getter(always)
            nested = tuple(name for name in nested if name != "turns")
        layout = _FieldLayout(tuple(always), get_always, optional, _build_getter(optional), defaults, nested)
        self[kind] = layout
        return layout


def _build_getter(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    """Return a function that returns the attributes `names` of an object as a tuple, even for one name."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _build_encoded_run_getter(names: Sequence[str]) -> Callable[[Any], tuple[object, ...]]:
    """Return a function that returns the attributes `names` of a run as a tuple, with its turns as dicts.

    If the run still has its turns as JSON, no `TurnResult` objects are built.
    """

    def get_values(run: RunResult) -> tuple[object, ...]:
        turns = encode_turns(run)
        return tuple([turns if name == "turns" else getattr(run, name) for name in names])

    return get_values


def _contains_class(hint: object) -> bool:
    return is_dataclass(hint) or any(map(_contains_class, get_args(hint)))


_LAYOUTS = _FieldLayouts()


def list_required_fields(kind: "type[DataclassInstance]") -> tuple[str, ...]:
    """Return the fields of a class that are always written, in their order."""
    return _LAYOUTS[kind].always


def list_written_fields(kind: "type[DataclassInstance]") -> tuple[tuple[str, object], ...]:
    """Return (name, default) of each field of a class, in the order of `results.json`.

    A field that has its default is omitted from the file. For a field that is always written, the default is
    `NEVER_LEFT_OUT`.
    """
    always, _, optional, _, defaults, _ = _LAYOUTS[kind]
    return (*((name, NEVER_LEFT_OUT) for name in always), *zip(optional, defaults, strict=True))


def as_dict(value: "DataclassInstance") -> dict[str, Any]:
    """Return, by name, the fields of an object for `results.json`; nested objects are not converted."""
    always, get_always, optional, get_optional, defaults, _ = _LAYOUTS[type(value)]
    written: dict[str, Any] = dict(zip(always, get_always(value)))  # noqa: B905  equal by construction
    held = get_optional(value)
    if held != defaults:
        for name, field, default in zip(optional, held, defaults):  # noqa: B905  the same
            if field is not default and field != default:
                written[name] = field  # noqa: PERF403  a comprehension of few fields takes longer
    return written


def as_tree(value: "DataclassInstance") -> dict[str, Any]:
    """Return, by name, the fields of an object for `results.json`; nested objects become dicts, too."""
    written = as_dict(value)
    for name in _LAYOUTS[type(value)].nested:
        held = written.get(name)
        if held:
            written[name] = [as_tree(each) for each in held] if type(held) is tuple else as_tree(held)
    return written


@cache
def create_case_serializer() -> "SchemaSerializer":
    """Create the serializer that writes the JSON of a case, with the same fields as `as_tree`.

    Call its `to_json` with `exclude_defaults=True`. This takes half the time of `as_tree` with `to_json`.
    """
    from pydantic_core import SchemaSerializer

    definitions: dict[str, CoreSchema] = {}
    schema = _build_value_schema(CaseResult, definitions)
    return SchemaSerializer({"type": "definitions", "schema": schema, "definitions": [*definitions.values()]})


def _build_value_schema(hint: Any, definitions: "dict[str, CoreSchema]") -> "CoreSchema":
    """Return pydantic-core's schema of a type; add the schemas of its classes to `definitions` by name."""
    args = [arg for arg in get_args(hint) if arg is not NoneType]
    if isinstance(hint, type) and is_dataclass(hint):
        name = hint.__name__
        if name not in definitions:
            definitions[name] = _build_class_schema(hint, definitions)
        return {"type": "definition-ref", "schema_ref": name}
    if not _contains_class(hint):
        return {"type": "any"}
    if get_origin(hint) is tuple:
        items = _build_value_schema(args[0], definitions)
        return {"type": "tuple", "items_schema": [items], "variadic_item_index": 0}
    choices = [_build_value_schema(arg, definitions) for arg in args]
    known: CoreSchema = {"type": "union", "choices": choices} if len(choices) > 1 else choices[0]
    return {"type": "nullable", "schema": known} if len(args) < len(get_args(hint)) else known


def _build_class_schema(kind: Any, definitions: "dict[str, CoreSchema]") -> "CoreSchema":
    hints = get_type_hints(kind)
    written: list[DataclassField] = []
    for name, default in list_written_fields(kind):
        schema = _build_value_schema(hints[name], definitions)
        if default is not NEVER_LEFT_OUT:
            schema = {"type": "default", "schema": schema, "default": default}
        written.append({"type": "dataclass-field", "name": name, "schema": schema})
    name = kind.__name__
    return {
        "type": "dataclass",
        "cls": kind,
        "ref": name,
        "fields": [field["name"] for field in written],
        "schema": {"type": "dataclass-args", "dataclass_name": name, "fields": written},
    }


def replace_unserializable(value: object, depth: int = 0) -> object:
    """Return `value` with everything replaced that JSON cannot hold, except lone surrogates.

    Numbers become None if they are not finite or have more than 4,000 digits. Dataclasses become dicts, and
    objects of other classes become their `repr`. Values more than 100 levels deep become the text "… nested
    too deep"; `depth` is the level of `value` itself.
    """
    if depth > _DEEPEST:
        return "… nested too deep"
    if type(value) in _UNCHANGED:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        value = as_dict(value)
    if isinstance(value, Mapping):
        return {str(key): replace_unserializable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_unserializable(item, depth + 1) for item in value]
    return _replace_unserializable_scalar(value)


def _replace_unserializable_scalar(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if -_BIGGEST < value < _BIGGEST else None
    return value if isinstance(value, str | None) else repr(value)

"""How the lines of a shard are read: everything is checked, but no object is made of what was said.

Most of a line is the conversation, and who merges asks only for that of cases that failed. As plain values
that are dropped at once it is checked, strictly and whole, in half of the time.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from evalgate.model import CaseResult, RunResult
from evalgate.writtencase import RunInLine, WrittenCase

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema

_LATER = "turns"
"""The field that is only checked."""


def read_case(line: bytes) -> WrittenCase:
    """The case that a line of a `results.json` of this version holds.

    Raises:
        ValueError: it holds none.
    """
    case = _adapter().validate_json(line, strict=True)
    case.written_as(line.decode())
    return case


@cache
def _adapter() -> "TypeAdapter[WrittenCase]":
    from pydantic import GetPydanticSchema, TypeAdapter

    return TypeAdapter(Annotated[WrittenCase, GetPydanticSchema(lambda _, handler: _case(handler))])


def _case(handler: "GetCoreSchemaHandler") -> "CoreSchema":
    from pydantic_core import core_schema

    turns = _plain(get_type_hints(RunResult)[_LATER], handler)
    run = _instance(RunInLine, RunResult, {_LATER: turns}, handler)
    runs = core_schema.tuple_schema([run], variadic_item_index=0)
    return _instance(WrittenCase, CaseResult, {"runs": runs}, handler)


def _instance(
    made: type, kind: type, own: "Mapping[str, CoreSchema]", handler: "GetCoreSchemaHandler"
) -> "CoreSchema":
    """What makes a `made` of all fields of `kind` but one; `own` are schemas of some of them."""
    from pydantic_core import core_schema

    hints, known = get_type_hints(kind), fields(kind)
    given = [
        core_schema.dataclass_field(
            field.name,
            _with_default(own.get(field.name) or handler.generate_schema(hints[field.name]), field),
            init_only=field.name == _LATER,
        )
        for field in known
    ]
    # what is `init_only` would go to a `__post_init__`, which nobody has
    arguments = core_schema.dataclass_args_schema(made.__name__, given, collect_init_only=True)
    kept = [field.name for field in known if field.name != _LATER]
    return core_schema.dataclass_schema(made, arguments, kept, slots=True)


def _with_default(schema: "CoreSchema", field: Field[Any]) -> "CoreSchema":
    from pydantic_core import core_schema

    if field.default is MISSING:
        return schema
    return core_schema.with_default_schema(schema, default=field.default)


def _plain(hint: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
    """What takes the JSON of a type and gives plain values: no object for a dataclass."""
    from pydantic_core import core_schema

    if is_dataclass(hint):
        return _plain_fields(hint, handler)
    if get_origin(hint) is tuple:
        return core_schema.list_schema(_plain(get_args(hint)[0], handler))
    kinds = [each for each in get_args(hint) if each is not NoneType]
    if get_origin(hint) not in {Union, UnionType} or not all(map(is_dataclass, kinds)):
        return handler.generate_schema(hint)
    schema = _plain(kinds[0], handler) if len(kinds) == 1 else _plain_union(kinds, handler)
    return core_schema.nullable_schema(schema) if NoneType in get_args(hint) else schema


def _plain_fields(kind: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
    from pydantic_core import core_schema

    hints = get_type_hints(kind)
    return core_schema.typed_dict_schema(
        {
            field.name: core_schema.typed_dict_field(
                _plain(hints[field.name], handler), required=field.default is MISSING
            )
            for field in fields(kind)
        }
    )


def _plain_union(kinds: list[Any], handler: "GetCoreSchemaHandler") -> "CoreSchema":
    """Of dataclasses that `type` tells apart."""
    from pydantic_core import core_schema

    choices = {get_args(get_type_hints(kind)["type"])[0]: _plain(kind, handler) for kind in kinds}
    return core_schema.tagged_union_schema(choices, discriminator="type")

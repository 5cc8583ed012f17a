"""Find and validate the records of shards; conversation turns are parsed lazily.

Most of a line is the conversation, and a merge needs only that of failed cases. Turns are validated
strictly and completely, but as plain values that are dropped at once, which takes half the time.
"""

import glob
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from evalgate import __version__
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import CaseResult, Record, RunResult
from evalgate.datasets.large.lazy_cases import LazyCaseResult, ShardRun
from evalgate.datasets.results_io import is_shard_intact, load_record, read_record_bytes, split_record
from evalgate.system.files import is_readable_name

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema


_LATER = "turns"
"""The field that is validated but not kept."""


def read_shard_case(line: bytes) -> LazyCaseResult:
    """Read the case on a line of a `results.json` of this version.

    Raises:
        ValueError: the line holds no case.
    """
    case = _get_case_adapter().validate_json(line, strict=True)
    case.set_json(line.decode())
    return case


@cache
def _get_case_adapter() -> "TypeAdapter[LazyCaseResult]":
    from pydantic import GetPydanticSchema, TypeAdapter

    return TypeAdapter(
        Annotated[LazyCaseResult, GetPydanticSchema(lambda _, handler: _build_case_schema(handler))]
    )


def _build_case_schema(handler: "GetCoreSchemaHandler") -> "CoreSchema":
    from pydantic_core import core_schema

    turns = _build_plain_schema(get_type_hints(RunResult)[_LATER], handler)
    run = _build_instance_schema(ShardRun, RunResult, {_LATER: turns}, handler)
    runs = core_schema.tuple_schema([run], variadic_item_index=0)
    return _build_instance_schema(LazyCaseResult, CaseResult, {"runs": runs}, handler)


def _build_instance_schema(
    made: type, kind: type, own: "Mapping[str, CoreSchema]", handler: "GetCoreSchemaHandler"
) -> "CoreSchema":
    """Build a schema that creates a `made` from the fields of `kind`, without keeping `_LATER`.

    `own` are schemas that replace those of some fields.
    """
    from pydantic_core import core_schema

    hints, known = get_type_hints(kind), fields(kind)
    given = [
        core_schema.dataclass_field(
            field.name,
            _add_default(own.get(field.name) or handler.generate_schema(hints[field.name]), field),
            init_only=field.name == _LATER,
        )
        for field in known
    ]
    # An `init_only` field would be passed to `__post_init__`, which these classes do not have.
    arguments = core_schema.dataclass_args_schema(made.__name__, given, collect_init_only=True)
    kept = [field.name for field in known if field.name != _LATER]
    return core_schema.dataclass_schema(made, arguments, kept, slots=True)


def _add_default(schema: "CoreSchema", field: Field[Any]) -> "CoreSchema":
    from pydantic_core import core_schema

    if field.default is MISSING:
        return schema
    return core_schema.with_default_schema(schema, default=field.default)


def _build_plain_schema(hint: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
    """Build a schema that validates the JSON of a type and returns plain values instead of dataclasses."""
    from pydantic_core import core_schema

    if is_dataclass(hint):
        return _build_plain_fields_schema(hint, handler)
    if get_origin(hint) is tuple:
        return core_schema.list_schema(_build_plain_schema(get_args(hint)[0], handler))
    kinds = [each for each in get_args(hint) if each is not NoneType]
    if get_origin(hint) not in {Union, UnionType} or not all(map(is_dataclass, kinds)):
        return handler.generate_schema(hint)
    schema = (
        _build_plain_schema(kinds[0], handler)
        if len(kinds) == 1
        else _build_plain_union_schema(kinds, handler)
    )
    return core_schema.nullable_schema(schema) if NoneType in get_args(hint) else schema


def _build_plain_fields_schema(kind: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
    from pydantic_core import core_schema

    hints = get_type_hints(kind)
    return core_schema.typed_dict_schema(
        {
            field.name: core_schema.typed_dict_field(
                _build_plain_schema(hints[field.name], handler), required=field.default is MISSING
            )
            for field in fields(kind)
        }
    )


def _build_plain_union_schema(kinds: list[Any], handler: "GetCoreSchemaHandler") -> "CoreSchema":
    """Build the schema of a union of dataclasses with different values of `type`."""
    from pydantic_core import core_schema

    choices = {
        get_args(get_type_hints(kind)["type"])[0]: _build_plain_schema(kind, handler) for kind in kinds
    }
    return core_schema.tagged_union_schema(choices, discriminator="type")


def find_shards(patterns: Sequence[str], *, base: Path) -> tuple[str, ...]:
    """Return the files that files, folders and globs name, relative to `base`, in their order.

    A folder is replaced by every `results.json` in it, at any depth, or by the one that should be there. A
    name that matches nothing stays as written, as in a shell: reading it reports that there is no such
    file.
    """
    return tuple(file for pattern in patterns for file in _expand_pattern(pattern, base) or [pattern])


def _expand_pattern(pattern: str, base: Path) -> list[str]:
    path = base / pattern
    if path.is_dir():
        found = sorted(file.relative_to(path) for file in path.rglob("results.json"))
        return [str(Path(pattern) / file) for file in found or [Path("results.json")]]
    if path.exists() or not glob.has_magic(pattern):
        return [pattern]
    names = glob.glob(pattern, root_dir=base, recursive=True)  # noqa: PTH207  as eval sets are found
    return sorted(name for name in names if is_readable_name(base / name))


def read_shard(path: Path, shown_as: str) -> Record:
    """Read the record of a shard, its cases as `LazyCaseResult` if this version wrote them.

    Raises:
        InvalidInputError: as `read_record`; or this version wrote the shard, and it was changed since.
    """
    data = read_record_bytes(path, shown_as)
    record = _read_any(data, shown_as)
    if record.shard is not None and record.evalgate_version == __version__ and not is_shard_intact(data):
        message = "was changed since the shard wrote it: run the shard again, or take its file as it was"
        raise InvalidInputError([Problem(shown_as, 0, 0, message)])
    return record


def _read_any(data: bytes, shown_as: str) -> Record:
    with suppress(InvalidInputError, ValueError):  # `load_record` reports the error
        return _read_current_version(data, shown_as)
    return load_record(data, shown_as)


def _read_current_version(data: bytes, shown_as: str) -> Record:
    record, lines = split_record(data, shown_as)
    if record.evalgate_version != __version__:
        raise ValueError("written by another version")
    return replace(record, cases=tuple(_iter_cases(lines)))


def _iter_cases(lines: Iterable[bytes]) -> Iterator[LazyCaseResult]:
    for line in lines:
        if b"\n" in line:
            raise ValueError("written by another program")
        yield read_shard_case(line)

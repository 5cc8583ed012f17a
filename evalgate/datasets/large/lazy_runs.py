"""Stored results that keep each conversation as JSON until its turns are read for the first time.

Conversations take up most of a results file, but a merge of shards needs only the conversations of failed
cases. When a file is read, all turns are validated strictly and completely. The validation decodes them to
dicts and drops the dicts at once, which takes half the time of building objects.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, lru_cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from typing_extensions import override

from evalgate.core.types import CaseResult, RunResult, TurnResult
from evalgate.datasets.results_encoder import EncodedTurns
from evalgate.datasets.results_io import get_case_adapter
from evalgate.redaction.redactor import RedactedJson

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema


_TURNS = "turns"
"""Name of the field of a run that is validated when a shard is read, but not kept."""

_get_case_fields = attrgetter(*(each.name for each in fields(CaseResult)))
_get_run_fields = attrgetter(*(each.name for each in fields(RunResult)))


class StoredRun(RunResult, EncodedTurns):
    """A run that decodes its turns on first access. It equals a `RunResult` with the same fields.

    `dataclasses.replace` returns a run with decoded turns.
    """

    __slots__ = ()

    def load_turns(self) -> tuple[TurnResult, ...]:
        """Return the turns, decoded from their JSON."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> tuple[TurnResult, ...]:
        """Decode, store and return the turns. Python calls this method only while `turns` is not stored.

        Raises:
            AttributeError: `name` is not `turns`.
        """
        if name != _TURNS:
            raise AttributeError(name)
        turns = self.load_turns()
        object.__setattr__(self, name, turns)
        return turns

    def __eq__(self, other: object) -> bool:
        # Frozen classes compare only objects of the same class, and this one must equal an ordinary run.
        if not isinstance(other, RunResult):
            return NotImplemented
        return bool(_get_run_fields(self) == _get_run_fields(other))

    __hash__ = RunResult.__hash__


class ShardRun(StoredRun):
    """A stored run with turns that are decoded from the JSON line of its case."""

    __slots__ = ("_at", "_turn_scores")
    _at: tuple[str, int]
    """JSON of the case, and the index of this run in it."""
    _turn_scores: tuple[tuple[str, float | None], ...]

    def __post_init__(self, turns: Sequence[Mapping[str, Any]]) -> None:
        """Keep the metric scores of all turns, because a merge reads them; pydantic passes turns as dicts."""
        scores = [(each["name"], each["score"]) for turn in turns for each in turn.get("metrics", ())]
        object.__setattr__(self, "_turn_scores", tuple(scores))

    @property
    def turn_scores(self) -> Sequence[tuple[str, float | None]] | None:
        """Return (name, score) of each metric of each turn; None in a copy by `dataclasses.replace`."""
        return getattr(self, "_turn_scores", None)

    def set_source(self, line: str, index: int) -> None:
        """Set the JSON of the case and the index of this run in it. Call this method once."""
        object.__setattr__(self, "_at", (line, index))

    @override
    def load_turns(self) -> tuple[TurnResult, ...]:
        line, index = self._at
        return _parse_case(line).runs[index].turns

    @override
    def load_turn_values(self) -> list[object] | None:
        if not hasattr(self, "_at"):
            return None
        line, index = self._at
        return _parse_turns(line)[index]


class JournalRun(StoredRun):
    """A stored run with turns that are decoded from a row of the journal, which `--resume` reads."""

    __slots__ = ("_source",)
    _source: tuple[bytes, Callable[[bytes], tuple[TurnResult, ...]], Callable[[bytes], list[object]]]
    """The row, and functions that return its turns as objects and as plain values."""

    def defer_turns(
        self,
        row: bytes,
        decode: Callable[[bytes], tuple[TurnResult, ...]],
        to_values: Callable[[bytes], list[object]],
    ) -> None:
        """Drop the turns of this run, and decode them from `row` when they are first used.

        Call this method at most once.

        Args:
            row: Row of the journal.
            decode: Function that returns the turns in the row as objects.
            to_values: Function that returns the turns in the row as plain JSON values.
        """
        object.__delattr__(self, _TURNS)
        object.__setattr__(self, "_source", (row, decode, to_values))

    @override
    def load_turns(self) -> tuple[TurnResult, ...]:
        row, decode, _ = self._source
        return decode(row)

    @override
    def load_turn_values(self) -> list[object] | None:
        if not hasattr(self, "_source"):
            return None
        row, _, to_values = self._source
        return to_values(row)


class ShardCase(CaseResult, RedactedJson):
    """A case of a shard's record that keeps its JSON, so that a merged record copies the JSON as it is.

    The case equals a `CaseResult` with the same fields. This version of evalgate must have written the JSON.
    `dataclasses.replace` returns a case without JSON.
    """

    __slots__ = ("_json",)
    _json: str

    @property
    def json(self) -> str:
        """Return the JSON of the case on one line; "" if it is unknown."""
        return getattr(self, "_json", "")

    def set_json(self, line: str) -> None:
        """Set the JSON of the case and its runs. Call this method once."""
        object.__setattr__(self, "_json", line)
        for index, run in enumerate(self.runs):
            if isinstance(run, ShardRun):
                run.set_source(line, index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CaseResult):
            return NotImplemented
        return bool(_get_case_fields(self) == _get_case_fields(other))

    __hash__ = CaseResult.__hash__


# Callers usually read all runs of a case one after the other. A cache of one line avoids parsing that line
# again for each run.


@lru_cache(maxsize=1)
def _parse_case(line: str) -> CaseResult:
    return get_case_adapter().validate_json(line, strict=True)


@lru_cache(maxsize=1)
def _parse_turns(line: str) -> list[list[object]]:
    """Return the turns of each run as plain values, which must not be modified: they are cached."""
    from pydantic_core import from_json

    return [run[_TURNS] for run in from_json(line)["runs"]]


# --- reading a line of a shard ------------------------------------------------------------------------------


def read_shard_case(line: bytes) -> ShardCase:
    """Read the case on a line of a `results.json` of this version.

    Raises:
        ValueError: the line holds no case.
    """
    case = _get_shard_adapter().validate_json(line, strict=True)
    case.set_json(line.decode())
    return case


@cache
def _get_shard_adapter() -> "TypeAdapter[ShardCase]":
    from pydantic import GetPydanticSchema, TypeAdapter

    return TypeAdapter(
        Annotated[ShardCase, GetPydanticSchema(lambda _, handler: _build_case_schema(handler))]
    )


def _build_case_schema(handler: "GetCoreSchemaHandler") -> "CoreSchema":
    from pydantic_core import core_schema

    turns = _build_plain_schema(get_type_hints(RunResult)[_TURNS], handler)
    run = _build_instance_schema(ShardRun, RunResult, {_TURNS: turns}, handler)
    runs = core_schema.tuple_schema([run], variadic_item_index=0)
    return _build_instance_schema(ShardCase, CaseResult, {"runs": runs}, handler)


def _build_instance_schema(
    made: type, kind: type, own: "Mapping[str, CoreSchema]", handler: "GetCoreSchemaHandler"
) -> "CoreSchema":
    """Build a schema that creates objects of `made`, a subclass of the dataclass `kind`.

    The field `turns` is validated and passed to `__post_init__`, but not stored. `own` maps names of fields
    to schemas that replace the schemas of the fields' types.
    """
    from pydantic_core import core_schema

    hints, known = get_type_hints(kind), fields(kind)
    given = [
        core_schema.dataclass_field(
            field.name,
            _add_default(own.get(field.name) or handler.generate_schema(hints[field.name]), field),
            init_only=field.name == _TURNS,
        )
        for field in known
    ]
    arguments = core_schema.dataclass_args_schema(made.__name__, given, collect_init_only=True)
    kept = [field.name for field in known if field.name != _TURNS]
    # An `init_only` field is passed to `__post_init__`.
    has_turns = len(kept) < len(known)
    return core_schema.dataclass_schema(made, arguments, kept, slots=True, post_init=has_turns)


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

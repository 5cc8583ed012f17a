"""The record as JSON: `results.json`, which every other report and every later run reads.

One JSON object; its keys are the field names of `evalgate.model.Record`, `schema_version` first, and each
case on a line of its own. Fields that a program may rely on always stand, as null when there is nothing to
say; the JSON Schema calls them required. The others (`reason`, `details`, `failure`, `final_state`,
`earlier_attempts`, `line`, …) are left out where they hold their default.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

from evalgate import model
from evalgate.errors import InvalidInput, Problem
from evalgate.model import SCHEMA_VERSION, CaseResult, Record
from evalgate.system.collector import collector_paused
from evalgate.writtencase import WrittenCase, WrittenRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import DataclassInstance
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

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
"""Fields that have a default and stand in the JSON all the same."""

_FIRST = ("schema_version", "type")
_MOST_PROBLEMS = 20
_DEEPEST = 100
_MOST_DIGITS = 4000  # Python neither writes nor reads much longer integers
_BIGGEST = 10**_MOST_DIGITS
_HUGE = re.compile(rf"[0-9]{{{_MOST_DIGITS}}}")
_UNPRINTABLE = re.compile("[\x80-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""C1 controls, line separators, direction marks, lone surrogates."""


def dump_record(record: Record) -> str:
    """The text of `results.json`: always valid JSON in valid UTF-8, and the same for the same record.

    What the data model forbids is mended rather than allowed to lose the report: a lone surrogate becomes
    U+FFFD, a number that is not finite null, anything that JSON cannot hold a text.
    """
    return "".join(record_pieces(record))


def record_pieces(record: Record) -> Iterator[str]:
    """The same in pieces of a case each: the text of a large run need not stand in memory."""
    head = _as_dict(record)
    del head["cases"]
    yield _encoded(head, indent=1).removesuffix("\n}")
    if not record.cases:
        yield ',\n "cases": []\n}\n'
        return
    before = ',\n "cases": [\n'
    for case in record.cases:
        yield before
        yield (case.json if isinstance(case, WrittenCase) else "") or _line(case)
        before = ",\n"
    yield "\n ]\n}\n"


def read_record(path: Path, shown_as: str) -> Record:
    """Read the file that `dump_record` wrote.

    Raises:
        InvalidInput: there is no such file, it cannot be read, or as `load_record`.
    """
    return load_record(read_bytes(path, shown_as), shown_as)


def read_bytes(path: Path, shown_as: str) -> bytes:
    """The content of such a file.

    Raises:
        InvalidInput: there is none, or it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"{shown_as}: no such file. `evalgate run` writes it.") from None
    except OSError as error:
        raise InvalidInput(f"{shown_as}: cannot be read: {error.strerror}") from None


def load_record(data: str | bytes, shown_as: str) -> Record:
    """Read what `dump_record` wrote; keys that this version does not know are ignored.

    `shown_as` is how messages call the file.

    Raises:
        InvalidInput: not JSON, not a record, or of a newer schema.
    """
    from pydantic import ValidationError

    text = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    text = text.removeprefix(_BYTE_ORDER_MARK)
    is_ours = _is_of_this_schema(text)
    if not is_ours:
        _check_schema_version(text, shown_as)
    try:
        with collector_paused():
            return _adapter().validate_json(text, strict=True)
    except ValidationError as error:
        if is_ours:
            _check_schema_version(text, shown_as)
        raise _invalid(shown_as, *_messages(error.errors(include_url=False))) from None


def record_schema() -> dict[str, Any]:
    """JSON Schema of `results.json`, for programs in other languages that read it."""
    schema = _adapter().json_schema(mode="validation")
    schema["required"] = _PLANS[Record].always
    for name, definition in schema["$defs"].items():
        definition["required"] = _PLANS[getattr(model, name)].always
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "evalgate results.json",
    }


# --- writing ------------------------------------------------------------------------------------------------


class _Plan(NamedTuple):
    """How the fields of a class are written."""

    always: tuple[str, ...]
    always_of: "Callable[[object], tuple[object, ...]]"
    optional: tuple[str, ...]
    optional_of: "Callable[[object], tuple[object, ...]]"
    usual: tuple[object, ...]
    """What `optional_of` gives when every optional field holds its default."""
    nested: tuple[str, ...]
    """Fields that may hold further classes, alone or in a tuple."""


class _Plans(dict["type[DataclassInstance]", _Plan]):
    """Made on first use of a class; a plain look-up from then on, for this is the hot path of a report."""

    def __missing__(self, kind: "type[DataclassInstance]") -> _Plan:
        defaults = {field.name: field.default for field in fields(kind)}
        always = [name for name in defaults if defaults[name] is MISSING or name in _ALWAYS_WRITTEN]
        always.sort(key=lambda name: name not in _FIRST)
        optional = tuple(name for name in defaults if name not in always)
        usual = tuple(defaults[name] for name in optional)
        nested = tuple(name for name, hint in get_type_hints(kind).items() if _holds_a_class(hint))
        always_of = _values_of(always)
        if issubclass(kind, WrittenRun):
            always_of, nested = _values_as_read(always), tuple(name for name in nested if name != "turns")
        plan = _Plan(tuple(always), always_of, optional, _values_of(optional), usual, nested)
        self[kind] = plan
        return plan


def _values_of(names: Sequence[str]) -> "Callable[[object], tuple[object, ...]]":
    """As `attrgetter`, and a tuple for any number of names."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _values_as_read(names: Sequence[str]) -> "Callable[[object], tuple[object, ...]]":
    """The same for a run whose turns are JSON already."""

    def values(run: object) -> tuple[object, ...]:
        if not isinstance(run, WrittenRun) or (turns := run.said_as_json()) is None:
            turns = [_as_tree(turn) for turn in getattr(run, "turns", ())]
        return tuple([turns if name == "turns" else getattr(run, name) for name in names])

    return values


def _holds_a_class(hint: object) -> bool:
    return is_dataclass(hint) or any(map(_holds_a_class, get_args(hint)))


_PLANS = _Plans()


def _as_dict(value: "DataclassInstance") -> dict[str, Any]:
    always, always_of, optional, optional_of, usual, _ = _PLANS[type(value)]
    written: dict[str, Any] = dict(zip(always, always_of(value)))  # noqa: B905  equal by construction
    held = optional_of(value)
    if held != usual:
        for name, field, default in zip(optional, held, usual):  # noqa: B905  the same
            if field is not default and field != default:
                written[name] = field  # noqa: PERF403  a comprehension of few fields takes longer
    return written


def _as_tree(value: "DataclassInstance") -> dict[str, Any]:
    written = _as_dict(value)
    for name in _PLANS[type(value)].nested:
        held = written.get(name)
        if held:
            written[name] = [_as_tree(each) for each in held] if type(held) is tuple else _as_tree(held)
    return written


def _line(case: CaseResult) -> str:
    """As `_encoded`, in two thirds of the time."""
    from pydantic_core import PydanticSerializationError, to_json

    try:
        text = to_json(_as_tree(case), inf_nan_mode="null").decode()
    except (PydanticSerializationError, TypeError, ValueError):  # what the model forbids
        return _encoded(mended(case))
    return _printable(text) if len(text) < _MOST_DIGITS or not _HUGE.search(text) else _encoded(mended(case))


_COMPACT = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"), default=_as_dict
)
_INDENTED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=1, default=_as_dict)


def _encoded(value: object, indent: int = 0) -> str:
    encoder = _INDENTED if indent else _COMPACT
    try:
        text = encoder.encode(value)
    except (
        ValueError,
        TypeError,
        RecursionError,
    ):  # a value that the model forbids, or a mapping of another type
        text = encoder.encode(mended(value))
    return _printable(text)


def _printable(text: str) -> str:
    """The same JSON, harmless to print: no workflow command, nothing that moves or hides text."""
    text = text.replace("##[", "##\\u005b")
    return text if text.isascii() else _UNPRINTABLE.sub(_as_escape, text)


def _as_escape(match: re.Match[str]) -> str:
    lone_surrogate = "\ud800" <= match[0] <= "\udfff"
    return "\N{REPLACEMENT CHARACTER}" if lone_surrogate else f"\\u{ord(match[0]):04x}"


def mended(value: object, depth: int = 0) -> object:
    """`value` in what JSON can hold, but for lone surrogates."""
    if depth > _DEEPEST:
        return "… nested too deep"
    if is_dataclass(value) and not isinstance(value, type):
        value = _as_dict(value)
    if isinstance(value, Mapping):
        return {str(key): mended(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mended(item, depth + 1) for item in value]
    return _mended_scalar(value)


def _mended_scalar(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if -_BIGGEST < value < _BIGGEST else None
    return value if isinstance(value, str | None) else repr(value)


# --- reading ------------------------------------------------------------------------------------------------


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEGINNING = re.compile(rb'\s*\{\s*"schema_version"\s*:\s*(\d{1,6})\s*[,}]')


@cache
def _adapter() -> "TypeAdapter[Record]":
    """Pydantic's reader of a record; built on first use, because building it costs more than a small run."""
    from pydantic import TypeAdapter

    return TypeAdapter(Record)


def _is_of_this_schema(text: bytes) -> bool:
    """Whether the file begins as one that this version wrote: then it need not be parsed twice."""
    found = _BEGINNING.match(text)
    return found is not None and 1 <= int(found[1]) <= SCHEMA_VERSION


def _check_schema_version(text: bytes, shown_as: str) -> None:
    from pydantic_core import from_json

    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise _invalid(shown_as, f"is not JSON: {error}") from None
    version = value.get("schema_version") if isinstance(value, dict) else None
    if type(version) is not int or version < 1:
        raise _invalid(shown_as, "is not a results.json of evalgate: it has no schema_version")
    if version > SCHEMA_VERSION:
        raise _invalid(
            shown_as,
            f"was written by a newer evalgate (schema {version}; this one reads up to {SCHEMA_VERSION}): "
            "upgrade evalgate",
        )


def _invalid(shown_as: str, *messages: str) -> InvalidInput:
    return InvalidInput(Problem(shown_as, 0, 0, message) for message in messages)


def _messages(errors: "list[ErrorDetails]") -> list[str]:
    messages = [f"{_json_path(error['loc'])}: {error['msg']}" for error in errors]
    more = len(messages) - _MOST_PROBLEMS
    return [*messages[:_MOST_PROBLEMS], f"… and {more} more problems"] if more > 0 else messages


def _json_path(location: tuple[int | str, ...]) -> str:
    """`cases[3].runs[0].outcome`; the class names that pydantic puts between are left out."""
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part not in _CLASSES
    )
    return "".join(parts).removeprefix(".") or "the document"


_CLASSES = ("ToolCall", "ToolResult", "Message")

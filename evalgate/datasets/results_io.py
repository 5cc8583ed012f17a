"""Reading and writing of `results.json`, the record of a run, which reports and later runs read.

The file is one JSON object. Its keys are the field names of `evalgate.core.types.Record`, with
`schema_version` first. Each case has a line of its own. `results_encoder` decides which fields are always
written; the JSON Schema marks them as required.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalgate.core import types
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.lazy_pattern import compile_lazily
from evalgate.core.types import SCHEMA_VERSION, CaseResult, Record
from evalgate.datasets.results_encoder import (
    MOST_DIGITS,
    EncodedTurns,
    as_dict,
    as_tree,
    create_case_serializer,
    list_required_fields,
    replace_unserializable,
)
from evalgate.redaction.redactor import RedactedJson
from evalgate.system.files import read_input_file
from evalgate.system.gc import pause_gc

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails


_MOST_PROBLEMS = 20
_HUGE = compile_lazily(rf"[0-9]{{{MOST_DIGITS}}}")
_UNPRINTABLE = compile_lazily("[\x80-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that are escaped in the file: C1 controls, line separators and direction marks. Lone surrogates,
which match as well, become U+FFFD."""


def dump_record(record: Record) -> str:
    """Return the text of `results.json`: valid JSON that UTF-8 can encode. Equal records have equal texts.

    Values that the data model forbids are replaced, so that no report is lost. A lone surrogate becomes
    U+FFFD. A number that is not finite or has more than 4,000 digits becomes null. Any other value that
    JSON cannot hold becomes its `repr`.
    """
    return "".join(iter_record_chunks(record))


def iter_record_chunks(record: Record) -> Iterator[str]:
    """Yield the text of `results.json` in parts, so that the whole text of a large run is never in memory.

    Each case is one part. A shard's record is encoded twice, the first time to compute its digest.
    """
    if record.shard is None:
        return _iter_chunks(record)
    whole = sha256()
    for piece in _iter_chunks(record, _NO_DIGEST):
        whole.update(piece.encode())
    return _iter_chunks(record, whole.hexdigest())


def is_shard_intact(data: bytes) -> bool:
    """Return True if the `shard_digest` in a shard's `results.json` matches the other bytes of the file.

    Return False if `data` has no digest. `iter_record_chunks` writes the digest.
    """
    found = _digest.search(data)
    if found is None:
        return False
    whole = sha256(data[: found.start(1)])
    whole.update(_NO_DIGEST.encode())
    whole.update(memoryview(data)[found.end(1) :])
    return whole.hexdigest().encode() == found[1]


_NO_DIGEST = "0" * 64
"""Placeholder for the digest while it is computed."""
_DIGEST_KEY = "shard_digest"
_digest = compile_lazily(rb'\n "shard_digest": "([0-9a-f]{64})"')  # no text within JSON holds a line end


def _iter_chunks(record: Record, digest: str = "") -> Iterator[str]:
    head = as_dict(record)
    del head["cases"]
    if digest:
        head[_DIGEST_KEY] = digest
    yield _encode_value(head, indent=1).removesuffix("\n}")
    if not record.cases:
        yield ',\n "cases": []\n}\n'
        return
    before = ',\n "cases": [\n'
    for case in record.cases:
        yield before
        yield (case.json if isinstance(case, RedactedJson) else "") or _encode_case(case)
        before = ",\n"
    yield "\n ]\n}\n"


def read_record(path: Path, shown_as: str) -> Record:
    """Read a `results.json`.

    Raises:
        InvalidInputError: the file is missing, cannot be read, is not JSON, is no record, or has a newer
            schema.
    """
    return load_record(read_record_bytes(path, shown_as), shown_as)


def read_record_bytes(path: Path, shown_as: str) -> bytes:
    """Read the bytes of a `results.json`.

    Raises:
        InvalidInputError: the file is missing or cannot be read.
    """
    try:
        return read_input_file(path, shown_as)
    except FileNotFoundError:
        raise InvalidInputError(f"{shown_as}: no such file. `evalgate run` writes it.") from None
    except OSError as error:
        raise InvalidInputError(f"{shown_as}: cannot be read: {error.strerror}") from None


class NoRecordError(InvalidInputError):
    """Error for JSON that is not a `results.json`."""


def load_record(data: str | bytes, shown_as: str) -> Record:
    """Parse the content of a `results.json`; keys that this version does not know are ignored.

    `shown_as` names the file in messages.

    Raises:
        InvalidInputError: the content is not JSON, is no record, or has a newer schema.
    """
    from pydantic import ValidationError

    text = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    text = text.removeprefix(_BYTE_ORDER_MARK)
    # Files that begin with a known schema version, as ours do, need not be parsed twice.
    beginning = _BEGINNING.match(text)
    is_ours = beginning is not None and 1 <= int(beginning[1]) <= SCHEMA_VERSION
    # Pydantic accepts NaN, which is no JSON: a score of NaN would be below no threshold.
    if not is_ours or b"NaN" in text or b"Infinity" in text:
        _check_schema_version(text, shown_as)
    try:
        with pause_gc():
            record = _get_record_adapter().validate_json(text, strict=True)
    except ValidationError as error:
        if is_ours:
            _check_schema_version(text, shown_as)
        raise InvalidInputError(_convert_errors(error.errors(include_url=False), text, shown_as)) from None
    try:
        _ = record.timestamp
    except ValueError:
        place = _build_position_finder(text, shown_as)(("created_at",))
        raise InvalidInputError(
            [Problem(shown_as, *place, "created_at: Input should be a time in ISO 8601")]
        ) from None
    return record


def build_record_schema() -> dict[str, Any]:
    """Return the JSON Schema of `results.json`, for programs in other languages."""
    schema = _get_record_adapter().json_schema(mode="validation")
    schema["required"] = list_required_fields(Record)
    schema["properties"][_DIGEST_KEY] = {
        "description": "SHA-256 of a shard's file, computed with zeros in this field. `evalgate merge` "
        "refuses a shard whose text is another.",
        "pattern": "^[0-9a-f]{64}$",
        "type": "string",
    }
    for name, definition in schema["$defs"].items():
        definition["required"] = list_required_fields(getattr(types, name))
        if "description" in definition:  # the docstring; its example is in Python
            definition["description"] = definition["description"].partition("\n\n>>>")[0]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "evalgate results.json",
    }


# --- writing ------------------------------------------------------------------------------------------------


def _encode_case(case: CaseResult) -> str:
    """Return the JSON of a case on one line: the text of `_encode_value`, but in a third of the time."""
    try:
        if any(isinstance(run, EncodedTurns) for run in case.runs):
            from pydantic_core import to_json

            text = to_json(as_tree(case), inf_nan_mode="null").decode()
        else:
            write = create_case_serializer().to_json
            text = write(case, exclude_defaults=True, warnings="error").decode()
    except (TypeError, ValueError):  # a value that the model forbids
        return _encode_value(replace_unserializable(case))
    return (
        _escape_unprintable(text)
        if len(text) < MOST_DIGITS or not _HUGE.search(text)
        else _encode_value(replace_unserializable(case))
    )


_COMPACT = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"), default=as_dict
)
_INDENTED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=1, default=as_dict)


def _encode_value(value: object, indent: int = 0) -> str:
    encoder = _INDENTED if indent else _COMPACT
    try:
        text = encoder.encode(value)
    except (
        ValueError,
        TypeError,
        RecursionError,
    ):  # a value that the model forbids, or a mapping of another type
        text = encoder.encode(replace_unserializable(value))
    return _escape_unprintable(text)


def _escape_unprintable(text: str) -> str:
    """Escape CI commands (`##[…`) and characters that move or hide text: the JSON is then safe to print."""
    if "#" in text:  # one character is searched for much faster than three
        text = text.replace("##[", "##\\u005b")
    return text if text.isascii() else _UNPRINTABLE.sub(_escape_match, text)


def _escape_match(match: re.Match[str]) -> str:
    lone_surrogate = "\ud800" <= match[0] <= "\udfff"
    return "\N{REPLACEMENT CHARACTER}" if lone_surrogate else f"\\u{ord(match[0]):04x}"


# --- reading ------------------------------------------------------------------------------------------------


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEGINNING = compile_lazily(rb'\s*\{\s*"schema_version"\s*:\s*(\d{1,6})\s*[,}]')


@cache
def _get_record_adapter() -> "TypeAdapter[Record]":
    """Return pydantic's adapter of `Record`. The first call builds it, and takes longer than a small run."""
    from pydantic import TypeAdapter

    return TypeAdapter(Record)


def _check_schema_version(text: bytes, shown_as: str) -> None:
    from pydantic_core import from_json

    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidInputError([_build_not_json_problem(str(error), shown_as)]) from None
    version = value.get("schema_version") if isinstance(value, dict) else None
    if type(version) is not int or version < 1:
        message = "is not a results.json of evalgate: it has no schema_version"
        raise NoRecordError([Problem(shown_as, 0, 0, message)])
    if version > SCHEMA_VERSION:
        message = (
            f"was written by a newer evalgate (schema {version}; this one reads up to {SCHEMA_VERSION}): "
            "upgrade evalgate"
        )
        raise InvalidInputError([Problem(shown_as, 0, 0, message)])


def _convert_errors(errors: "list[ErrorDetails]", text: bytes, shown_as: str) -> list[Problem]:
    if errors[0]["type"] == "json_invalid":
        return [_build_not_json_problem(errors[0]["msg"].removeprefix("Invalid JSON: "), shown_as)]
    position = _build_position_finder(text, shown_as)
    problems = [
        Problem(shown_as, *position(error["loc"]), f"{_format_json_path(error['loc'])}: {error['msg']}")
        for error in errors[:_MOST_PROBLEMS]
    ]
    more = len(errors) - _MOST_PROBLEMS
    return [*problems, Problem(shown_as, 0, 0, f"… and {more:,} more problems")] if more > 0 else problems


_own_position = compile_lazily(r" at line (\d+) column (\d+)$")


def _build_not_json_problem(complaint: str, shown_as: str) -> Problem:
    found = _own_position.search(complaint)
    line, column = (int(found[1]), max(int(found[2]), 1)) if found else (0, 0)
    return Problem(shown_as, line, column, f"is not JSON: {_own_position.sub('', complaint)}")


def _build_position_finder(
    text: bytes, shown_as: str
) -> "Callable[[tuple[int | str, ...]], tuple[int, int]]":
    """Return a function that takes a pydantic location and returns the line and column of its value.

    If the text is not strict JSON, the function returns (0, 0) for each location.
    """
    from evalgate.documents.strict_json import parse_json

    try:
        document = parse_json(text, shown_as)
    except InvalidInputError:
        return lambda _: (0, 0)
    return lambda location: document.find_position(tuple(part for part in location if part not in _CLASSES))


def _format_json_path(location: tuple[int | str, ...]) -> str:
    """Return a pydantic location as `cases[3].runs[0].outcome`, without class names that pydantic inserts."""
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part not in _CLASSES
    )
    return "".join(parts).removeprefix(".") or "the document"


_CLASSES = ("ToolCall", "ToolResult", "Message")


_BEFORE, _BETWEEN, _AFTER = b',\n "cases": [\n', b",\n", b"\n ]\n}\n"
"""Bytes before, between and after the lines of cases. They never occur within the JSON of a case, because
this JSON has no line end."""


def split_record(data: bytes, shown_as: str) -> tuple[Record, Iterator[bytes]]:
    """Return the record of a `results.json`, but without its cases, and an iterator over each case's JSON.

    Raises:
        ValueError: the file does not have the layout of `dump_record`, or has no cases.
        InvalidInputError: the file without its cases is not JSON, is no record, or has a newer schema.
    """
    begin = data.find(_BEFORE)
    if begin < 0 or not data.endswith(_AFTER):
        raise ValueError("written by another program")
    head = load_record(data[:begin] + _BEFORE + b"]}", shown_as)
    return head, _iter_case_lines(data, begin + len(_BEFORE), len(data) - len(_AFTER))


def _iter_case_lines(data: bytes, start: int, stop: int) -> Iterator[bytes]:
    while (end := data.find(_BETWEEN, start, stop)) >= 0:
        yield data[start:end]
        start = end + len(_BETWEEN)
    yield data[start:stop]


def load_case(line: bytes, shown_as: str) -> CaseResult:
    """Parse the JSON of one case, as `split_record` yields it.

    Raises:
        InvalidInputError: the JSON is not a case.
    """
    from pydantic import ValidationError

    try:
        return get_case_adapter().validate_json(line, strict=True)
    except ValidationError as error:
        raise InvalidInputError(_convert_errors(error.errors(include_url=False), line, shown_as)) from None


@cache
def get_case_adapter() -> "TypeAdapter[CaseResult]":
    """Return pydantic's adapter of one case; the first call takes tens of milliseconds to build it."""
    from pydantic import TypeAdapter

    return TypeAdapter(CaseResult)

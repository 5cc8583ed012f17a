"""Models that are read and written as the JSON of tRPC-Agent-Go's structs.

Reading ignores case and underscores in keys. Empty fields are not written, except those in `always_written`.
"""

import re
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, ClassVar, Self, TypeVar

from pydantic import ConfigDict, ValidationInfo, model_validator
from pydantic.alias_generators import to_camel
from typing_extensions import override

from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.documents.key_spelling import match_spelling, normalize_key
from evalgate.documents.strict_json import JsonDocument, Location, parse_json
from evalgate.documents.validation_errors import validate_model
from evalgate.integrations.trpc.file_models import TrpcModel
from evalgate.integrations.trpc.go_json import dump_compact_json

FROM_FILE: Mapping[str, object] = {"from_file": True}
"""Validation context for the content of a file: unknown keys are kept."""


class WireModel(TrpcModel):
    """Mutable model of a struct of tRPC-Agent-Go.

    Unknown keys of a file are kept and written back. Python code can set only known keys: a misspelt
    `threshold` raises an error, whereas it would leave the threshold at 0 in Go.
    """

    model_config = ConfigDict(
        extra="allow",
        frozen=False,
        populate_by_name=True,
        alias_generator=to_camel,
        validate_assignment=False,
    )

    always_written: ClassVar[frozenset[str]] = frozenset()
    """Fields that Go writes even if they are empty."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_names(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, Mapping) and info.context is not FROM_FILE:
            known = cls.get_known_keys()
            for name in value:
                if name not in cls.model_fields and normalize_key(name) not in known:
                    raise ValueError(f"has no field {name!r}.{did_you_mean(name, list(cls.model_fields))}")
        return value

    @override
    def __setattr__(self, name: str, value: object) -> None:
        known = type(self).model_fields
        if name not in known and not name.startswith("_") and name not in (self.model_extra or {}):
            raise AttributeError(
                f"{type(self).__name__} has no field {name!r}.{did_you_mean(name, list(known))}"
            )
        super().__setattr__(name, value)

    @override
    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Copy the model deeply, but share its functions."""
        memo = {} if memo is None else memo
        for name, field in type(self).model_fields.items():
            # The object of a bound method may hold a lock, which cannot be copied.
            if field.exclude:
                memo[id(getattr(self, name))] = getattr(self, name)
        return super().__deepcopy__(memo)

    def to_wire(self, *, functions: bool = False) -> dict[str, Any]:
        """Convert this model to decoded JSON, with Go's order of keys and without empty fields.

        Empty values are "", 0, False, [] and {}. But if the default of a field is None, only None is empty,
        like a pointer in Go. Fields in `always_written` are never left out. Unknown keys come last.

        Args:
            functions: Whether to include functions, which JSON cannot hold.
        """
        found: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if field.exclude and not functions:
                continue
            is_absent = value is None if field.default is None else not value
            if name in self.always_written or not is_absent:
                key = field.serialization_alias or field.alias or name
                found[key] = _to_plain(value, functions=functions)
        return found | (self.model_extra or {})


def _to_plain(value: object, *, functions: bool) -> object:
    match value:
        case WireModel():
            return value.to_wire(functions=functions)
        case Mapping():
            return {key: _to_plain(each, functions=functions) for key, each in value.items()}
        case list() | tuple():
            return [_to_plain(each, functions=functions) for each in value]
    return value


def dump_wire(value: object) -> str:
    """Write a value as JSON text in tRPC-Agent-Go's form, with a newline at its end.

    Keys keep their order, which is the order of Go's struct or of the file that was read.
    """
    pieces: list[str] = []
    _add_pieces(_to_plain(value, functions=False), "\n", pieces)
    return "".join(pieces) + "\n"


def _add_pieces(value: object, line: str, pieces: list[str]) -> None:
    """Append the text of a JSON value to `pieces`. `line` is a line break with the value's indentation."""
    match value:
        case Mapping() if value:
            start, inner = "{", line + "  "
            for key, each in value.items():
                pieces += (start, inner, _format_text(str(key)), ": ")
                _add_pieces(each, inner, pieces)
                start = ","
            pieces += (line, "}")
        case list() | tuple() if value:
            start, inner = "[", line + "  "
            for each in value:
                pieces += (start, inner)
                _add_pieces(each, inner, pieces)
                start = ","
            pieces += (line, "]")
        case str():
            pieces.append(_format_text(value))
        case int() if not isinstance(value, bool):
            pieces.append(str(value))  # Go would round whole numbers beyond 2^53, which may be ids
        case float() if _FIRST_ROUNDED <= abs(value) < inf:
            pieces.append(repr(value))  # with `.0` or an exponent, so that it is read as a float again
        case _:
            pieces.append(dump_compact_json(value, for_html=True))


_FIRST_ROUNDED = 2.0**53
_PLAIN_TEXT = re.compile(r"[ !#-%'-;=?-\[\]-~]*")
"""Text of printable ASCII characters that neither JSON nor Go escapes."""


def _format_text(text: str) -> str:
    # Nearly every text is plain, and `dump_compact_json` takes ten times as long.
    return f'"{text}"' if _PLAIN_TEXT.fullmatch(text) else dump_compact_json(text, for_html=True)


_Model = TypeVar("_Model", bound=WireModel)


def parse_wire(model: type[_Model], data: bytes, shown_as: str) -> _Model:
    """Parse a JSON file with one object. Errors show `shown_as` as the name of the file.

    Raises:
        InvalidInputError: the file is invalid; the error lists every problem with its line.
    """
    document = parse_json(data, shown_as)
    (found,) = _validate(model, [((), document.value)], document)
    return found


def parse_wire_list(model: type[_Model], data: bytes, shown_as: str) -> list[_Model]:
    """Parse a JSON file with a list of objects. Errors show `shown_as` as the name of the file.

    Raises:
        InvalidInputError: the file is invalid; the error lists every problem with its line.
    """
    document = parse_json(data, shown_as)
    if not isinstance(document.value, list):
        raise InvalidInputError([Problem(shown_as, 1, 1, "must hold a list")])
    return _validate(model, [((index,), each) for index, each in enumerate(document.value)], document)


def _validate(
    model: type[_Model], items: Iterable[tuple[Location, object]], document: JsonDocument
) -> list[_Model]:
    problems: list[Problem] = []

    def find_position(location: Location) -> tuple[int, int]:
        return document.find_position(match_spelling(document.value, location))

    found = [
        validate_model(
            model,
            value,
            problems,
            file=document.path,
            position=find_position,
            prefix=prefix,
            context=FROM_FILE,
        )
        for prefix, value in items
    ]
    if problems:
        raise InvalidInputError(sorted(problems))
    return [each for each in found if each is not None]

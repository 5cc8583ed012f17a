"""tRPC-Agent-Go's criteria for a text and for a JSON value, as its `.metrics.json` files hold them.

`find_mismatch` returns "" when the criterion is met, else the reason, in the words of the original. An
unknown strategy or an invalid pattern is a mismatch, not an error: that is the original's rule, and it never
passes.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from evalgate.documents.key_spelling import normalize_key
from evalgate.integrations.trpc import json_compare
from evalgate.integrations.trpc.go_text import (
    InvalidPatternError,
    RegexEngineMissingError,
    check_regex_engine,
    has_regex_match,
    lower_text,
)
from evalgate.integrations.trpc.json_compare import (
    SchemaValidatorMissingError,
    check_schema_validator,
    find_schema_problem,
)

_LONGEST = 200

BOUND: Mapping[str, object] = {"bound": True}
"""Validation context of a criterion that is about to be used: what it needs must be available."""


class GoModel(BaseModel):
    """A model that reads keys as Go does, in any case, and in snake_case. Null counts as absent."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _normalize_keys(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        names = {
            normalize_key(field.alias or name): field.alias or name
            for name, field in cls.model_fields.items()
        }
        return {names.get(normalize_key(key), key): each for key, each in value.items() if each is not None}


def refuse_registered_name(name: str, info: ValidationInfo) -> str:
    """Return `name`, the name of registered Go code, unless the criterion is about to be used.

    Raises:
        ValueError: a name is given, and the criterion is about to be used.
    """
    if name and info.context is BOUND:
        raise ValueError(f"names {name!r}, which is code of a Go program: evalgate cannot call it")
    return name


class LengthCriterion(GoModel):
    """Bounds for the number of characters (code points) of a text, both inclusive."""

    ignore: bool = False
    min: int | None = None
    max: int | None = None

    def find_mismatch(self, text: str) -> str:
        """Return the reason why the text's length is wrong, or "" if it is right."""
        if self.ignore:
            return ""
        if fault := self._find_config_fault():
            return fault
        length = len(text)
        upper = "+inf)" if self.max is None else f"{self.max}]"
        bounds = f"expected range [{self.min or 0}, {upper}"
        if self.min is not None and length < self.min:
            return f"actual length {length} is less than min {self.min}, {bounds}"
        if self.max is not None and length > self.max:
            return f"actual length {length} is greater than max {self.max}, {bounds}"
        return ""

    def _find_config_fault(self) -> str:
        if self.min is None and self.max is None:
            return "length criterion must configure min or max"
        for name, bound in (("min", self.min), ("max", self.max)):
            if bound is not None and bound < 0:
                return f"{name} length must be non-negative"
        if self.min is not None and self.max is not None and self.min > self.max:
            return "min length must be less than or equal to max length"
        return ""


class TextCriterion(GoModel):
    """Rules for comparing two texts."""

    ignore: bool = False
    case_insensitive: bool = Field(default=False, alias="caseInsensitive")
    match_strategy: str = Field(default="", alias="matchStrategy")
    length: LengthCriterion | None = None
    compare_name: str = Field(default="", alias="compareName")

    _is_available = field_validator("compare_name")(refuse_registered_name)

    @field_validator("match_strategy")
    @classmethod
    def _require_regex_engine(cls, name: str, info: ValidationInfo) -> str:
        if name == "regex" and info.context is BOUND:
            try:
                check_regex_engine()
            except RegexEngineMissingError as error:
                raise ValueError(str(error)) from None
        return name

    def find_mismatch(self, actual: str, expected: str) -> str:
        """Return the reason why the texts do not match, or "" if they do.

        Raises:
            RegexEngineMissingError: a pattern has to be read and `google-re2` is not installed.
        """
        if self.ignore:
            return ""
        if self.length is not None and (fault := self.length.find_mismatch(actual)):
            return f"length mismatch: {fault}"
        if self.match_strategy == "skip":
            return ""
        if self.case_insensitive:
            actual, expected = lower_text(actual), lower_text(expected)
        return self._compare_texts(actual, expected)

    def _compare_texts(self, actual: str, expected: str) -> str:
        source, target = truncate_text(actual), truncate_text(expected)
        match self.match_strategy:
            case "" | "exact":
                return "" if actual == expected else f"source {source} and target {target} do not match"
            case "contains":
                return "" if expected in actual else f"source {source} does not contain target {target}"
            case "regex":
                try:
                    matched = has_regex_match(expected, actual)
                except InvalidPatternError as error:
                    return f"invalid regex {target}: {error}"
                return "" if matched else f"source {source} does not match regex {target}"
        return f"invalid match strategy {self.match_strategy}"

    @property
    def compares_whole_names(self) -> bool:
        """Return True if two texts match exactly when they are equal."""
        return self.match_strategy in {"", "exact"} and not (
            self.ignore or self.case_insensitive or self.length is not None
        )


class JsonCriterion(GoModel):
    """Rules for comparing two JSON values."""

    ignore: bool = False
    ignore_tree: dict[str, Any] = Field(default_factory=dict, alias="ignoreTree")
    only_tree: dict[str, Any] = Field(default_factory=dict, alias="onlyTree")
    match_strategy: str = Field(default="", alias="matchStrategy")
    number_tolerance: float = Field(default=json_compare.DEFAULT_TOLERANCE, alias="numberTolerance")
    valid: bool = False
    schema_: Any = Field(default=None, alias="schema")
    compare_name: str = Field(default="", alias="compareName")

    _is_available = field_validator("compare_name")(refuse_registered_name)

    @field_validator("schema_")
    @classmethod
    def _require_schema_validator(cls, schema: object, info: ValidationInfo) -> object:
        if info.context is BOUND:
            try:
                check_schema_validator()
            except SchemaValidatorMissingError as error:
                raise ValueError(str(error)) from None
        return schema

    def find_mismatch(self, actual: object, expected: object) -> str:
        """Return the reason why the values do not match, or "" if they do.

        With `valid`, a text must hold JSON itself.
        """
        if self.ignore:
            return ""
        if self._is_contradictory:
            return _CONTRADICTION
        subject = actual
        if self.valid and isinstance(actual, str):
            subject, fault = parse_json_text(actual, exact=True)
            if fault:
                return f"parse actual raw json: {fault}"
        return self._find_schema_fault(subject) or self._compare_values(actual, expected)

    def find_text_mismatch(self, actual: str, expected: str) -> str:
        """Return the reason why two texts with JSON do not match, or "" if they do.

        Only what the criterion looks at has to be JSON.
        """
        if self.ignore:
            return ""
        if self._is_contradictory:
            return _CONTRADICTION
        if self.valid or self.schema_ is not None:
            subject, fault = parse_json_text(actual, exact=True)
            if fault := (fault and f"parse actual raw json: {fault}") or self._find_schema_fault(subject):
                return fault
        return "" if self.match_strategy == "skip" else self._parse_and_compare(actual, expected)

    def _parse_and_compare(self, actual: str, expected: str) -> str:
        given, fault = parse_json_text(actual)
        if fault:
            return f"parse actual raw json: {fault}"
        wanted, fault = parse_json_text(expected)
        if fault:
            return f"parse expected raw json: {fault}"
        return self._compare_values(given, wanted)

    @property
    def _is_contradictory(self) -> bool:
        return bool(self.only_tree and self.ignore_tree)

    def _find_schema_fault(self, value: object) -> str:
        if self.schema_ is None:
            return ""
        return find_schema_problem(value, self.schema_)

    def _compare_values(self, actual: object, expected: object) -> str:
        if self.match_strategy == "skip":
            return ""
        if self.match_strategy not in {"", "exact"}:
            return f"invalid match strategy {self.match_strategy}"
        if self.only_tree:
            fault = json_compare.find_selected_difference(
                actual, expected, self.only_tree, self.number_tolerance
            )
        else:
            fault = json_compare.find_unignored_difference(
                actual, expected, self.ignore_tree, self.number_tolerance
            )
        if not fault:
            return ""
        values = (
            f"actual {json_compare.format_json_value(actual)} and expected "
            f"{json_compare.format_json_value(expected)}"
        )
        return f"{values} do not match: {fault}"

    @property
    def compares_whole_values(self) -> bool:
        """Return True if every key of the values counts."""
        return not (self.ignore or self.ignore_tree or self.only_tree) and self.match_strategy in {
            "",
            "exact",
        }


_CONTRADICTION = "onlyTree and ignoreTree cannot be set at the same time"


def truncate_text(text: str) -> str:
    """Return `text`, shortened to fit a message."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def parse_json_text(text: str, *, exact: bool = False) -> tuple[object, str]:
    """Return the one JSON value that a text holds, and the fault of the text, or "".

    Numbers are doubles and must fit into one. With `exact`, integers stay whole, as JSON Schema needs them.
    """
    try:
        value = json.loads(
            text,
            parse_float=_parse_double,
            parse_int=int if exact else _parse_double,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        return None, "the value nests too deep"
    except ValueError as error:
        return None, str(error)
    return value, ""


def _parse_double(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise ValueError(f"the number {truncate_text(literal)} is beyond a double")
    return value


def _refuse_constant(literal: str) -> object:
    # Python's json accepts NaN and Infinity; Go's does not.
    raise ValueError(f"{literal} is no JSON")

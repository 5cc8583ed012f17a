"""tRPC-Agent-Go's criteria for a text and for a JSON value, as its `.metrics.json` files hold them.

`mismatch` gives "" when the criterion is met, else why it is not, in the words of the original. An unknown
strategy or an invalid pattern is a mismatch, not an error: that is the original's rule, and it never passes.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from evalgate.integrations.trpc import json_compare
from evalgate.integrations.trpc.go_text import EngineMissing, InvalidPattern, check_engine, found, lowered
from evalgate.integrations.trpc.json_compare import ValidatorMissing, check_validator, schema_problem

_LONGEST = 200

BOUND: Mapping[str, object] = {"bound": True}
"""Validation context of a criterion that is about to be used: what it needs must be there."""


class Rule(BaseModel):
    """Keys are read as Go reads them, in any case; snake_case is welcome too. Null counts as absent."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _named_as_here(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        names = {_plain(field.alias or name): field.alias or name for name, field in cls.model_fields.items()}
        return {names.get(_plain(key), key): each for key, each in value.items() if each is not None}


def available(name: str, info: ValidationInfo) -> str:
    """`name` of something that Go code registers; refused in a criterion that is about to be used."""
    if name and info.context is BOUND:
        raise ValueError(f"names {name!r}, which is code of a Go program: evalgate cannot call it")
    return name


def _plain(key: object) -> str:
    return str(key).replace("_", "").lower()


class LengthCriterion(Rule):
    """How many characters (code points) a text may have, both bounds inclusive."""

    ignore: bool = False
    min: int | None = None
    max: int | None = None

    def mismatch(self, text: str) -> str:
        """Why the text's length is wrong; "" when it is right."""
        if self.ignore:
            return ""
        if fault := self._fault():
            return fault
        length = len(text)
        upper = "+inf)" if self.max is None else f"{self.max}]"
        bounds = f"expected range [{self.min or 0}, {upper}"
        if self.min is not None and length < self.min:
            return f"actual length {length} is less than min {self.min}, {bounds}"
        if self.max is not None and length > self.max:
            return f"actual length {length} is greater than max {self.max}, {bounds}"
        return ""

    def _fault(self) -> str:
        if self.min is None and self.max is None:
            return "length criterion must configure min or max"
        for name, bound in (("min", self.min), ("max", self.max)):
            if bound is not None and bound < 0:
                return f"{name} length must be non-negative"
        if self.min is not None and self.max is not None and self.min > self.max:
            return "min length must be less than or equal to max length"
        return ""


class TextCriterion(Rule):
    """How two texts are compared."""

    ignore: bool = False
    case_insensitive: bool = Field(default=False, alias="caseInsensitive")
    match_strategy: str = Field(default="", alias="matchStrategy")
    length: LengthCriterion | None = None
    compare_name: str = Field(default="", alias="compareName")

    _is_available = field_validator("compare_name")(available)

    @field_validator("match_strategy")
    @classmethod
    def _has_its_engine(cls, name: str, info: ValidationInfo) -> str:
        if name == "regex" and info.context is BOUND:
            try:
                check_engine()
            except EngineMissing as error:
                raise ValueError(str(error)) from None
        return name

    def mismatch(self, actual: str, expected: str) -> str:
        """Why the texts do not match; "" when they do.

        Raises:
            EngineMissing: a pattern is to be read and `google-re2` is not installed.
        """
        if self.ignore:
            return ""
        if self.length is not None and (fault := self.length.mismatch(actual)):
            return f"length mismatch: {fault}"
        if self.match_strategy == "skip":
            return ""
        if self.case_insensitive:
            actual, expected = lowered(actual), lowered(expected)
        return self._compared(actual, expected)

    def _compared(self, actual: str, expected: str) -> str:
        source, target = cut(actual), cut(expected)
        match self.match_strategy:
            case "" | "exact":
                return "" if actual == expected else f"source {source} and target {target} do not match"
            case "contains":
                return "" if expected in actual else f"source {source} does not contain target {target}"
            case "regex":
                try:
                    matched = found(expected, actual)
                except InvalidPattern as error:
                    return f"invalid regex {target}: {error}"
                return "" if matched else f"source {source} does not match regex {target}"
        return f"invalid match strategy {self.match_strategy}"

    @property
    def compares_whole_names(self) -> bool:
        """Whether two texts match exactly when they are equal."""
        return self.match_strategy in {"", "exact"} and not (
            self.ignore or self.case_insensitive or self.length is not None
        )


class JsonCriterion(Rule):
    """How two JSON values are compared."""

    ignore: bool = False
    ignore_tree: dict[str, Any] = Field(default_factory=dict, alias="ignoreTree")
    only_tree: dict[str, Any] = Field(default_factory=dict, alias="onlyTree")
    match_strategy: str = Field(default="", alias="matchStrategy")
    number_tolerance: float = Field(default=json_compare.DEFAULT_TOLERANCE, alias="numberTolerance")
    valid: bool = False
    schema_: Any = Field(default=None, alias="schema")
    compare_name: str = Field(default="", alias="compareName")

    _is_available = field_validator("compare_name")(available)

    @field_validator("schema_")
    @classmethod
    def _has_its_validator(cls, schema: object, info: ValidationInfo) -> object:
        if info.context is BOUND:
            try:
                check_validator()
            except ValidatorMissing as error:
                raise ValueError(str(error)) from None
        return schema

    def mismatch(self, actual: object, expected: object) -> str:
        """Why the values do not match; "" when they do. A text to be `valid` must hold JSON itself."""
        if self.ignore:
            return ""
        if self._is_contradictory:
            return _CONTRADICTION
        subject = actual
        if self.valid and isinstance(actual, str):
            subject, fault = parsed(actual, exact=True)
            if fault:
                return f"parse actual raw json: {fault}"
        return self._schema_fault(subject) or self._compared(actual, expected)

    def mismatch_of_texts(self, actual: str, expected: str) -> str:
        """The same for two texts that hold JSON. Only what the criterion looks at has to be JSON."""
        if self.ignore:
            return ""
        if self._is_contradictory:
            return _CONTRADICTION
        if self.valid or self.schema_ is not None:
            subject, fault = parsed(actual, exact=True)
            if fault := (fault and f"parse actual raw json: {fault}") or self._schema_fault(subject):
                return fault
        return "" if self.match_strategy == "skip" else self._parsed_and_compared(actual, expected)

    def _parsed_and_compared(self, actual: str, expected: str) -> str:
        given, fault = parsed(actual)
        if fault:
            return f"parse actual raw json: {fault}"
        wanted, fault = parsed(expected)
        if fault:
            return f"parse expected raw json: {fault}"
        return self._compared(given, wanted)

    @property
    def _is_contradictory(self) -> bool:
        return bool(self.only_tree and self.ignore_tree)

    def _schema_fault(self, value: object) -> str:
        if self.schema_ is None:
            return ""
        return schema_problem(value, self.schema_)

    def _compared(self, actual: object, expected: object) -> str:
        if self.match_strategy == "skip":
            return ""
        if self.match_strategy not in {"", "exact"}:
            return f"invalid match strategy {self.match_strategy}"
        if self.only_tree:
            fault = json_compare.difference_within(actual, expected, self.only_tree, self.number_tolerance)
        else:
            fault = json_compare.difference_ignoring(
                actual, expected, self.ignore_tree, self.number_tolerance
            )
        if not fault:
            return ""
        values = f"actual {json_compare.shown(actual)} and expected {json_compare.shown(expected)}"
        return f"{values} do not match: {fault}"

    @property
    def compares_whole_values(self) -> bool:
        """Whether every key of the values counts."""
        return not (self.ignore or self.ignore_tree or self.only_tree) and self.match_strategy in {
            "",
            "exact",
        }


_CONTRADICTION = "onlyTree and ignoreTree cannot be set at the same time"


def cut(text: str) -> str:
    """`text`, shortened to fit a message."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def parsed(text: str, *, exact: bool = False) -> tuple[object, str]:
    """The one JSON value that a text holds, and what is wrong with it, or "".

    Numbers are doubles, and must be ones; `exact` keeps integers whole, as JSON Schema wants them.
    """
    try:
        value = json.loads(
            text, parse_float=_double, parse_int=int if exact else _double, parse_constant=_no_constant
        )
    except RecursionError:
        return None, "the value nests too deep"
    except ValueError as error:
        return None, str(error)
    return value, ""


def _double(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise ValueError(f"the number {cut(literal)} is beyond a double")
    return value


def _no_constant(literal: str) -> object:
    raise ValueError(f"{literal} is no JSON")

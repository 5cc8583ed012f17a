"""tRPC-Agent-Go's criteria for a text and for a JSON value, as its `.metrics.json` files hold them.

`find_mismatch` of each criterion returns "" if the values match, otherwise the reason in tRPC-Agent-Go's
words. An unknown strategy or an invalid pattern is a mismatch, not an error, as in tRPC-Agent-Go.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from evalgate.core.errors import EvalgateError
from evalgate.core.protocols import MetricContext
from evalgate.core.types import Criterion
from evalgate.documents.json_schemas import SchemaValidatorMissingError
from evalgate.documents.key_spelling import normalize_key
from evalgate.documents.re2_patterns import (
    InvalidPatternError,
    RegexEngineMissingError,
    has_regex_match,
    import_regex_engine,
)
from evalgate.integrations.trpc.go_json import lower_text, parse_json_text, truncate_text
from evalgate.integrations.trpc.json_comparison import (
    check_schema_validator,
    find_schema_problem,
    find_selected_difference,
    find_unignored_difference,
    format_json_value,
)

BOUND: Mapping[str, object] = {"bound": True}
"""Validation context of a criterion that is about to be used. Validation then fails if a package or a
registered function that the criterion needs is not available."""


class GoModel(BaseModel):
    """A model with keys in any mix of upper and lower case, as in Go, or in snake_case.

    Null counts as absent. Unknown keys are refused, although Go ignores them.
    """

    # Go ignores unknown keys. Here they are refused, because a misspelt strategy would compare nothing and
    # pass.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _normalize_keys(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        # tRPC-Agent-Go reads no snake_case, but its first release wrote it, and the meaning is clear.
        names = {
            normalize_key(field.alias or name): field.alias or name
            for name, field in cls.model_fields.items()
        }
        return {names.get(normalize_key(key), key): each for key, each in value.items() if each is not None}


def refuse_registered_name(name: str, info: ValidationInfo) -> str:
    """Validate `name`, under which a Go program registered code, and return it unchanged.

    When a metric is built (context `BOUND`), only "" is valid. When a file is only read, any name is valid.

    Raises:
        ValueError: `name` is not "", and the validation context is `BOUND`. evalgate cannot call Go code.
    """
    if name and info.context is BOUND:
        raise ValueError(f"names {name!r}, which is code of a Go program: evalgate cannot call it")
    return name


class TrpcTurnMetric(GoModel):
    """A metric that scores each turn without a model, by its criterion in `.metrics.json`."""

    is_mean_of_turns: ClassVar[Literal[True]] = True

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """Build the metric from `criterion`; parts of the criterion for other metrics are ignored.

        Raises:
            ValidationError: an option is wrong, or names something that is not available.
        """
        del context
        return cls.model_validate(criterion.options, context=BOUND)


class ComparerResultError(EvalgateError):
    """Error for a function in `compare` that returned something other than True or False."""


def describe_mismatch(
    compare: Callable[[Any, Any], object], actual: object, expected: object, *, criterion: str
) -> str:
    """Return "" if the user's function `compare` finds that two values match, otherwise the reason.

    An exception in the function is a mismatch with its text as the reason, as in tRPC-Agent-Go.

    Args:
        compare: The function.
        actual: Its first argument.
        expected: Its second argument.
        criterion: Name of the criterion that holds the function, for errors.

    Raises:
        ComparerResultError: the function returned something other than a bool, such as a coroutine or a
            tuple.
    """
    try:
        found = compare(actual, expected)
    except Exception as error:  # noqa: BLE001  the user's code
        return str(error) or type(error).__name__
    if isinstance(found, bool):
        return "" if found else "the function that compares them found no match"
    if inspect.iscoroutine(found):
        found.close()  # or Python warns that it was never awaited
    hint = ", and it must not be asynchronous" if inspect.isawaitable(found) else ""
    raise ComparerResultError(
        f"`compare` of {criterion} returned {type(found).__name__}: it must return True or False{hint}"
    )


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
    compare: Callable[[str, str], object] | None = Field(default=None, exclude=True, repr=False)
    """Function that replaces all rules except `ignore`; only Python code can set it."""

    _is_available = field_validator("compare_name")(refuse_registered_name)

    @field_validator("match_strategy")
    @classmethod
    def _require_regex_engine(cls, name: str, info: ValidationInfo) -> str:
        if name == "regex" and info.context is BOUND:
            try:
                import_regex_engine(" of tRPC-Agent-Go")
            except RegexEngineMissingError as error:
                raise ValueError(str(error)) from None
        return name

    def find_mismatch(self, actual: str, expected: str) -> str:
        """Return the reason why the texts do not match, or "" if they do.

        Raises:
            RegexEngineMissingError: a pattern has to be read and `google-re2` is not installed.
            ComparerResultError: `compare` returned no bool.
        """
        if self.ignore:
            return ""
        if self.compare is not None:
            return describe_mismatch(self.compare, actual, expected, criterion="TextCriterion")
        # Before the strategy, so that `skip` does not skip the length, and before any lower-casing.
        if self.length is not None and (fault := self.length.find_mismatch(actual)):
            return f"length mismatch: {fault}"
        if self.match_strategy == "skip":
            return ""
        if self.case_insensitive:
            # Both sides: tRPC-Agent-Go lowers a regular expression too, which turns `\D` into `\d`.
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
    def requires_equal_texts(self) -> bool:
        """Return True if only equal texts meet the criterion. This is the default."""
        return self.match_strategy in {"", "exact"} and not (
            self.ignore or self.case_insensitive or self.length is not None or self.compare is not None
        )


class JsonCriterion(GoModel):
    """Rules for comparing two JSON values."""

    ignore: bool = False
    ignore_tree: dict[str, Any] = Field(default_factory=dict, alias="ignoreTree")
    only_tree: dict[str, Any] = Field(default_factory=dict, alias="onlyTree")
    match_strategy: str = Field(default="", alias="matchStrategy")
    number_tolerance: float = Field(default=1e-6, alias="numberTolerance")
    valid: bool = False
    schema_: Any = Field(default=None, alias="schema")
    compare_name: str = Field(default="", alias="compareName")
    compare: Callable[[Any, Any], object] | None = Field(default=None, exclude=True, repr=False)
    """Function that replaces all rules except `ignore`; only Python code can set it.

    If `ignore_tree` and `only_tree` are both set, the values never match, and the function is not called."""

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

        If `valid` is set and the actual value is a text, this text must be JSON.

        Raises:
            ComparerResultError: `compare` returned no bool.
            SchemaValidatorMissingError: there is a schema, and `jsonschema` is not installed.
            RecursionError: the values nest too deep.
        """
        if self.ignore:
            return ""
        if self._is_contradictory:
            return _CONTRADICTION
        if self.compare is not None:
            return describe_mismatch(self.compare, actual, expected, criterion="JSONCriterion")
        subject = actual
        if self.valid and isinstance(actual, str):
            subject, fault = parse_json_text(actual, exact=True)
            if fault:
                return f"parse actual raw json: {fault}"
        return self._find_schema_fault(subject) or self._compare_values(actual, expected)

    def find_text_mismatch(self, actual: str, expected: str) -> str:
        """Return the reason why two texts with JSON do not match, or "" if they do.

        Both texts must be JSON, with two exceptions:

        - With `ignore`, no text has to be JSON.
        - With the strategy `skip` and without `compare`, `expected` may be any text. If neither `valid` nor a
          schema is set, `actual` may be any text, too.

        Raises:
            ComparerResultError: `compare` returned no bool.
            SchemaValidatorMissingError: there is a schema, and `jsonschema` is not installed.
            RecursionError: the values nest too deep.
        """
        if self.ignore:
            return ""
        if self._is_contradictory:
            return _CONTRADICTION
        if self.compare is not None:
            return self._parse_and_compare(actual, expected)
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
        if self.compare is not None:
            return describe_mismatch(self.compare, given, wanted, criterion="JSONCriterion")
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
            fault = find_selected_difference(actual, expected, self.only_tree, self.number_tolerance)
        else:
            fault = find_unignored_difference(actual, expected, self.ignore_tree, self.number_tolerance)
        if not fault:
            return ""
        values = f"actual {format_json_value(actual)} and expected {format_json_value(expected)}"
        return f"{values} do not match: {fault}"

    @property
    def compares_every_key(self) -> bool:
        """Return True if the criterion compares every key of the values, as by default."""
        return not (
            self.ignore or self.ignore_tree or self.only_tree or self.compare
        ) and self.match_strategy in {"", "exact"}


_CONTRADICTION = "onlyTree and ignoreTree cannot be set at the same time"

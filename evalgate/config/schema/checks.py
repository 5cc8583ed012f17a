"""Conditions in the section `checks`: on tool calls, arguments, responses, the final state and files."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import isfinite, nan
from typing import Annotated, Literal, Self, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    Strict,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from evalgate.config.schema.field_types import ConfigSection, Names, Unit
from evalgate.core.formatting import join_quoted
from evalgate.documents.json_schemas import SchemaValidatorMissingError, check_schema
from evalgate.documents.re2_patterns import InvalidPatternError, RegexEngineMissingError, compile_pattern


def _check_tools(names: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if not all(name.strip() for name in ((names,) if isinstance(names, str) else names)):
        raise ValueError("must name a tool: an empty name matches none")
    return names


Tool = Annotated[str, AfterValidator(_check_tools)]
Globs = Annotated[Names, Field(min_length=1), AfterValidator(_check_tools)]
Texts = Annotated[Names, Field(min_length=1)]
Flag = Annotated[bool, Strict()]


def _check_pattern(pattern: str) -> str:
    if not pattern:
        raise ValueError("must not be empty: an empty pattern matches every text")
    try:
        compile_pattern(pattern)
    except InvalidPatternError as error:
        raise ValueError(f"is not a regular expression of RE2: {error}") from None
    except RegexEngineMissingError as error:
        raise ValueError(f"cannot be used: {error}") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_check_pattern)]
ReadSchema: TypeAlias = Callable[[str], object]
"""Function that takes the path of a file and returns the JSON Schema in the file.

It raises ValueError if the file cannot be read. `CheckConditions.model_validate` takes it as `context`.
"""


def _check_schema(schema: object, info: ValidationInfo) -> object:
    if isinstance(schema, str):
        schema = cast("ReadSchema", info.context)(schema)
    try:
        problem = check_schema(schema)
    except SchemaValidatorMissingError as error:
        raise ValueError(f"cannot be used: {error}") from None
    if problem:
        raise ValueError(f"is not a JSON Schema: {problem}")
    return schema


def _require_schema(value: object) -> object:
    if type(value) not in {str, dict}:
        raise ValueError("must be a JSON Schema, which is an object, or the path of a file with one")
    return value


Schema = Annotated[
    str | dict[str, JsonValue],
    BeforeValidator(_require_schema),
    AfterValidator(_check_schema),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]}),
]


def is_covered(pattern: str, globs: Sequence[str]) -> bool:
    """Return True if a single glob of `globs` is certain to match every name that `pattern` can match."""
    is_plain = not set(pattern) & set("*?[")
    return any(
        glob == pattern or (fnmatchcase(pattern, glob) and (is_plain or not set(glob) & set("?[")))
        for glob in globs
    )


class ToolsRule(ConfigSection):
    """Conditions on the tools that are called. Names are globs."""

    require: Globs | None = None
    """Tools that must each be called at least once."""
    forbid: Globs | None = None
    """Tools that must not be called; `*` forbids every call."""
    order: Globs | None = None
    """Tools that must be called in this order; other calls may stand in between."""
    only: Globs | None = None
    """Tools that may be called, and no others."""
    max: Annotated[Mapping[Tool, Annotated[int, Strict(), Field(ge=0)]], Field(min_length=1)] | None = None
    """Largest number of calls, by tool; `*` counts all calls."""
    min: Annotated[Mapping[Tool, Annotated[int, Strict(), Field(ge=1)]], Field(min_length=1)] | None = None
    """Smallest number of calls, by tool; `*` counts all calls."""
    no_failed_calls: Flag = False
    """true: no call may return an error."""
    no_repeats: Flag = False
    """true: no tool may be called twice with the same arguments."""

    @model_validator(mode="after")
    def _check_contradictions(self) -> Self:
        if not (self.model_fields_set - {"no_failed_calls", "no_repeats"}) and not (
            self.no_failed_calls or self.no_repeats
        ):
            raise ValueError("demands nothing: name tools to `require` or to `forbid`, for example")
        for key, names in self._list_wanted():
            for name in names:
                if is_covered(name, self.forbid or ()):
                    raise ValueError(f"contradicts itself: `{name}` is in `{key}` and in `forbid`")
                is_glob = bool(set(name) & set("*?["))
                if self.only and key != "only" and not (is_glob or is_covered(name, self.only)):
                    raise ValueError(f"contradicts itself: `{name}` is in `{key}` and not in `only`")
        for name, most in (self.max or {}).items():
            least = self._count_wanted(name)
            if least > most:
                times = f"{least} calls" if least != 1 else "one call"
                raise ValueError(
                    f"contradicts itself: `max` allows {most} of `{name}`, the rest wants {times}"
                )
        return self

    def _list_wanted(self) -> list[tuple[str, Sequence[str]]]:
        wanted = {
            "require": self.require,
            "order": self.order,
            "min": tuple(self.min or ()),
            "only": self.only,
        }
        return [(key, names) for key, names in wanted.items() if names]

    def _count_wanted(self, name: str) -> int:
        """Return the number of calls of tools matching `name` that `require`, `order` and `min` need."""
        require, order, least = self.require or (), self.order or (), self.min or {}
        wanted = [each for each in {*require, *order, *least} if is_covered(each, (name,))]
        counts = {each: max(each in require, order.count(each), least.get(each, 0)) for each in wanted}
        # One call may match two globs, but has only one name.
        named = sum(count for each, count in counts.items() if not set(each) & set("*?["))
        ordered = sum(is_covered(each, (name,)) for each in order)
        return max([named, ordered, *counts.values()])


def _parse_tolerance(value: object) -> object:
    """Return `value` unchanged. Raise ValueError unless it is a finite number, or a share such as "5%"."""
    is_share = isinstance(value, str) and value.endswith("%")
    try:
        number = float(str(value).removesuffix("%"))
    except ValueError:
        number = nan
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not isfinite(number) or not (is_number or (is_share and number > 0)):
        raise ValueError(f'must be a finite number, or a share as "5%", not {value!r}')
    if is_share and number >= 100:
        raise ValueError(f"must be less than 100%, which every number of the same sign keeps, not {value!r}")
    return value


Tolerance: TypeAlias = Annotated[
    float | str,
    BeforeValidator(_parse_tolerance),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": "^[0-9.]+%$"}]}
    ),
]


class ValueRule(ConfigSection):
    """Conditions on one value: an argument of a call, or a key of the state. All must hold."""

    any: Flag | None = None
    """true: the value must be present, whatever it is; false: it must be absent."""
    equals: JsonValue = None
    """Required value, compared as JSON: true is not 1, and "1" is not 1."""
    matches: Pattern | None = None
    """Regular expression (RE2) that matches anywhere in the text."""
    contains: JsonValue = None
    """Part of a text, element of a list, or keys and values of an object, that the value must contain."""
    approx: Annotated[float, Strict(), Field(allow_inf_nan=False)] | None = None
    """Number to which the value must be close: the distance is at most `within`, or 0 without `within`."""
    within: Tolerance | None = None
    """Largest distance from `approx`: a number, or a share, as "5%", of the larger of the two numbers."""
    one_of: Annotated[tuple[JsonValue, ...], Field(min_length=1)] | None = None
    """Allowed values: the value must equal one of them."""
    json_schema: Schema | None = None
    """JSON Schema that the value must fit, or the path of a file with the schema."""
    semantic: Annotated[str, Field(min_length=1)] | None = None
    """Statement about the value that the judge must affirm."""
    ignore_case: Flag = False
    """true: `equals`, `contains` and `one_of` ignore upper and lower case of texts."""

    @model_validator(mode="before")
    @classmethod
    def _wrap_bare_value(cls, value: object) -> object:
        return value if isinstance(value, dict) else {"equals": value}

    @model_validator(mode="after")
    def _check_contradictions(self) -> Self:
        given = self.model_fields_set - {"ignore_case", "within"}
        if not given:
            raise ValueError("demands nothing: say `{any: true}` if every value is right")
        if "any" in given and len(given) > 1:
            why = "the value must be absent" if self.any is False else "every value is right"
            raise ValueError(
                f"contradicts itself: with `any` {why}, and {join_quoted(sorted(given - {'any'}))} wants more"
            )
        if self.within is not None and self.approx is None:
            raise ValueError("has `within`, which belongs to `approx`")
        if isinstance(self.within, float | int) and self.within <= 0:
            raise ValueError("has `within`, which must be above 0: `equals` asks for the number itself")
        if {"equals", "one_of"} <= given and self.equals not in (self.one_of or ()):
            raise ValueError("contradicts itself: the value of `equals` is not in `one_of`")
        if "contains" in given and self.contains in ("", [], {}):
            raise ValueError("has an empty `contains`, which every value holds")
        return self


class SimilarRule(ConfigSection):
    """Condition on a response: how similar it must be to a text."""

    to: Annotated[str, Field(min_length=1)] | None = None
    """Text to compare with; when absent, the expected response of the same turn."""
    by: Literal["rouge", "edit_distance", "embeddings"] = "rouge"
    """`rouge`: F-measure of ROUGE-1; `edit_distance`: 1 less the share of characters to change (Levenshtein);
    `embeddings`: cosine of the embeddings that the judge's provider computes."""
    at_least: Annotated[Unit, Field(gt=0)] | None = None
    """Lowest similarity that passes."""
    max_edits: Annotated[int, Strict(), Field(ge=0)] | None = None
    """Largest number of changed characters that passes: for `by: edit_distance`, instead of `at_least`."""
    model: str = ""
    """Name of the embedding model; required with `by: embeddings`."""

    @model_validator(mode="after")
    def _check_limit(self) -> Self:
        if (self.at_least is None) == (self.max_edits is None):
            raise ValueError("must have `at_least`, or `max_edits` in its place")
        if self.max_edits is not None and self.by != "edit_distance":
            raise ValueError("has `max_edits`, which belongs to `by: edit_distance`")
        return self

    @model_validator(mode="after")
    def _check_model(self) -> Self:
        if (self.by == "embeddings") != bool(self.model):
            raise ValueError(
                "must name the `model` of the embeddings with `by: embeddings`, and with no other `by`"
            )
        return self


class TextRule(ConfigSection):
    """Conditions on a text. All must hold."""

    contains: Texts | None = None
    """Texts that must all occur."""
    not_contains: Texts | None = None
    """Texts of which none may occur."""
    equals: str | None = None
    """Required text; the tested text must equal it as a whole."""
    starts_with: Annotated[str, Field(min_length=1)] | None = None
    """Beginning of the text."""
    matches: Pattern | None = None
    """Regular expression (RE2) that matches anywhere in the text."""
    json_schema: Schema | None = None
    """JSON Schema, or the path of a file with the schema. The text, read as JSON, must fit the schema."""
    max_words: Annotated[int, Strict(), Field(ge=1)] | None = None
    """Largest number of words; blanks and line breaks separate words."""
    ignore_case: Flag = False
    """true: `contains`, `not_contains`, `equals` and `starts_with` ignore upper and lower case."""

    @model_validator(mode="after")
    def _check_contradictions(self) -> Self:
        if not self.model_fields_set - {"ignore_case"}:
            raise ValueError("demands nothing: name texts that it `contains`, for example")
        if "" in (*(self.contains or ()), *(self.not_contains or ())):
            raise ValueError("has an empty text, which every text contains")
        for text in self.contains or ():
            self._check_wanted_text("contains", text)
        self._check_wanted_text("equals", self.equals or "")
        self._check_wanted_text("starts_with", self.starts_with or "")
        return self

    def _check_wanted_text(self, key: str, text: str) -> None:
        folded = text.casefold() if self.ignore_case else text
        for absent in self.not_contains or ():
            if (absent.casefold() if self.ignore_case else absent) in folded:
                raise ValueError(
                    f"contradicts itself: `{key}` asks for {absent!r}, and `not_contains` forbids it"
                )
        words = len(text.split())
        if self.max_words is not None and words > self.max_words:
            raise ValueError(
                f"contradicts itself: `{key}` has {words} words, and `max_words` allows {self.max_words}"
            )


class ResponseRule(TextRule):
    """Conditions on the final responses of the turns."""

    similar: SimilarRule | None = None
    """Similarity of each response to a text."""
    semantic: Annotated[str, Field(min_length=1)] | None = None
    """Statement about the response that the judge must affirm."""


class FileRule(TextRule):
    """Conditions on a file that the agent should have written."""

    exists: Flag = True
    """false: the file must not exist, and no other condition may be set."""

    @model_validator(mode="after")
    def _check_existence(self) -> Self:
        if not self.exists and self.model_fields_set != {"exists"}:
            raise ValueError("contradicts itself: a file that must not exist has no content")
        return self


def _check_path(path: str) -> str:
    parts = path.split("/")
    if not path or path.startswith("/") or ".." in parts or "\0" in path or "\\" in path:
        raise ValueError(f"must name files below the working folder, as `out/report.md`, not {path!r}")
    return path


def _check_value_path(path: str) -> str:
    if not path.strip(".[] "):
        raise ValueError(f"must be the path of a value, as `items[0].sku`, not {path!r}")
    return path


ValueRules = Annotated[
    Mapping[Annotated[str, AfterValidator(_check_value_path)], ValueRule], Field(min_length=1)
]


class Conditions(ConfigSection):
    """Conditions that must all hold."""

    tools: ToolsRule | None = None
    """The tools that are called, and how often."""
    args: Annotated[Mapping[Tool, ValueRules], Field(min_length=1)] | None = None
    """Conditions on arguments: by tool (a glob), then by path of the argument, such as `items[0].sku`. A
    plain value must be equal."""
    calls: Literal["every", "some", "if_any"] = "every"
    """Calls of a tool that must fulfil its conditions in `args`. `every`: all calls, and there is at least
    one. `some`: at least one call. `if_any`: all calls, but there may be none."""
    response: ResponseRule | None = None
    """The final responses."""
    state: ValueRules | None = None
    """Conditions on the session's final state, by path of a key. A plain value means: equal to this value."""
    files: (
        Annotated[Mapping[Annotated[str, AfterValidator(_check_path)], FileRule], Field(min_length=1)] | None
    ) = None
    """Conditions on files, by path below the working folder (a glob)."""
    turn: Annotated[int, Field(ge=1)] | Literal["last"] | None = None
    """Number of the only turn that counts, from 1, or `last`. When absent, the whole conversation counts."""

    @field_validator("turn", mode="before")
    @classmethod
    def _check_turn(cls, turn: object) -> object:
        if turn not in (None, "last") and (type(turn) is not int or turn < 1):
            raise ValueError(f'must be a whole number from 1, or "last", not {turn!r}')
        return turn

    @model_validator(mode="after")
    def _check_conditions(self) -> Self:
        if self.turn is not None and (self.state or self.files):
            raise ValueError(
                "has `turn`, but the state and files are known after the last turn only: make two checks"
            )
        if "calls" in self.model_fields_set and not self.args:
            raise ValueError("has `calls`, which belongs to `args`")
        if self.tools and self.args:
            self._check_args_possible(self.tools)
        return self

    def _check_args_possible(self, tools: ToolsRule) -> None:
        for name in self.args or ():
            if self.calls != "if_any" and is_covered(name, tools.forbid or ()):
                raise ValueError(f"contradicts itself: `{name}` is in `args` and in `tools.forbid`")
            limits = [glob for glob, most in (tools.max or {}).items() if not most]
            if self.calls != "if_any" and is_covered(name, limits):
                raise ValueError(f"contradicts itself: `{name}` is in `args`, and `tools.max` allows no call")

    def list_statements(self) -> list[str]:
        """Return the statements that a judge must affirm, without those in `alternatives` and `none_of`."""
        values = [rule for rules in (self.args or {}).values() for rule in rules.values()]
        values += (self.state or {}).values()
        found = [rule.semantic for rule in values] + [self.response.semantic if self.response else None]
        return [each for each in found if each is not None]

    def list_embedding_models(self) -> list[str]:
        """Return the names of the embedding models needed, without those in `alternatives` and `none_of`."""
        similar = self.response.similar if self.response else None
        return [similar.model] if similar and similar.model else []

    @property
    def has_conditions(self) -> bool:
        """Return True if there is any condition, not counting `alternatives` and `none_of`."""
        return bool(self.tools or self.args or self.response or self.state or self.files)


class CheckConditions(Conditions):
    """All conditions of a check, with its alternatives and its forbidden groups of conditions."""

    alternatives: tuple[Conditions, ...] | None = None
    """Two or more groups of conditions, for several right ways to the goal: all conditions of at least one
    group must hold, in addition to the check's other conditions."""
    none_of: Annotated[tuple[Conditions, ...], Field(min_length=1)] | None = None
    """Groups of conditions, for wrong ways: the check fails if all conditions of one group hold."""

    @model_validator(mode="after")
    def _require_conditions(self) -> Self:
        if not self.has_conditions and not self.alternatives and not self.none_of:
            raise ValueError(
                "demands nothing: it needs `tools`, `args`, `response`, `state`, `files`, `alternatives` or "
                "`none_of`"
            )
        if self.alternatives is not None and len(self.alternatives) < 2:
            raise ValueError("must have two `alternatives` or more: write a single one without the list")
        for key, groups in (("alternatives", self.alternatives), ("none_of", self.none_of)):
            for number, each in enumerate(groups or (), 1):
                if not each.has_conditions:
                    raise ValueError(
                        f"demands nothing in number {number} of `{key}`, so that it always holds"
                    )
                if self.turn is not None and each.turn is not None:
                    raise ValueError(f"has `turn` twice: for all of it, and in number {number} of `{key}`")
        return self

    @property
    def groups(self) -> tuple[Conditions, ...]:
        """Return the check's own conditions, then the groups in `alternatives` and in `none_of`."""
        return (self, *(self.alternatives or ()), *(self.none_of or ()))

    @property
    def needs_model(self) -> bool:
        """Return True if a condition needs a judge model or an embedding model."""
        return any(each.list_statements() or each.list_embedding_models() for each in self.groups)

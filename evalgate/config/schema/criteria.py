"""The sections `criteria`, `custom_metrics`, `cases` and `tool_mocks`."""

import json
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Annotated, Literal, Self, TypeAlias, TypeGuard

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    Strict,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from evalgate.config.schema.budgets import convert_case_limits
from evalgate.config.schema.field_types import ConfigSection, Entry, Names, Unit, Weight
from evalgate.core.errors import Problem
from evalgate.core.score_ranges import UNIT_RANGE, Range, get_score_range
from evalgate.core.types import ReliabilityRule


class CaseThreshold(ConfigSection):
    """Minimums of one metric in an entry of `cases`: for each selected case, and for their mean."""

    threshold: Annotated[float, Strict(), Field(allow_inf_nan=False)]
    """Lowest score with which a selected case passes."""
    min_mean: Annotated[float, Strict(), Field(allow_inf_nan=False)] | None = None
    """Minimum of the mean of the selected cases; when absent, the `min_mean` of the criterion."""

    @model_validator(mode="before")
    @classmethod
    def _wrap_bare_threshold(cls, value: object) -> object:
        if isinstance(value, dict):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            # pydantic reports only ValueError; its own error would name a key `threshold` that is not there
            raise ValueError(f"must be a number, not {value!r}")  # noqa: TRY004
        return {"threshold": value}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        most = {"type": "number", "description": "Largest figure of a budget."}
        limit = {"type": "object", "properties": {"max": most}, "required": ["max"]}
        return {"anyOf": [{"type": "number"}, handler(core_schema), {**limit, "additionalProperties": False}]}


class CaseRule(ConfigSection):
    """Entry of `cases`: settings of the cases that `ids` and `tags` select."""

    ids: Names = Field(default=(), min_length=1)
    """Cases by `id`, `eval set:id` or `file:id`; globs."""
    tags: Names = Field(default=(), min_length=1)
    """Cases that have one of these tags."""
    tag: Names = ()
    """Tags that are added to these cases."""
    weight: Annotated[Weight, Strict()] | None = None
    """Weight of each of these cases in the mean of every metric; 1 if no entry of `cases` sets one."""
    criteria: Annotated[Mapping[str, CaseThreshold], BeforeValidator(convert_case_limits)] = Field(
        default_factory=dict
    )
    """Threshold that these cases must reach, by metric, in the range of the metric's scores; or an object
    with `threshold` and `min_mean`."""
    protected: Annotated[bool, Strict()] | None = None
    """true: the gate closes if one of these cases fails, regardless of `max_failed_cases`. When absent: as an
    earlier entry of `cases` says, else false."""

    @model_validator(mode="after")
    def _require_ids_or_tags(self) -> Self:
        if not self.ids and not self.tags:
            raise ValueError("must select cases with `ids` or `tags`")
        return self

    @model_validator(mode="after")
    def _require_a_setting(self) -> Self:
        if not self.tag and not self.criteria and self.weight is None and self.protected is None:
            raise ValueError("sets nothing: `tags` selects cases, and `tag` gives them a tag")
        return self


def _validate_json_value(value: JsonValue) -> JsonValue:
    """Return the value. Raise ValueError for `.nan` and `.inf`, which YAML allows and JSON does not."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise ValueError("must not contain `.nan` or `.inf`, which JSON does not have") from None
    return value


_Json = Annotated[JsonValue, AfterValidator(_validate_json_value)]


class ToolMockConfig(ConfigSection):
    """A fixed result that replaces a tool. If several entries match a call, the first of them counts."""

    tool: str = Field(min_length=1)
    """Name of the tool."""
    result: _Json
    """Result that the agent receives instead of the tool's."""
    args: Mapping[str, _Json] | None = None
    """Arguments that the call must have; any when absent."""
    exact: Annotated[bool, Strict()] = False
    """true: the call must have the arguments `args` and no others; false: others are allowed."""
    ids: Names = Field(default=(), min_length=1)
    """Cases by `id`, `eval set:id` or `file:id`, globs; every case when absent."""

    @model_validator(mode="after")
    def _require_args_if_exact(self) -> Self:
        if self.exact and self.args is None:
            raise ValueError("is `exact` without `args`: `args: {}` is a call without any")
        return self


class RecordedToolsConfig(ConfigSection):
    """A recording that replaces all tools: a call gets the result that it had when the recording was made."""

    source: str = Field(min_length=1, alias="from")
    """A `results.json`, or another recording of conversations, relative to this file."""
    live: Names = ()
    """Tools that are called for real, globs; none when absent."""
    ids: Names = Field(default=(), min_length=1)
    """Cases by `id`, `eval set:id` or `file:id`, globs; every case when absent."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_fixed_result(cls, value: object) -> object:
        if isinstance(value, dict) and (mixed := [key for key in ("tool", "result", "args") if key in value]):
            raise ValueError(f"has `from` and `{mixed[0]}`: a fixed result is an entry of its own")
        return value


def _choose_mock_model(value: object, _: object) -> ToolMockConfig | RecordedToolsConfig:
    # Not by a union of pydantic, because its errors would name the members of the union.
    if isinstance(value, ToolMockConfig | RecordedToolsConfig):
        return value
    if isinstance(value, dict) and "from" in value:
        return RecordedToolsConfig.model_validate(value)
    return ToolMockConfig.model_validate(value)


ToolMockEntry = Annotated[ToolMockConfig | RecordedToolsConfig, WrapValidator(_choose_mock_model)]
"""An entry of the section `tool_mocks`: a fixed result, or a recording."""


def _wrap_one_recording(
    value: object, handler: Callable[[object], tuple[ToolMockConfig | RecordedToolsConfig, ...]]
) -> tuple[ToolMockConfig | RecordedToolsConfig, ...]:
    return (RecordedToolsConfig.model_validate(value),) if isinstance(value, dict) else handler(value)


class _OrOneRecording:
    """Annotation with which the JSON Schema accepts a single recording in place of a list of tool mocks."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        many = handler(core_schema)
        return {"anyOf": [many, many["items"]["anyOf"][1]]}


ToolMocks = Annotated[tuple[ToolMockEntry, ...], WrapValidator(_wrap_one_recording), _OrOneRecording]
"""The section `tool_mocks`: a list, or one recording."""


def list_recordings(
    mocks: tuple[ToolMockConfig | RecordedToolsConfig, ...],
) -> tuple[RecordedToolsConfig, ...]:
    """Return the recordings in the section `tool_mocks`, without the fixed results."""
    return tuple(each for each in mocks if isinstance(each, RecordedToolsConfig))


def drop_recordings(
    mocks: tuple[ToolMockConfig | RecordedToolsConfig, ...],
) -> tuple[ToolMockConfig, ...]:
    """Return the fixed results in the section `tool_mocks`, without the recordings."""
    return tuple(each for each in mocks if isinstance(each, ToolMockConfig))


Bound = Annotated[float, Strict(), Field(allow_inf_nan=False)]


class AdkCriterionConfig(BaseModel):
    """A criterion as in Google ADK: any finite number as threshold, and options that the metric validates."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    threshold: float = Field(allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _wrap_bare_threshold(cls, value: object) -> object:
        return value if isinstance(value, dict) else {"threshold": value}


class CriterionSettings(BaseModel):
    """Settings that criteria and checks share: rules for passing, minimum of the mean, allowed drop."""

    model_config = ConfigDict(defer_build=True)

    pass_hat_k: Annotated[int, Strict()] | None = Field(default=None, ge=1)
    """Number k of runs: a case passes if the estimated probability that k runs all pass reaches `at_least`.
    The estimate from the case's runs is unbiased."""
    pass_at_k: Annotated[int, Strict()] | None = Field(default=None, ge=1)
    """Number k of runs: a case passes if the estimated probability that at least one of k runs passes reaches
    `at_least`. The estimate from the case's runs is unbiased."""
    at_least: Unit | None = None
    """Minimum of the estimate of `pass_hat_k` or `pass_at_k`; 1 when absent."""
    threshold_rule: Literal["literal", "statistical"] = "literal"
    """Rule for a mean below its minimum. `literal`: the mean fails. `statistical`: the mean fails only if the
    difference is more than noise. The minimum is `min_mean`, or `threshold` if `min_mean` is absent. With
    `literal`, an absent `min_mean` means no minimum if a comparison with a baseline judges the mean."""
    min_mean: Annotated[float, Strict(), Field(allow_inf_nan=False)] | None = None
    """Minimum of the mean of all cases. When absent: `threshold`, or no minimum if a baseline comparison
    judges the mean. There is no allowance for noise, unless `threshold_rule` is `statistical`."""
    max_regression: Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None, validation_alias=AliasChoices("max_regression", "max_drop")
    )
    """Smallest drop of this metric's mean that closes the gate, in units of the metric's scores. A drop that
    can be luck does not close it. When absent: `gate.max_regression`."""
    gates: Annotated[bool, Strict()] = True
    """false: the metric is scored, compared with the baseline and reported, and decides nothing."""

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.pass_hat_k and self.pass_at_k:
            raise ValueError("must have `pass_hat_k` or `pass_at_k`, not both")
        if self.pass_at_k and self.threshold_rule == "statistical":
            raise ValueError("has `threshold_rule: statistical`, which judges means and `pass_hat_k` alone")
        if self.at_least is not None and not (self.pass_hat_k or self.pass_at_k):
            raise ValueError("has `at_least`, which belongs to `pass_hat_k` or `pass_at_k`")
        if not self.gates and self.threshold_rule == "statistical":
            raise ValueError("has `threshold_rule: statistical`, which decides nothing with `gates: false`")
        if not self.gates and self.max_regression is not None:
            raise ValueError("has `max_regression`, which decides nothing with `gates: false`")
        return self

    @property
    def reliability(self) -> ReliabilityRule | None:
        """Return the rule that `pass_hat_k` or `pass_at_k` sets; None if neither is set."""
        at_least = 1.0 if self.at_least is None else self.at_least
        if self.pass_hat_k:
            return ReliabilityRule("pass^k", self.pass_hat_k, at_least)
        return ReliabilityRule("pass@k", self.pass_at_k, at_least) if self.pass_at_k else None


class CriterionConfig(AdkCriterionConfig, CriterionSettings):
    """A criterion of evalgate's own file, with a threshold in the range of the metric's scores."""

    threshold: Annotated[float, Strict(), Field(allow_inf_nan=False)]
    """Lowest score with which a run or a case passes, in the range of the metric. The minimum for the mean of
    all cases is `min_mean`."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        return {"anyOf": [{"type": "number"}, handler(core_schema)]}


CHECK = "check/*"
"""Name of the metric that evaluates every check, in the plugin registry."""


class CheckConfig(CriterionSettings):
    """A check: conditions that a run must meet, the cases that it is for, and how many runs must pass."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    ids: Names = Field(default=(), min_length=1)
    """Cases by `id`, `eval set:id` or `file:id`, globs; every case when `tags` is absent too."""
    tags: Names = Field(default=(), min_length=1)
    """Cases that have one of these tags."""
    threshold: Unit = 1.0
    """Share of a case's runs that must pass."""
    min_mean: Unit | None = None
    """Minimum of the share of passed runs over all cases, without allowance for noise. When absent:
    `threshold`, or no minimum if a comparison with a baseline judges the share."""


class CustomMetricConfig(ConfigSection):
    """A metric that a Python function of yours computes."""

    entry: Entry
    """`package.module.function`, `package.module:function` or `path/file.py:function`."""
    python: str | None = None
    """Interpreter that runs the function; the gate's own when absent."""
    timeout: Annotated[float, Strict()] = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Seconds that the score of one run may take."""
    range: tuple[Bound, Bound] | None = None
    """Lowest and highest score, as `[1, 5]`; a run with a score outside counts as not scored. When absent: 0
    and 1, and scores outside are allowed."""

    @field_validator("range", mode="before")
    @classmethod
    def _require_pair(cls, value: object) -> object:
        if value is not None and not (isinstance(value, list | tuple) and len(value) == 2):
            raise ValueError("must be the lowest and the highest score, as [1, 5]")
        return value

    @field_validator("range")
    @classmethod
    def _require_ascending(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and value[0] >= value[1]:
            low, high = value
            raise ValueError(f"must name the lowest score first, as [1, 5]: {low:g} is not below {high:g}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _wrap_bare_entry(cls, value: object) -> object:
        return {"entry": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        return {"anyOf": [{"type": "string"}, handler(core_schema)]}


_KeyPath: TypeAlias = tuple[str | int, ...]


def find_out_of_range_values(
    thresholds: object, file: str, position: Callable[[_KeyPath], tuple[int, int]]
) -> Iterator[Problem]:
    """Yield a problem for each threshold, minimum or drop that is outside the range of its metric's scores.

    `thresholds` is the raw content of a thresholds file, in which the sections `criteria` and `cases` are
    searched. Values that are not numbers are ignored. `position` returns line and column of a key.
    """
    values = thresholds if isinstance(thresholds, Mapping) else {}
    own = dict(_read_declared_ranges(values))
    for path, name, value in _find_score_numbers(values):
        known = own.get(name, get_score_range(name))
        if known is None:
            continue
        is_drop = path[-1] in _DROPS
        allowed = Range(0.0, known.width) if is_drop else known
        if not min(allowed) <= value <= max(allowed):
            why = f", for its scores are between {known}" if is_drop else ", as its scores are"
            why = "" if known == UNIT_RANGE else why
            shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]
            yield Problem(file, *position(path), f"`{shown}` should be between {allowed}{why}")


def _read_declared_ranges(thresholds: Mapping[object, object]) -> Iterator[tuple[str, Range | None]]:
    """Yield (metric, range) for each custom metric that declares a range. An invalid range is None."""
    for name, metric in _list_items(thresholds.get("custom_metrics")):
        bounds = dict(_list_items(metric)).get("range")
        if bounds is not None:
            low, high = bounds if isinstance(bounds, list) and len(bounds) == 2 else (None, None)
            yield name, Range(low, high) if _is_number(low) and _is_number(high) and low < high else None


_DROPS = ("max_regression", "max_drop")


def _find_score_numbers(thresholds: Mapping[object, object]) -> Iterator[tuple[_KeyPath, str, float]]:
    """Yield (path of the key, metric, value) for each number that is compared with scores."""
    for name, value in _list_items(thresholds.get("criteria")):
        own = dict(_list_items(value)) or {"threshold": value}
        for key in ("threshold", "min_mean", *_DROPS):
            if _is_number(found := own.get(key)):
                yield ("criteria", name, key), name, found
    rules = thresholds.get("cases")
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        for name, value in _list_items(dict(_list_items(rule)).get("criteria")):
            place = ("cases", index, "criteria", name)
            if _is_number(value):
                yield place, name, value
            for key in ("threshold", "min_mean"):
                if _is_number(found := dict(_list_items(value)).get(key)):
                    yield (*place, key), name, found


def _list_items(value: object) -> Iterator[tuple[str, object]]:
    yield from ((str(name), each) for name, each in value.items()) if isinstance(value, Mapping) else ()


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)

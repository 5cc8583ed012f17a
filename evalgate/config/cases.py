"""Sections that hold for some cases: `cases` and `tool_mocks`."""

import json
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    Strict,
    model_validator,
)
from pydantic_core import CoreSchema

from evalgate.config.values import Names, Section


class CaseThreshold(Section):
    """A threshold of some cases with a minimum of their mean."""

    threshold: Annotated[float, Strict(), Field(allow_inf_nan=False)]
    """Lowest score with which one of these cases passes."""
    min_mean: Annotated[float, Strict(), Field(allow_inf_nan=False)] | None = None
    """What the mean of these cases must reach; that of the criterion when absent."""

    @model_validator(mode="before")
    @classmethod
    def _bare_threshold(cls, value: object) -> object:
        if isinstance(value, dict):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            # pydantic turns only ValueError into a finding, and its own names a `threshold` that is not there
            raise ValueError(f"must be a number, not {value!r}")  # noqa: TRY004
        return {"threshold": value}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        return {"anyOf": [{"type": "number"}, handler(core_schema)]}


class CaseRule(Section):
    """What holds for some cases only."""

    ids: Names = ()
    """Cases by `id`, `eval set:id` or `file:id`; globs."""
    tags: Names = ()
    """Cases that have one of these tags."""
    tag: Names = ()
    """Tags that they get."""
    weight: Annotated[float, Strict()] | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Share in the mean of each metric; 1 when absent."""
    criteria: Mapping[str, CaseThreshold] = Field(default_factory=dict)
    """Metric → the threshold that these cases must reach, in the range of its scores, or an object that says
    their `min_mean` as well."""
    protected: Annotated[bool, Strict()] | None = None
    """The gate closes when one of them fails, whatever `max_failed_cases` allows."""

    @model_validator(mode="after")
    def _says_of_which(self) -> Self:
        if not self.ids and not self.tags:
            raise ValueError("must say which cases: `ids` or `tags`")
        return self


def _sendable(value: JsonValue) -> JsonValue:
    """YAML has `.nan` and `.inf`; the JSON that an agent gets has not."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise ValueError("must not hold `.nan` or `.inf`, which JSON does not have") from None
    return value


_Json = Annotated[JsonValue, AfterValidator(_sendable)]


class ToolMockConfig(Section):
    """A fixed result in the place of a tool. Of several that match a call, the first."""

    tool: str = Field(min_length=1)
    """Name of the tool."""
    result: _Json
    """What the agent gets instead of calling the tool."""
    args: Mapping[str, _Json] | None = None
    """Arguments that the call must have; whatever they are when absent."""
    exact: Annotated[bool, Strict()] = False
    """The call may have no other arguments than `args`."""
    ids: Names = ()
    """Cases by `id`, `eval set:id` or `file:id`, globs; every case when absent."""

    @model_validator(mode="after")
    def _says_exactly_what(self) -> Self:
        if self.exact and self.args is None:
            raise ValueError("is `exact` and says no `args`: `args: {}` is a call without any")
        return self

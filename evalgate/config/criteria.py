"""Sections that say what is measured: `criteria` and `custom_metrics`."""

from typing import Annotated, Literal, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    Strict,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from evalgate.config.values import Entry, Section, Unit
from evalgate.model import Reliability

Bound = Annotated[float, Strict(), Field(allow_inf_nan=False)]


class AdkCriterionConfig(BaseModel):
    """A metric's threshold, as unbounded as in Google ADK, and its own options, which the metric checks."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    threshold: float = Field(allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _bare_threshold(cls, value: object) -> object:
        return value if isinstance(value, dict) else {"threshold": value}


class CriterionConfig(AdkCriterionConfig):
    """The same in our own file, where a threshold lies in the range of the metric's scores."""

    threshold: Annotated[float, Strict(), Field(allow_inf_nan=False)]
    """Lowest score with which a run or a case passes, in the range of the metric. `min_mean` speaks of the
    mean."""
    pass_hat_k: Annotated[int, Strict()] | None = Field(default=None, ge=1)
    """A case passes when k of its runs would all pass, by the unbiased estimate."""
    pass_at_k: Annotated[int, Strict()] | None = Field(default=None, ge=1)
    """A case passes when at least one of k runs would."""
    at_least: Unit | None = None
    """What that estimate must reach; 1 when absent."""
    threshold_rule: Literal["literal", "statistical"] = "literal"
    """`statistical`: a mean below `min_mean` (else `threshold`) fails only when that is more than noise."""
    min_mean: Annotated[float, Strict(), Field(allow_inf_nan=False)] | None = None
    """What the mean of all cases must reach, literally. When absent: `threshold`, unless a comparison with a
    baseline judges the mean."""
    max_regression: Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None, validation_alias=AliasChoices("max_regression", "max_drop")
    )
    """Own allowance for a drop against the baseline, in points of the metric; that of `gate` when absent."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if self.pass_hat_k and self.pass_at_k:
            raise ValueError("must have `pass_hat_k` or `pass_at_k`, not both")
        if self.pass_at_k and self.threshold_rule == "statistical":
            raise ValueError("has `threshold_rule: statistical`, which judges means and `pass_hat_k` alone")
        if self.at_least is not None and not (self.pass_hat_k or self.pass_at_k):
            raise ValueError("has `at_least`, which belongs to `pass_hat_k` or `pass_at_k`")
        return self

    @property
    def reliability(self) -> Reliability | None:
        """What the two options ask for."""
        at_least = 1.0 if self.at_least is None else self.at_least
        if self.pass_hat_k:
            return Reliability("pass^k", self.pass_hat_k, at_least)
        return Reliability("pass@k", self.pass_at_k, at_least) if self.pass_at_k else None

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        return {"anyOf": [{"type": "number"}, handler(core_schema)]}


class CustomMetricConfig(Section):
    """A metric that is a Python function of the user's."""

    entry: Entry
    """`package.module.function`, `package.module:function` or `path/file.py:function`."""
    python: str | None = None
    """Interpreter that runs it; the gate's own when absent."""
    timeout: Annotated[float, Strict()] = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Seconds that the score of one run may take."""
    range: tuple[Bound, Bound] | None = None
    """Its lowest and its highest score, as `[1, 5]`; a score beyond them breaks it. When absent they are 0
    and 1, and a score may lie beyond."""

    @field_validator("range", mode="before")
    @classmethod
    def _are_two(cls, value: object) -> object:
        if value is not None and not (isinstance(value, list | tuple) and len(value) == 2):
            raise ValueError("must be the lowest and the highest score, as [1, 5]")
        return value

    @field_validator("range")
    @classmethod
    def _rises(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and value[0] >= value[1]:
            low, high = value
            raise ValueError(f"must name the lowest score first, as [1, 5]: {low:g} is not below {high:g}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _bare_entry(cls, value: object) -> object:
        return {"entry": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        return {"anyOf": [{"type": "string"}, handler(core_schema)]}

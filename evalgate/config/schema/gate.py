"""The section `gate`, with its `statistics`: conditions under which the gate closes."""

from typing import Annotated, Literal, Self

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    Strict,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from evalgate.config import option_defaults
from evalgate.config.schema.field_types import ConfigSection, Count, ReadBareOff, Unit

DEFAULT_BASELINE = ".evalgate/baseline.json"
"""Path of the baseline for `baseline save` and `run`, unless another is named."""


class StatisticsConfig(ConfigSection):
    """Settings of the statistical comparison with the baseline, explained in docs/statistics.md."""

    alpha: Annotated[float, Strict()] = Field(default=0.05, ge=1e-9, lt=0.5)
    """Chance that luck alone closes the gate for an unchanged agent, over all metrics together. The tests
    of means use 0.6 of it, because the tests of single cases can close the gate, too."""
    doubt_alpha: Annotated[float, Strict()] = Field(default=0.10, gt=0, le=1)
    """Chance that the gate of an unchanged agent is closed or inconclusive because of a mean, over all
    metrics together; at least `alpha`. With 1, each drop of `max_regression` or more that may be luck is
    inconclusive."""
    case_alpha: Annotated[float, Strict()] = Field(default=0.02, gt=0, lt=0.5)
    """Chance that at least one unchanged case of the whole suite is called broken."""
    case_drop: Unit = 0.25
    """Smallest drop of one case that is reported, as a share of the range of the metric's scores."""
    confirm_runs: Count = Field(default=10, ge=1, le=1000)
    """Largest number of runs of a case that seems to be broken. A newly failing case that passed once may get
    twice as many."""
    fail_fast: Annotated[bool, Strict()] = True
    """true: make no further runs once a case is confirmed broken."""
    max_missing: Unit = 0.10
    """Largest share of runs that may lack a score through no fault of the agent. With more, the metric is
    inconclusive."""
    baseline_keep: Count = Field(default=20, ge=1, le=1000)
    """Number of a case's newest stored runs that the comparison uses. A baseline keeps this number of runs of
    the gate for each eval set, the newest ones."""
    pass_score: Unit = 1.0
    """Lowest score with which a run counts as passed in messages about a case: a share of the metric's range.
    `evalgate flaky` uses it for metrics without a threshold."""
    fdr: Annotated[float, Strict()] = Field(default=0.10, gt=0, lt=1)
    """Expected share of unchanged cases (false discoveries) in the list of cases that got worse. The list is
    made only with a fixed number of `runs`."""

    @model_validator(mode="after")
    def _check_alphas(self) -> Self:
        if self.doubt_alpha < self.alpha:
            raise ValueError(
                f"has `doubt_alpha: {self.doubt_alpha:g}` below `alpha: {self.alpha:g}`: what is enough to "
                "close the gate is enough to doubt"
            )
        return self


class AnchorConfig(ConfigSection):
    """Older baseline that stays fixed, so that many small drops together close the gate."""

    baseline: Annotated[str, Field(min_length=1)]
    """Baseline as in `gate.baseline`, or one of the past: a file or `branch:NAME`, then `@` and a tag, a
    commit or a date, as `.evalgate/baseline.json@v1.2.0` or `branch:evalgate-baseline@2026-09-01`."""
    max_regression: Unit | None = Field(
        default=None, validation_alias=AliasChoices("max_regression", "max_drop")
    )
    """Smallest drop of a metric's mean since the anchor that closes the gate, as a share of the metric's
    range. A drop that can be luck does not close it. When absent: `gate.max_regression`."""

    @field_validator("baseline")
    @classmethod
    def _require_revision(cls, value: str) -> str:
        source, at, when = value.rpartition("@")
        if at and not (source and when):
            raise ValueError(
                f"has `{value}`: before `@` stands a file or `branch:NAME`, after it a tag, commit or date"
            )
        return value


def _wrap_bare_baseline(value: object) -> object:
    if value is not None and not isinstance(value, str | dict | AnchorConfig):
        shown = str(value).lower() if isinstance(value, bool) else repr(value)  # `off` in YAML is false
        raise ValueError(
            "must be a baseline, such as `branch:evalgate-baseline@v1.2.0`, or an object with `baseline`, "
            f"not {shown:.80}: without an anchor, leave the key out"
        )
    return {"baseline": value} if isinstance(value, str) else value


class ControlConfig(ConfigSection):
    """Control runs: runs of the base commit's agent in the same job: docs/control-runs.md."""

    mode: Annotated[Literal["off", "suspects", "all"], ReadBareOff] = "suspects"
    """Cases that the base commit's agent runs, too, before the comparison with the baseline closes the gate.
    `suspects`: the cases that broke, and the cases of each metric with a fallen average. `all`: the cases
    that broke, and the cases of every metric. `off`: none."""
    url: str | None = Field(default=None, min_length=1)
    """Address at which the base commit's agent is deployed, for agents of kind `http`; may hold `${NAME}`."""

    @model_validator(mode="before")
    @classmethod
    def _wrap_bare_mode(cls, value: object) -> object:
        return {"mode": value} if isinstance(value, str) or value is False else value

    @model_validator(mode="after")
    def _reject_unused_url(self) -> Self:
        if self.mode == "off" and self.url is not None:
            raise ValueError("has a `url` and `mode: off`, which makes no control runs")
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        modes = {"enum": ["off", "suspects", "all", False]}
        return {"anyOf": [modes, handler(core_schema)]}


NO_CONTROL = ControlConfig.model_construct(mode="off")


class GateConfig(ConfigSection):
    """Conditions under which the gate closes."""

    baseline: str | None = Field(default=None, min_length=1)
    """Baseline to compare with: a file, `branch:NAME`, `artifact:NAME`, or a URL as `s3://BUCKET/FOLDER`.

    A baseline that does not exist yet is a notice, not an error. When absent: .evalgate/baseline.json, if it
    exists.
    """
    anchor: Annotated[
        AnchorConfig | None,
        BeforeValidator(_wrap_bare_baseline, json_schema_input_type=str | AnchorConfig | None),
    ] = None
    """Older baseline for a second comparison of means: a string, or `baseline` and `max_regression`."""
    quarantine: str | None = Field(default=None, min_length=1)
    """File of cases that run and are reported, but do not gate. Each entry has the keys `case`, `owner`,
    `reason` and `expires`."""
    max_regression: Unit = Field(
        default=option_defaults.MAX_REGRESSION, validation_alias=AliasChoices("max_regression", "max_drop")
    )
    """Smallest drop of a metric's mean that closes the gate, as a share of the metric's range. A drop that
    can be luck does not close it."""
    require: Literal["guard", "proof"] = "guard"
    """`guard`: the gate closes if the change is shown to be worse. `proof`: it opens only if the change is
    shown not to be worse."""
    on_inconclusive: Literal["warn", "fail", "distinguish"] = "warn"
    """Exit code of inconclusive runs: `warn` is 0, `fail` is 1, `distinguish` is 4."""
    max_runs: Count = Field(default=5, ge=1, le=1000)
    """Largest number of rounds of `runs: auto`; a round is one run of every case."""
    deterministic: Annotated[bool, Strict()] = False
    """true: the agent answers the same each time, so its scores are compared exactly, without statistics."""
    statistics: StatisticsConfig = StatisticsConfig.model_construct()
    """Settings that separate regressions from luck."""
    # The schema names the default as users write it.
    control: ControlConfig = Field(default=NO_CONTROL, json_schema_extra={"default": "off"})
    """Runs of the base commit's agent, to tell a change of the agent from a drift of its model or backend:
    `off`, `suspects`, `all`, or a section with more settings."""
    max_failed_cases: Count | None = Field(default=None, ge=0)
    """Number of cases that may miss a threshold or crash before the gate closes. When absent: 0, but then a
    case does not count if luck explains its failure, or if stored runs of it failed in the same way."""
    max_error_rate: Unit = 0.5
    """Largest share of runs without a score, as the mean over all cases; above it there is no verdict."""
    min_cases: Count = Field(default=1, ge=0)
    """Least number of evaluated cases; with fewer there is no verdict. 0: a run without any case passes."""
    report_only: Annotated[bool, Strict()] = False
    """true: a run that fails or is inconclusive ends with exit code 0, and the reports say so."""

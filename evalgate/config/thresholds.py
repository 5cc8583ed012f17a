"""A thresholds file, checked."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import (
    Field,
    field_validator,
)
from pydantic.config import JsonDict

from evalgate.budget import NO_BUDGET, Budget
from evalgate.config.adkversion import parse_adk_version
from evalgate.config.agent import AgentConfig
from evalgate.config.cases import CaseRule, ToolMockConfig
from evalgate.config.criteria import CriterionConfig, CustomMetricConfig
from evalgate.config.executor import LOCAL, ExecutorConfig
from evalgate.config.gate import GateConfig
from evalgate.config.values import Names, Runs, Section
from evalgate.frozen import frozen
from evalgate.judge.settings import JudgeConfig
from evalgate.model import Criterion
from evalgate.prices import Price
from evalgate.reading.validation import Location
from evalgate.scoring.ranges import Range, range_of
from evalgate.simulation.settings import UserConfig


def _drop_default(schema: JsonDict) -> None:
    """Remove the default from the schema of a key whose default depends on more than the file."""
    schema.pop("default", None)


class Config(Section):
    """A thresholds file, checked."""

    version: Literal[1] = 1
    """Version of this file format."""
    eval_sets: Names = ()
    """Files, folders or globs, relative to the working directory; `file.json:case_a,case_b` selects cases."""
    agent: AgentConfig | None = None
    """The agent that is gated."""
    executor: ExecutorConfig = LOCAL
    """Where the agent's workers run: `local`, `ray`, or a section that says more."""
    runs: Runs = Field(default=1, json_schema_extra=_drop_default)
    """Runs of every case; `auto`: as many as the comparison with the baseline needs. When absent: `auto` if
    the baseline holds 3 runs or more of at least half of the cases, and the agent is neither a recording nor
    `gate.deterministic`; else, and in a shard, 1."""
    criteria: Mapping[str, CriterionConfig] = Field(default_factory=dict)
    """Name of a metric → its threshold, or a section with the threshold and the metric's options."""
    custom_metrics: Mapping[str, CustomMetricConfig] = Field(default_factory=dict)
    """Name of a metric, as `criteria` uses it → the function that computes it."""
    adk_version: str | None = None
    """Release of Google ADK whose scores are reproduced, as "2.3"; the newest when absent."""
    cases: tuple[CaseRule, ...] = ()
    """What holds for some cases only; where two disagree, the later one."""
    tool_mocks: tuple[ToolMockConfig, ...] = ()
    """Fixed results in the place of tools, so that no live backend is needed."""
    gate: GateConfig = GateConfig()
    """What closes the gate next to thresholds: the baseline, regressions, errors, quarantine."""
    judge: JudgeConfig | None = None
    """The model that judges, where a metric names no other."""
    user: UserConfig | None = None
    """Who plays the users of cases that are scenarios or stories."""
    budget: Budget = NO_BUDGET
    """What the whole run may use: agent, judges and simulated users together."""
    prices: Mapping[str, Price] = Field(default_factory=dict)
    """`provider/model` → its price, before the known ones."""
    format: str | None = None
    """What every eval set is read as; found by each file's content when absent."""

    @field_validator("adk_version", mode="before")
    @classmethod
    def _quoted(cls, value: object) -> object:
        if isinstance(value, (int, float)):
            # pydantic turns only ValueError into a finding
            raise ValueError(f'must be quoted, as "{value}": 2.10 without quotes is the number 2.1')  # noqa: TRY004
        return value

    @field_validator("adk_version")
    @classmethod
    def _is_release(cls, value: str | None) -> str | None:
        if value is not None:
            parse_adk_version(value)
        return value

    @property
    def runs_given(self) -> bool:
        """Whether somebody said how often each case is run."""
        return "runs" in self.model_fields_set

    def range_of(self, metric: str) -> Range:
        """Between which numbers the scores of a metric lie, by its name."""
        own = self.custom_metrics.get(metric)
        return Range(*own.range) if own and own.range else range_of(metric)


@frozen
class Thresholds:
    """A checked thresholds file and where it stands."""

    config: Config
    base: Path
    """Paths in the file are relative to this folder."""
    file: str = ""
    """The file, as the user wrote it; "" when there is none."""
    dialect: Literal["evalgate", "adk", "trpc"] = "evalgate"
    """Who defines the metric names and options in it."""

    criteria: tuple[Criterion, ...] = ()
    """The criteria, in the order of the file."""
    position: Callable[[Location], tuple[int, int]] = lambda _: (0, 0)
    """Line and column of a place in the file."""
    notices: tuple[str, ...] = ()
    """What a user should know of how the file was read: keys that its owner ignores, too."""

    @property
    def gating_criteria(self) -> tuple[Criterion, ...]:
        """The criteria; those of another owner's file hold the mean to the threshold, as the owner does."""
        if self.dialect == "evalgate":
            return self.criteria
        return tuple(replace(each, min_mean=each.threshold) for each in self.criteria)

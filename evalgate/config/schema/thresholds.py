"""A validated thresholds file, and the releases of Google ADK that it may name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, field_validator, model_validator
from pydantic.config import JsonDict

from evalgate.config.schema.agent import LOCAL, AgentConfig, ExecutorConfig, SessionConfig
from evalgate.config.schema.budgets import NO_BUDGET, Budget, complete_budgets, is_budget
from evalgate.config.schema.criteria import (
    CHECK,
    CaseRule,
    CheckConfig,
    CriterionConfig,
    CustomMetricConfig,
    ToolMocks,
)
from evalgate.config.schema.field_types import CheckName, ConfigSection, Names, Runs
from evalgate.config.schema.gate import GateConfig
from evalgate.config.schema.judge import JudgeConfig, UserConfig
from evalgate.config.token_prices import Price
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import Range, get_score_range
from evalgate.core.types import Criterion
from evalgate.documents.strict_json import Location

NEWEST_ADK = (2, 13)


def parse_adk_version(text: str) -> tuple[int, int]:
    """Return (major, minor) of a release of Google ADK: (2, 3) for "2.3" and "2.3.0".

    Raises:
        ValueError: the release is not from 2.0 to `NEWEST_ADK`, or the text is not a release.
    """
    try:
        major, minor = (int(part) for part in text.split(".")[:2])
    except ValueError:
        raise ValueError(f'must look like "2.3", not {text!r}') from None
    if not (2, 0) <= (major, minor) <= NEWEST_ADK:
        newest = ".".join(str(part) for part in NEWEST_ADK)
        raise ValueError(f'must be a release from "2.0" to "{newest}", not {text!r}')
    return major, minor


def _drop_default(schema: JsonDict) -> None:
    """Remove the default of a key from its JSON Schema, because the real default depends on the run, too."""
    schema.pop("default", None)


# --- suites -------------------------------------------------------------------------------------------------


def _check_pattern(pattern: str) -> str:
    if not pattern.strip() or pattern.startswith(("/", "!", "./")) or "\\" in pattern:
        raise ValueError(
            f"must be a glob relative to the working folder, as `prompts/**`, with slashes and without `./`, "
            f"`!` or `/` at its start, not {pattern!r}"
        )
    return pattern


_Pattern = Annotated[str, AfterValidator(_check_pattern)]

Patterns = Annotated[
    tuple[_Pattern, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""Globs of files: `*` stays within a folder, `**` does not, and a folder stands for everything below it."""

SuiteName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*$")]


class SuiteConfig(ConfigSection):
    """A named part of the eval sets."""

    eval_sets: Names = Field(min_length=1)
    """Files, folders or globs, written as in the key `eval_sets` of the whole file."""
    affects: Patterns = ()
    """Globs of the files whose change affects the suite, relative to the working folder. Without globs, every
    change affects the suite, unless runs with `agent.track_files` recorded the files that it needs."""


class AffectedConfig(ConfigSection):
    """Settings of `evalgate affected` and `run --affected`."""

    ignored: Patterns = ()
    """Globs of files that affect no suite, unless a suite names them in `affects`."""


def expand_suite_names(names: Sequence[str], suites: Mapping[str, SuiteConfig]) -> tuple[str, ...]:
    """Replace the name of each suite in `names` by the suite's eval sets."""
    return tuple(each for name in names for each in (suites[name].eval_sets if name in suites else (name,)))


def complete_eval_sets(value: object) -> object:
    """Return the content of a thresholds file with suites in `eval_sets` replaced by the suites' eval sets.

    `value` is the decoded content, not validated yet. If `eval_sets` is missing, it becomes the eval sets of
    all suites. Return `value` unchanged if it has no suites. Return it unchanged, too, if a section is
    invalid, because the validation reports the problem later.
    """
    suites = value.get("suites") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(suites, Mapping) or not suites:
        return value
    given = value.get("eval_sets", tuple(suites))
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        return value
    found: list[str] = []
    for name in names:
        section = suites.get(name)
        own = (
            section.get("eval_sets", ())
            if isinstance(section, Mapping)
            else getattr(section, "eval_sets", name)
        )
        found += (own,) if isinstance(own, str) else own if isinstance(own, Sequence) else ()
    if not all(isinstance(each, str) for each in found):
        return value
    return {**value, "eval_sets": tuple(dict.fromkeys(found))}


class Config(ConfigSection):
    """A thresholds file: which cases run, with which agent, how they are scored, what closes the gate."""

    version: Literal[1] = 1
    """Version of this file format."""
    eval_sets: Names = ()
    """Files, folders or globs, relative to the working directory; `file.json:case_a,case_b` selects cases.
    The name of a suite stands for its eval sets. When absent: those of all suites."""
    suites: Mapping[SuiteName, SuiteConfig] = Field(default_factory=dict)
    """Suites by name: eval sets, and the files that affect them. Suites that a change affects can be run
    alone."""
    affected: AffectedConfig = AffectedConfig.model_construct()
    """Files that `evalgate affected` and `run --affected` ignore."""
    agent: AgentConfig | None = None
    """The agent that is gated."""
    session: SessionConfig | None = None
    """Start of the agent's session, for cases that do not define it."""
    executor: ExecutorConfig = LOCAL
    """Place where the agent's workers run: `local`, `ray`, or a section with more settings."""
    runs: Runs = Field(default=1, json_schema_extra=_drop_default)
    """Number of runs of every case; `auto`: as many as the comparison with the baseline needs. When absent:
    `auto` if the baseline has 3 or more runs of at least half of the cases, else 1. The default is always 1
    in a shard, for a recording, and with `gate.deterministic`."""
    criteria: Annotated[Mapping[str, CriterionConfig], BeforeValidator(complete_budgets)] = Field(
        default_factory=dict
    )
    """Threshold by name of the metric, or a section with the threshold and the metric's options."""
    custom_metrics: Mapping[str, CustomMetricConfig] = Field(default_factory=dict)
    """Functions that compute metrics, by the name that `criteria` uses for the metric."""
    checks: Mapping[CheckName, CheckConfig] = Field(default_factory=dict)
    """Checks by name: conditions on the tools that a run calls, their arguments, the responses, the final
    state and the files. Each check is a metric of its own, `check/name`, that scores 0 or 1."""
    adk_version: str | None = None
    """Release of Google ADK whose scores are reproduced, as "2.3"; the newest when absent."""
    cases: tuple[CaseRule, ...] = ()
    """Settings of some cases only. If two entries disagree about a case, the later one applies."""
    tool_mocks: ToolMocks = ()
    """Fixed results in the place of tools, or a recording of them, so that no live backend is needed."""
    gate: GateConfig = GateConfig.model_construct()
    """Conditions besides the thresholds that close the gate: regressions from the baseline, failed cases,
    errors."""
    judge: JudgeConfig | None = None
    """The model that judges, where a metric names no other."""
    user: UserConfig | None = None
    """Model that plays the users in scenarios and stories."""
    budget: Budget = NO_BUDGET
    """Limits of the whole run: agent, judges and simulated users together."""
    prices: Mapping[str, Price] = Field(default_factory=dict)
    """Prices by `provider/model`; they replace the prices that evalgate knows of these models."""
    format: str | None = None
    """Format of every eval set. When absent, the content of each file tells its format."""

    @model_validator(mode="before")
    @classmethod
    def _expand_suites(cls, value: object) -> object:
        return complete_eval_sets(value)

    @field_validator("adk_version", mode="before")
    @classmethod
    def _require_quotes(cls, value: object) -> object:
        if isinstance(value, (int, float)):
            # pydantic turns only ValueError into a finding
            raise ValueError(f'must be quoted, as "{value}": 2.10 without quotes is the number 2.1')  # noqa: TRY004
        return value

    @field_validator("adk_version")
    @classmethod
    def _check_release(cls, value: str | None) -> str | None:
        if value is not None:
            parse_adk_version(value)
        return value

    @property
    def is_replay(self) -> bool:
        """Return True if the agent is of the kind `replay`, a recording."""
        return self.agent is not None and self.agent.kind == "replay"

    @property
    def adk_release(self) -> tuple[int, int]:
        """Return (major, minor) of the Google ADK release that scoring follows; by default the newest one."""
        return parse_adk_version(self.adk_version) if self.adk_version else NEWEST_ADK

    @property
    def runs_given(self) -> bool:
        """Return True if the file or the command line sets the number of runs."""
        return "runs" in self.model_fields_set

    def get_score_range(self, metric: str) -> Range:
        """Return the range of a metric's scores; a custom metric may declare its own range."""
        own = self.custom_metrics.get(metric)
        return Range(*own.range) if own and own.range else get_score_range(metric)


# Without validation: defaults need none, and building the validator of every section takes time.
DEFAULT_CONFIG = Config.model_construct()
"""Settings that apply without a thresholds file."""


@frozen
class Thresholds:
    """A validated thresholds file with its location and its criteria."""

    config: Config
    folder: Path
    """Folder of the file. Paths in the file are relative to it. Paths in keys such as `eval_sets` are an
    exception: they are relative to the working directory."""
    file: str = ""
    """Path of the file, as the user wrote it; "" without a file."""
    dialect: Literal["evalgate", "adk", "trpc"] = "evalgate"
    """Tool that the file is for, which defines the names and options of its metrics."""

    criteria: tuple[Criterion, ...] = ()
    """The criteria in the order of the file, then the checks."""
    find_position: Callable[[Location], tuple[int, int]] = lambda _: (0, 0)
    """Function that returns line and column of a place in the file."""
    notices: tuple[str, ...] = ()
    """Notices for the user about how the file was read, such as keys that are ignored."""
    criteria_folder: str | None = None
    """Folder, relative to `folder`, with a file of criteria for each eval set. None: these files are searched
    for next to the eval sets."""

    @property
    def checks(self) -> tuple[Criterion, ...]:
        """Return the criteria that come from the section `checks`."""
        return tuple(each for each in self.criteria if each.evaluator == CHECK)

    @property
    def checks_and_budgets(self) -> tuple[Criterion, ...]:
        """Return the criteria that are checks or budgets.

        They apply in addition to criteria in files next to eval sets.
        """
        return tuple(each for each in self.criteria if each.evaluator == CHECK or is_budget(each.metric))

    @property
    def names_criteria(self) -> bool:
        """Return True if the file has a criterion that is neither a check nor a budget.

        In this case, criteria in files next to eval sets are not read.
        """
        return len(self.criteria) > len(self.checks_and_budgets)

    def find_check(self, criterion: Criterion) -> CheckConfig | None:
        """Return the section in `checks` that defines `criterion`, or None if it is not a check."""
        name = criterion.metric.partition("/")[2]
        return self.config.checks.get(name) if criterion.evaluator == CHECK else None

    def locate_criterion(self, criterion: Criterion) -> Location:
        """Return the keys that lead to a criterion in the file, such as ("criteria", NAME)."""
        if criterion.evaluator == CHECK:
            return ("checks", criterion.metric.partition("/")[2])
        return ("criteria", criterion.metric)

    @property
    def effective_criteria(self) -> tuple[Criterion, ...]:
        """Return the criteria with the `min_mean` that the gate applies.

        In a file of Google ADK or tRPC-Agent-Go, the threshold also becomes the `min_mean`, as in these
        tools. Budgets are not changed. Criteria of evalgate's own files are returned unchanged.
        """
        if self.dialect == "evalgate":
            return self.criteria
        return tuple(
            each if is_budget(each.metric) else replace(each, min_mean=each.threshold)
            for each in self.criteria
        )

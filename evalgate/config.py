"""The thresholds file: what is evaluated, with which agent, what it must reach. Every default stands here."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Self

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
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from evalgate.budget import NO_BUDGET, Budget
from evalgate.errors import InvalidInput, Problem
from evalgate.judge.settings import JudgeConfig
from evalgate.model import Criterion, Reliability
from evalgate.prices import Price
from evalgate.reading.configfile import ConfigDocument, read_config_document
from evalgate.reading.validation import Location, problems_of
from evalgate.scoring.ranges import out_of_range
from evalgate.simulation.settings import UserConfig

DEFAULT_NAMES = ("evalgate.yaml", "evalgate.yml", "evalgate.toml", "evalgate.json", "pyproject.toml")
"""Where a thresholds file is looked for, in order; pyproject.toml counts with a [tool.evalgate] table."""

NEWEST_ADK = (2, 13)

# Strict: `off` and "0.5" are no numbers; a threshold that is switched off by accident lets everything pass.
Unit = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Strict()]
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\*?$")]


_ONE_OR_MANY = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def _number_or_auto(value: object) -> object:
    if value == "auto" or (
        isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_RUNS
    ):
        return value
    shown = value if isinstance(value, int | float) and not isinstance(value, bool) else repr(value)
    raise ValueError(f"must be `auto` or a whole number from 1 to {_MOST_RUNS}, not {shown}")


_MOST_RUNS = 1000
Runs = Annotated[
    int | Literal["auto"],
    BeforeValidator(_number_or_auto),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": _MOST_RUNS}, {"const": "auto"}], "default": 1}
    ),
]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


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
    pass_hat_k: Annotated[int, Strict()] | None = Field(default=None, ge=1)
    """A case passes when k of its runs would all pass, by the unbiased estimate."""
    pass_at_k: Annotated[int, Strict()] | None = Field(default=None, ge=1)
    """A case passes when at least one of k runs would."""
    at_least: Unit | None = None
    """What that estimate must reach; 1 when absent."""
    threshold_rule: Literal["literal", "statistical"] = "literal"
    """`statistical`: a mean below the threshold fails only when that is more than noise."""
    max_regression: Unit | None = Field(
        default=None, validation_alias=AliasChoices("max_regression", "max_drop")
    )
    """Own allowance for a drop against the baseline; that of `gate` when absent."""

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


class AgentConfig(BaseModel):
    """How the agent is run. What else stands in the section is its kind's own, which checks it."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    kind: str = "python"
    python: str | None = None
    """Interpreter that runs a Python agent; the gate's own when absent."""
    setup: str | None = None
    """Shell command that installs what the agent needs, run once before it starts."""
    workers: Count = Field(default=1, ge=1, le=256)
    """Processes."""
    concurrency: Count = Field(default=16, ge=1, le=10_000)
    """Conversations at the same time, over all workers."""
    timeout: Annotated[float, Strict()] = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Seconds that one turn may take."""
    requests_per_minute: Count | None = Field(default=None, ge=1)
    """Turns that are begun in any minute, at most."""
    ramp_up: Annotated[float, Strict()] = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Seconds until `concurrency` conversations may go on at the same time; one at first."""
    retries: Count = Field(default=1, ge=0, le=10)
    """How often a run of a case is begun again when a service that the agent asks was busy or down."""
    env: tuple[EnvironmentName, ...] = ()
    """Environment variables that the agent gets beside the harmless ones; a trailing `*` is a prefix."""


class StatisticsConfig(_Section):
    """Fine tuning of the comparison with the baseline; docs/statistics.md says what each of them buys."""

    alpha: Annotated[float, Strict()] = Field(default=0.05, gt=0, lt=0.5)
    """Chance that luck alone closes the gate by a mean."""
    case_alpha: Annotated[float, Strict()] = Field(default=0.02, gt=0, lt=0.5)
    """Chance that any unchanged case of the whole suite is called broken."""
    case_drop: Unit = 0.25
    """Smaller drops of one case are never reported."""
    confirm_runs: Count = Field(default=10, ge=1, le=1000)
    """Most runs that one suspect gets."""
    fail_fast: Annotated[bool, Strict()] = True
    """Stop at a case that is confirmed broken."""
    max_missing: Unit = 0.10
    """Share of runs that may lack a score through no fault of the agent."""
    baseline_keep: Count = Field(default=20, ge=1, le=1000)
    """Newest runs of a baseline that count, and that it keeps."""
    pass_score: Unit = 1.0
    """From this score on a run is said to have passed."""
    fdr: Annotated[float, Strict()] = Field(default=0.10, gt=0, lt=1)
    """Share of wrong names in the list of worse cases, with a fixed number of runs."""


class GateConfig(_Section):
    """When the gate closes."""

    baseline: str | None = None
    """File to compare with. A file that does not exist yet is a notice, not an error."""
    quarantine: str | None = None
    """File of cases that run and are reported, and do not gate: `case`, `owner`, `reason`, `expires` each."""
    max_regression: Unit = Field(default=0.05, validation_alias=AliasChoices("max_regression", "max_drop"))
    """A drop of a metric's mean of this size or more closes the gate, unless it can be luck."""
    require: Literal["guard", "proof"] = "guard"
    """`guard` stops what is shown to be worse; `proof` lets through only what is shown not to be."""
    on_inconclusive: Literal["warn", "fail", "distinguish"] = "warn"
    """When the runs cannot tell: exit code 0, 1, or 4."""
    max_runs: Count = Field(default=5, ge=1, le=1000)
    """Most rounds of `runs: auto`."""
    deterministic: Annotated[bool, Strict()] = False
    """The agent answers the same each time: compare exactly."""
    statistics: StatisticsConfig = StatisticsConfig()
    max_failed_cases: Count | None = Field(default=None, ge=0)
    """Cases that may miss a threshold or crash before the gate closes. When absent: none but those that the
    runs of the baseline show to fail by luck, or always."""
    max_error_rate: Unit = 0.5
    """Share of cases that may end without a score; beyond it there is no verdict."""
    min_cases: Count = Field(default=1, ge=0)
    """Fewer evaluated cases are no verdict. 0 lets an empty run pass."""


def _with_colon(entry: str) -> str:
    """`package.module:function` for Google ADK's `package.module.function`."""
    if ":" in entry:
        return entry
    module, dot, function = entry.rpartition(".")
    if not dot or not module or not function:
        raise ValueError(f"must name a function, as `package.module.function`, not {entry!r}")
    return f"{module}:{function}"


Entry = Annotated[str, AfterValidator(_with_colon)]


class CustomMetricConfig(_Section):
    """A metric that is a Python function of the user's."""

    entry: Entry
    """`package.module.function`, `package.module:function` or `path/file.py:function`."""
    python: str | None = None
    """Interpreter that runs it; the gate's own when absent."""
    timeout: Annotated[float, Strict()] = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Seconds that the score of one run may take."""

    @model_validator(mode="before")
    @classmethod
    def _bare_entry(cls, value: object) -> object:
        return {"entry": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        return {"anyOf": [{"type": "string"}, handler(core_schema)]}


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_one_or_many), WithJsonSchema(_ONE_OR_MANY)]


class CaseRule(_Section):
    """What holds for some cases only."""

    ids: Names = ()
    """Cases by `id`, `eval set:id` or `file:id`; globs."""
    tags: Names = ()
    """Cases that have one of these tags."""
    tag: Names = ()
    """Tags that they get."""
    weight: Annotated[float, Strict()] | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Share in the mean of each metric; 1 when absent."""
    criteria: Mapping[str, Unit] = Field(default_factory=dict)
    """Metric → the threshold that it must reach here."""
    protected: Annotated[bool, Strict()] | None = None
    """The gate closes when one of them fails, whatever `max_failed_cases` allows."""

    @model_validator(mode="after")
    def _says_of_which(self) -> Self:
        if not self.ids and not self.tags:
            raise ValueError("must say which cases: `ids` or `tags`")
        return self


class ToolMockConfig(_Section):
    """A fixed result in the place of a tool. Of several that match a call, the first."""

    tool: str = Field(min_length=1)
    result: JsonValue
    """What the agent gets instead of calling the tool."""
    args: Mapping[str, JsonValue] | None = None
    """Arguments that the call must have; whatever they are when absent."""
    exact: Annotated[bool, Strict()] = False
    """The call may have no other arguments than `args`."""
    ids: Names = ()
    """Cases by `id`, `eval set:id` or `file:id`, globs; every case when absent."""


class Config(_Section):
    """A thresholds file, checked."""

    version: Literal[1] = 1
    eval_sets: Names = ()
    agent: AgentConfig | None = None
    runs: Runs = 1
    """Runs of every case; `auto`: as many as the comparison with the baseline needs."""
    criteria: Mapping[str, CriterionConfig] = Field(default_factory=dict)
    custom_metrics: Mapping[str, CustomMetricConfig] = Field(default_factory=dict)
    """Name of a metric, as `criteria` uses it → the function that computes it."""
    adk_version: str | None = None
    """Release of Google ADK whose scores are reproduced, as "2.3"; the newest when absent."""
    cases: tuple[CaseRule, ...] = ()
    """What holds for some cases only; where two disagree, the later one."""
    tool_mocks: tuple[ToolMockConfig, ...] = ()
    """Fixed results in the place of tools, so that no live backend is needed."""
    gate: GateConfig = GateConfig()
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


@dataclass(frozen=True, slots=True)
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


def parse_adk_version(text: str) -> tuple[int, int]:
    """(2, 3) for "2.3" or "2.3.0".

    Raises:
        ValueError: the text is not a release of Google ADK that evalgate knows.
    """
    try:
        major, minor = (int(part) for part in text.split(".")[:2])
    except ValueError:
        raise ValueError(f'must look like "2.3", not {text!r}') from None
    if not (2, 0) <= (major, minor) <= NEWEST_ADK:
        newest = ".".join(str(part) for part in NEWEST_ADK)
        raise ValueError(f'must be a release from "2.0" to "{newest}", not {text!r}')
    return major, minor


def find_thresholds_file(folder: Path) -> Path | None:
    """The thresholds file in `folder`, by its usual names."""
    for name in DEFAULT_NAMES:
        path = folder / name
        if path.is_file() and (name != "pyproject.toml" or _has_our_table(path)):
            return path
    return None


def _has_our_table(pyproject: Path) -> bool:
    return "[tool.evalgate" in pyproject.read_text("utf-8", errors="replace")


def load_thresholds(path: Path, shown_as: str) -> Thresholds:
    """Read a thresholds file of ours (YAML, TOML, JSON), or one of Google ADK or tRPC-Agent-Go as it is.

    Raises:
        InvalidInput: with every problem of the file.
    """
    document = read_config_document(path, shown_as)
    if path.suffix == ".json" and isinstance(document.value, list):
        from evalgate.reading.trpcmetrics import criterion_position, trpc_criteria

        place = partial(criterion_position, document)
        return Thresholds(Config(), path.parent, shown_as, "trpc", trpc_criteria(document), place)
    if _is_adk_test_config(path, document.value):
        return _adk_thresholds(document, path.parent)
    value = document.value
    criteria = value.get("criteria") if isinstance(value, Mapping) else None
    problems = list(out_of_range(criteria, shown_as, document.position))
    try:
        config = Config.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(sorted([*_problems(error, document), *problems])) from None
    if problems:
        raise InvalidInput(problems)
    return Thresholds(
        config, path.parent, shown_as, "evalgate", _criteria(config.criteria), document.position
    )


def _is_adk_test_config(path: Path, value: object) -> bool:
    # Ours says `version` or at least names something that only ours has; ADK's has criteria and little else.
    own = {
        "version",
        "eval_sets",
        "agent",
        "runs",
        "gate",
        "cases",
        "tool_mocks",
        "adk_version",
        "judge",
        "user",
    }
    return path.suffix == ".json" and isinstance(value, dict) and not own & value.keys()


class _AdkCode(BaseModel):
    name: Entry


class _AdkCustomMetric(BaseModel):
    # `metric_info` and `description` tell people about the metric; nothing is computed from them.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    code_config: _AdkCode = Field(validation_alias=AliasChoices("code_config", "codeConfig"))


class _AdkUser(BaseModel):
    """Google ADK's `user_simulator_config`."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    model: str = "gemini-2.5-flash"
    max_turns: int = Field(
        default=20, validation_alias=AliasChoices("max_allowed_invocations", "maxAllowedInvocations"), ge=-1
    )
    instructions: str | None = Field(
        default=None, validation_alias=AliasChoices("custom_instructions", "customInstructions")
    )

    def as_ours(self) -> UserConfig:
        """The section of ours that says the same."""
        return UserConfig(model=self.model, max_turns=self.max_turns, instructions=self.instructions)


class _AdkTestConfig(BaseModel):
    # ADK ignores unknown keys here and leaves thresholds unbounded.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    criteria: Mapping[str, AdkCriterionConfig]
    custom_metrics: Mapping[str, _AdkCustomMetric] | None = Field(
        default=None, validation_alias=AliasChoices("custom_metrics", "customMetrics")
    )
    user: _AdkUser | None = Field(
        default=None, validation_alias=AliasChoices("user_simulator_config", "userSimulatorConfig")
    )


def _adk_thresholds(document: ConfigDocument, folder: Path) -> Thresholds:
    try:
        found = _AdkTestConfig.model_validate(document.value)
    except ValidationError as error:
        raise InvalidInput(_problems(error, document)) from None
    custom = {
        name: CustomMetricConfig(entry=metric.code_config.name)
        for name, metric in (found.custom_metrics or {}).items()
    }
    config = Config(custom_metrics=custom, user=found.user.as_ours() if found.user else None)
    return Thresholds(config, folder, document.path, "adk", _criteria(found.criteria), document.position)


def _criteria(configs: Mapping[str, AdkCriterionConfig]) -> tuple[Criterion, ...]:
    return tuple(_criterion(name, config) for name, config in configs.items())


def _criterion(name: str, config: AdkCriterionConfig) -> Criterion:
    criterion = Criterion(name, config.threshold, dict(config.model_extra or {}))
    if not isinstance(config, CriterionConfig):
        return criterion
    return replace(
        criterion,
        reliability=config.reliability,
        rule=config.threshold_rule,
        max_regression=config.max_regression,
    )


_SECTIONS: Mapping[str, type[BaseModel]] = {
    "gate": GateConfig,
    "judge": JudgeConfig,
    "user": UserConfig,
    "budget": Budget,
}


def _known_keys(location: Location) -> Iterable[str]:
    if not location:
        return Config.model_fields
    section = _SECTIONS.get(str(location[0])) if len(location) == 1 else None
    return section.model_fields if section else ()


def _problems(error: ValidationError, document: ConfigDocument) -> list[Problem]:
    return problems_of(error, file=document.path, position=document.position, known_keys=_known_keys)

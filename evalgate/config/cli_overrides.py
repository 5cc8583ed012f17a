"""Options of the command line, which override the thresholds file."""

from collections.abc import Mapping
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from evalgate.config.schema.agent import LOCAL, AgentConfig, ExecutorConfig, SessionConfig
from evalgate.config.schema.criteria import drop_recordings
from evalgate.config.schema.judge import USER_SETTINGS, CacheMode, JudgeConfig, UserConfig
from evalgate.config.schema.thresholds import Config, expand_suite_names
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.documents.validation_errors import describe_error_details


@frozen
class SelectionOptions:
    """Options that select cases of the eval sets. A case runs if every given option selects it."""

    tags: tuple[str, ...] = ()
    """Values of `--tag`. A value with `!` in front excludes the cases with this tag. If there are values
    without `!`, a case must have at least one of these tags."""
    keyword: str | None = None
    """Value of `-k`: names joined by `and`, `or` and `not`. A name stands for the cases with the name in
    their id, eval set id or a tag."""
    failed: str | None = None
    """Path of a `results.json`, relative to the working folder; it selects the cases that did not pass."""
    sample: int | None = None
    """Number of cases to draw at random; None: all."""
    seed: int = 0
    """Seed of the draw."""
    affected: str | None = None
    """Revision that the change is compared with, to run only the suites that the change affects. "": the
    target branch of the pull request. None: all suites run."""

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options as on the command line, such as ("--tag", "slow"); () if none is given."""
        found = [word for tag in self.tags for word in ("--tag", tag)]
        found += ["-k", self.keyword] if self.keyword is not None else []
        found += ["--failed"] if self.failed is not None else []
        found += ["--sample", str(self.sample), "--seed", str(self.seed)] if self.sample is not None else []
        found += ["--affected"] if self.affected is not None else []
        found += ["--base", self.affected] if self.affected else []
        return tuple(found)


EVERY_CASE = SelectionOptions()


@frozen
class Overrides:
    """Options of the command line. An option that is not given is None, empty or False."""

    eval_sets: tuple[str, ...] = ()
    agent: str | None = None
    """Agent to gate, as `KIND:WHAT`, such as `python:agent.py:answer`."""
    runs: int | str | None = None
    workers: int | None = None
    concurrency: int | None = None
    timeout: float | None = None
    baseline: str | None = None
    max_regression: float | None = None
    adk_version: str | None = None
    setup: str | None = None
    python: str | None = None
    env: tuple[str, ...] = ()
    env_file: tuple[str, ...] = ()
    format: str | None = None
    mask: tuple[str, ...] = ()
    """Secrets to hide, in addition to those of the environment."""
    policy: Literal["base", "head"] | None = None
    """Branch from which the rules for a change are read: its base branch (`base`), or its own (`head`)."""
    judge: str | None = None
    """Model that judges, as `PROVIDER/MODEL`, such as `openai/gpt-4.1-mini`."""
    judge_cache: CacheMode | None = None
    simulated_user: str | None = None
    """Model that plays the user, as `PROVIDER/MODEL`, such as `openai/gpt-4.1-mini`."""
    executor: str | None = None
    ray_address: str | None = None
    initial_session: str | None = None
    """File with the initial session, for eval sets in Google ADK's oldest format (each a list of turns)."""
    app_name: str | None = None
    user_id: str | None = None
    live_tools: bool = False
    """True: recordings do not answer tool calls, so the tools run."""
    trace: bool = False
    """True: keep a trace of each run."""
    report_only: bool = False
    """True: the run ends with exit code 0 even if the gate is closed or inconclusive."""
    control: str | None = None
    """Git revision, such as `main`, for control runs: the agent of this revision runs the cases that seem to
    have become worse, too. This shows if the change is the cause."""
    selection_options: SelectionOptions = EVERY_CASE

    @property
    def agent_kind(self) -> str:
        """Return KIND of `--agent KIND:WHAT`; "" if the option is not given."""
        return (self.agent or "").partition(":")[0]

    @property
    def agent_name(self) -> str:
        """Return WHAT of `--agent KIND:WHAT`; "" if the option is not given."""
        return (self.agent or "").partition(":")[2]


def apply_overrides(config: Config, overrides: Overrides) -> Config:
    """Return `config` with the values that the options set.

    Raises:
        InvalidInputError: an option is invalid; the message names it.
    """
    top = {"runs": overrides.runs, "adk_version": overrides.adk_version, "format": overrides.format}
    # `--control` names a commit for control runs, so it switches them on.
    is_control_needed = overrides.control is not None and config.gate.control.mode == "off"
    gate = {
        "control": "suspects" if is_control_needed else None,
        "baseline": overrides.baseline,
        "max_regression": overrides.max_regression,
        "report_only": overrides.report_only or None,
    }
    sections = {
        "agent": _override_agent(config.agent, overrides),
        "session": _override_session(config.session, overrides),
        "gate": _update_config(config.gate, gate),
        "judge": _override_judge(config.judge, overrides),
        "executor": _override_executor(config.executor, overrides),
    }
    mocks = drop_recordings(config.tool_mocks) if overrides.live_tools else None
    eval_sets = expand_suite_names(overrides.eval_sets, config.suites)
    valid = {"eval_sets": eval_sets or None, "tool_mocks": mocks, **sections}
    changes = {name: value for name, value in valid.items() if value is not None}
    # Not validated again: building the validator of every section takes as long as all else here.
    config = _update_config(config, top).model_copy(update=changes)
    return apply_user_override(config, overrides)


def apply_user_override(config: Config, overrides: Overrides) -> Config:
    """Return `config` with the model that `--simulated-user` names, or unchanged if the option is not given.

    Raises:
        InvalidInputError: the name is not PROVIDER/MODEL, or the provider is unknown.
    """
    if overrides.simulated_user is None:
        return config
    own = config.user or UserConfig()
    settings = {name: getattr(own, name) for name in own.model_fields_set & (USER_SETTINGS - {"model"})}
    override = _override_model(
        "--simulated-user", overrides.simulated_user, own.resolve_model_config(config.judge)
    )
    model = {name: getattr(override, name) for name in override.model_fields_set}
    return config.model_copy(update={"user": UserConfig.model_validate({**model, **settings})})


def _override_executor(config: ExecutorConfig, overrides: Overrides) -> ExecutorConfig:
    """Return the `executor` section with the kind and address that the command line names.

    Raises:
        InvalidInputError: `--ray-address` is given without the executor `ray`, or a value is invalid.
    """
    kind = overrides.executor or config.kind
    if kind == "local" and overrides.ray_address is not None:
        raise InvalidInputError("--ray-address needs --executor ray")
    if kind == "local":
        return LOCAL
    return _update_config(config, {"kind": kind, "address": overrides.ray_address})


def _override_session(config: SessionConfig | None, overrides: Overrides) -> SessionConfig | None:
    given = {
        "file": overrides.initial_session,
        "app_name": overrides.app_name,
        "user_id": overrides.user_id,
    }
    if not any(given.values()):
        return config
    return _update_config(config or SessionConfig(), given)


def _override_judge(config: JudgeConfig | None, overrides: Overrides) -> JudgeConfig | None:
    if overrides.judge is not None:
        config = _override_model("--judge", overrides.judge, config)
    if config is None or overrides.judge_cache is None:
        return config
    return _update_config(config, {"cache": {**config.cache.model_dump(), "mode": overrides.judge_cache}})


def _override_model(option: str, name: str, config: JudgeConfig | None) -> JudgeConfig:
    """Return the judge settings `config` with the model `name`, which must be PROVIDER/MODEL.

    If `config` is None, all other settings have their defaults. If the provider changes, address and key are
    removed.

    Raises:
        InvalidInputError: the name is not PROVIDER/MODEL, or the provider is unknown. The message names
            `option`.
    """
    provider, slash, model = name.partition("/")
    if not slash or not provider or not model:
        raise InvalidInputError(f"{option} {name}: must be PROVIDER/MODEL, as openai/gpt-4.1-mini")
    settings: dict[str, object] = {"provider": provider, "model": model}
    if config is not None:
        # The address, and above all the key, of one provider must not be used for another provider.
        reset = {} if provider == config.provider else {"base_url": None, "api_key": None}
        settings = {**config.model_dump(), **reset, **settings}
    try:
        return JudgeConfig.model_validate(settings)
    except ValidationError as error:
        raise InvalidInputError(
            Problem("", 0, 0, f"{option} {name}: {found['msg'].removeprefix('Value error, ')}")
            for found in error.errors()
        ) from None


def _override_agent(config: AgentConfig | None, overrides: Overrides) -> AgentConfig | None:
    settings = {
        "workers": overrides.workers,
        "concurrency": overrides.concurrency,
        "timeout": overrides.timeout,
        "setup": overrides.setup,
        "python": overrides.python,
        "env": (*(config.env if config else ()), *overrides.env) or None,
        "env_file": (*(config.env_file if config else ()), *overrides.env_file) or None,
        "trace": overrides.trace or None,
    }
    if overrides.agent is not None:
        if not overrides.agent_name:
            raise InvalidInputError(
                f"--agent {overrides.agent}: must be KIND:WHAT, as python:agent.py:answer"
            )
        # WHAT (`agent_name`) does not belong to the section yet: only the class of the kind knows which
        # option it sets (`agents/factory.py: resolve_agent`).
        config = _reset_kind(overrides.agent_kind, config or AgentConfig.model_construct())
    return _update_config(config, settings) if config else None


def _reset_kind(kind: str, config: AgentConfig) -> AgentConfig:
    """Return `config` with `kind` as the kind of the agent.

    If `config` has another kind, only the settings that all kinds share are kept.
    """
    if config.kind == kind:
        return config
    return AgentConfig(**{name: getattr(config, name) for name in AgentConfig.model_fields} | {"kind": kind})


_Model = TypeVar("_Model", bound=BaseModel)


def _update_config(config: _Model, values: Mapping[str, object]) -> _Model:
    changes = {name: value for name, value in values.items() if value is not None}
    if not changes:
        return config
    try:
        # Defaults are left out: `model_fields_set` must still show which keys the file sets, such as `runs`.
        explicit = {name: value for name, value in config if name in config.model_fields_set}
        return type(config).model_validate({**explicit, **changes})
    except ValidationError as error:
        raise InvalidInputError(
            Problem("", 0, 0, f"--{str(found['loc'][0]).replace('_', '-')} {describe_error_details(found)}")
            for found in error.errors()
        ) from None

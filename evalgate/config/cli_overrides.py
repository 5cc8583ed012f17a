"""What the command line says over the thresholds file."""

from collections.abc import Mapping
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from evalgate.config.schema.agent import LOCAL, AgentConfig, ExecutorConfig
from evalgate.config.schema.judge import USER_SETTINGS, CacheMode, JudgeConfig, UserConfig
from evalgate.config.schema.thresholds import Config
from evalgate.core.errors import InvalidInput, Problem
from evalgate.core.frozen import frozen
from evalgate.documents.validation import what_is_wrong


@frozen
class Overrides:
    """What the command line says; None or empty where it says nothing."""

    eval_sets: tuple[str, ...] = ()
    agent: str | None = None
    """`KIND:WHAT`."""
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
    format: str | None = None
    mask: tuple[str, ...] = ()
    """Secrets to hide beside those of the environment."""
    policy: Literal["base", "head"] | None = None
    """Whose rules hold where a change is tested."""
    judge: str | None = None
    """`PROVIDER/MODEL`."""
    judge_cache: CacheMode | None = None
    simulated_user: str | None = None
    """`PROVIDER/MODEL`."""
    executor: str | None = None
    ray_address: str | None = None

    @property
    def kind_and_what(self) -> tuple[str, str]:
        """What `--agent` says; empty texts where it is silent."""
        kind, _, what = (self.agent or "").partition(":")
        return kind, what


def override(config: Config, said: Overrides) -> Config:
    """`config` where the command line is silent, the command line where it speaks.

    Raises:
        InvalidInput: an option is wrong; names the option.
    """
    top = {
        "eval_sets": said.eval_sets or None,
        "runs": said.runs,
        "adk_version": said.adk_version,
        "format": said.format,
    }
    gate = {"baseline": said.baseline, "max_regression": said.max_regression}
    sections = {
        "agent": _agent(config.agent, said),
        "gate": _updated(config.gate, gate),
        "judge": _judge(config.judge, said),
        "executor": _executor(config.executor, said),
    }
    return with_user(_updated(config, {**top, **sections}), said)


def with_user(config: Config, said: Overrides) -> Config:
    """`config` with the simulated user's model that the command line names.

    Raises:
        InvalidInput: it is none.
    """
    if said.simulated_user is None:
        return config
    own = config.user or UserConfig()
    settings = {name: getattr(own, name) for name in own.model_fields_set & (USER_SETTINGS - {"model"})}
    asked = _named("--simulated-user", said.simulated_user, own.model_config_for(config.judge))
    model = {name: getattr(asked, name) for name in asked.model_fields_set}
    return config.model_copy(update={"user": UserConfig.model_validate({**model, **settings})})


def _executor(config: ExecutorConfig, said: Overrides) -> ExecutorConfig:
    """The section, of another kind where the command line says so."""
    kind = said.executor or config.kind
    if kind == "local" and said.ray_address is not None:
        raise InvalidInput("--ray-address needs --executor ray")
    if kind == "local":
        return LOCAL
    return _updated(config, {"kind": kind, "address": said.ray_address})


def _judge(config: JudgeConfig | None, said: Overrides) -> JudgeConfig | None:
    if said.judge is not None:
        config = _named("--judge", said.judge, config)
    if config is None or said.judge_cache is None:
        return config
    return _updated(config, {"cache": {**config.cache.model_dump(), "mode": said.judge_cache}})


def _named(option: str, name: str, config: JudgeConfig | None) -> JudgeConfig:
    """The section with another model; an address and a key stay with their provider."""
    provider, slash, model = name.partition("/")
    if not slash or not provider or not model:
        raise InvalidInput(f"{option} {name}: must be PROVIDER/MODEL, as openai/gpt-4.1-mini")
    given: dict[str, object] = {"provider": provider, "model": model}
    if config is not None:
        away = {} if provider == config.provider else {"base_url": None, "api_key": None}
        given = {**config.model_dump(), **away, **given}
    try:
        return JudgeConfig.model_validate(given)
    except ValidationError as error:
        raise InvalidInput(
            Problem("", 0, 0, f"{option} {name}: {found['msg'].removeprefix('Value error, ')}")
            for found in error.errors()
        ) from None


def _agent(config: AgentConfig | None, said: Overrides) -> AgentConfig | None:
    settings = {
        "workers": said.workers,
        "concurrency": said.concurrency,
        "timeout": said.timeout,
        "setup": said.setup,
        "python": said.python,
        "env": (*(config.env if config else ()), *said.env) or None,
    }
    if said.agent is not None:
        kind, what = said.kind_and_what
        if not what:
            raise InvalidInput(f"--agent {said.agent}: must be KIND:WHAT, as python:agent.py:answer")
        config = _of_kind(kind, config or AgentConfig())
    return _updated(config, settings) if config else None


def _of_kind(kind: str, config: AgentConfig) -> AgentConfig:
    """`config` without the options of another kind."""
    if config.kind == kind:
        return config
    return AgentConfig(**{name: getattr(config, name) for name in AgentConfig.model_fields} | {"kind": kind})


_Model = TypeVar("_Model", bound=BaseModel)


def _updated(config: _Model, values: Mapping[str, object]) -> _Model:
    given = {name: value for name, value in values.items() if value is not None}
    if not given:
        return config
    try:
        # Only what was said: that a key was left to its default must stay visible.
        said = {name: value for name, value in config if name in config.model_fields_set}
        return type(config).model_validate({**said, **given})
    except ValidationError as error:
        raise InvalidInput(
            Problem("", 0, 0, f"--{str(found['loc'][0]).replace('_', '-')} {what_is_wrong(found)}")
            for found in error.errors()
        ) from None

"""What the command line says over the thresholds file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from evalgate.config import AgentConfig, Config
from evalgate.errors import InvalidInput, Problem


@dataclass(frozen=True, slots=True)
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
    return _updated(config, {**top, "agent": _agent(config.agent, said), "gate": _updated(config.gate, gate)})


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
        return type(config).model_validate({**dict(config), **given})
    except ValidationError as error:
        raise InvalidInput(
            Problem("", 0, 0, f"--{str(found['loc'][0]).replace('_', '-')} {found['msg']}")
            for found in error.errors()
        ) from None

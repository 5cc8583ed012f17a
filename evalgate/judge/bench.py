"""Which model judges: the one that the run is configured with, unless a metric names its own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evalgate.frozen import frozen
from evalgate.judge.judges import Judges
from evalgate.judge.modelnames import named_model
from evalgate.judge.providers import PROVIDERS
from evalgate.judge.settings import JudgeConfig
from evalgate.model import JsonObject

if TYPE_CHECKING:
    from evalgate.judge.asking import ModelClient

HOW_TO_CONFIGURE = (
    "name one in the thresholds file (`judge: {provider: openai, model: gpt-4.1-mini}`) or with "
    "--judge PROVIDER/MODEL"
)


class NoJudge(Exception):
    """A model should judge, and none is configured."""

    def __init__(self) -> None:
        super().__init__(f"no judging model is configured: {HOW_TO_CONFIGURE}")


@frozen
class Judge:
    """A model that judges, and what it is known by."""

    client: "ModelClient"
    config: JudgeConfig
    identity: JsonObject
    """Provider, model and parameters: scores compare only when they are equal. Holds no key."""

    @property
    def name(self) -> str:
        """`openai/gpt-4.1-mini`."""
        return f"{self.identity['provider']}/{self.identity['model']}"


@frozen
class Bench:
    """Where metrics find their judges."""

    judges: Judges
    config: JudgeConfig | None = None
    """What the run is configured with; None: nothing."""
    is_decreed: bool = False
    """The command line names the model, which no file overrules then."""

    def judge(self, model: str = "", **changes: object) -> Judge:
        """The judge of a metric, which is asked nothing yet.

        `model` is what the metric's own options call it, in Google ADK's or LiteLLM's words; "": as the run
        is configured. `changes` are other values of the configuration.

        Raises:
            NoJudge: neither the run nor the metric says which.
            pydantic.ValidationError: a value is wrong.
        """
        config = self._config("" if self.is_decreed else model).altered(**changes)
        provider, name = self.judges.named(config)
        identity = {"provider": provider, "model": name, "parameters": config.parameters()}
        return Judge(self.judges.reserve(config), config, identity)

    def _config(self, model: str) -> JudgeConfig:
        config = self.config
        if not model:
            if config is None:
                raise NoJudge
            return config
        own = named_model(model)
        if config is None:
            if own is None:
                raise NoJudge
            return JudgeConfig(provider=own[0], model=own[1])
        return config.altered(**_other_model(config, model, own))


def _other_model(config: JudgeConfig, model: str, own: tuple[str, str] | None) -> Mapping[str, object]:
    """Another model: at the same endpoint, unless it is a model of a provider with an endpoint of its own."""
    serves_any = config.base_url is not None or PROVIDERS.get(config.provider) is None
    if own is None or serves_any or config.provider in _SERVE_ANY:
        return {"model": model}
    if own[0] == config.provider:
        return {"model": own[1]}
    return {"provider": own[0], "model": own[1], "api_key": None}


_SERVE_ANY = frozenset({"azure", "openrouter", "ollama", "vllm", "custom"})
"""Providers of anybody's models."""

"""Benches whose judge is a script."""

from pathlib import Path

from evalgate.config.schema.judge import JudgeConfig
from evalgate.llm.client import ModelClient
from evalgate.llm.resolver import JudgeResolver, LlmContext, ModelPool, Purpose


class ScriptedJudges(ModelPool):
    """Every configuration gives the same model. Keeps the configurations that were asked for."""

    def __init__(self, model: ModelClient) -> None:
        super().__init__(LlmContext(Path(), {}))
        self.configs: list[JudgeConfig] = []
        self._only = model

    def reserve_model(self, config: JudgeConfig, purpose: Purpose = "judge") -> ModelClient:
        """The one model."""
        self.configs.append(config)
        return self._only


def bench_of(model: ModelClient, config: JudgeConfig | None = None) -> JudgeResolver:
    """Where this model judges, whichever is asked for."""
    return JudgeResolver(ScriptedJudges(model), config)

"""Judge resolvers that use a scripted model."""

from pathlib import Path

from evalgate.config.schema.judge import JudgeConfig
from evalgate.llm.client import ModelClient
from evalgate.llm.judge_resolver import JudgeResolver, LlmContext, ModelPool, Purpose


class ScriptedJudges(ModelPool):
    """Pool that returns the same model for every configuration, and records the configurations."""

    def __init__(self, model: ModelClient) -> None:
        super().__init__(LlmContext(Path(), {}))
        self.configs: list[JudgeConfig] = []
        self._only = model

    def reserve_model(self, config: JudgeConfig, purpose: Purpose = "judge") -> ModelClient:
        """Return the model, and record the configuration."""
        self.configs.append(config)
        return self._only


def build_scripted_resolver(model: ModelClient, config: JudgeConfig | None = None) -> JudgeResolver:
    """Return a resolver that uses `model` as every judge."""
    return JudgeResolver(ScriptedJudges(model), config)

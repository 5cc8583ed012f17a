"""Judge resolvers with a scripted model."""

from pathlib import Path

from evalgate.config.schema.judge import JudgeConfig
from evalgate.llm.client import ModelClient
from evalgate.llm.judge_resolver import JudgeResolver, LlmContext, ModelPool, Purpose


class ScriptedJudges(ModelPool):
    """Returns the same model for every configuration, and keeps the configurations."""

    def __init__(self, model: ModelClient) -> None:
        super().__init__(LlmContext(Path(), {}))
        self.configs: list[JudgeConfig] = []
        self._only = model

    def reserve_model(self, config: JudgeConfig, purpose: Purpose = "judge") -> ModelClient:
        """Return the one model."""
        self.configs.append(config)
        return self._only


def build_scripted_resolver(model: ModelClient, config: JudgeConfig | None = None) -> JudgeResolver:
    """Return a resolver whose every judge is `model`."""
    return JudgeResolver(ScriptedJudges(model), config)

"""Google ADK's `test_config.json`."""

from collections.abc import Mapping

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
)

from evalgate.config.criteria import AdkCriterionConfig
from evalgate.config.values import Entry
from evalgate.simulation.settings import UserConfig


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


class AdkTestConfig(BaseModel):
    """The whole file. As in ADK, unknown keys are ignored and thresholds unbounded."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    criteria: Mapping[str, AdkCriterionConfig]
    custom_metrics: Mapping[str, _AdkCustomMetric] | None = Field(
        default=None, validation_alias=AliasChoices("custom_metrics", "customMetrics")
    )
    user: _AdkUser | None = Field(
        default=None, validation_alias=AliasChoices("user_simulator_config", "userSimulatorConfig")
    )

"""The `user` section of a thresholds file: which model plays the user, and how."""

from typing import Annotated, Literal

from pydantic import Field, Strict

from evalgate.judge.modelnames import named_model
from evalgate.judge.settings import JudgeConfig

USER_SETTINGS = frozenset(
    {"model", "max_turns", "personas", "prompt", "instructions", "include_function_calls", "stories"}
)
"""Keys that say how the user is played; the others say how its model is asked."""


class UserConfig(JudgeConfig):
    """Which model plays the user: a model of its own, or without a `model` the run's judge.

    A model without a `provider` is the one's that its name tells, else it is asked where the judge is.
    """

    model: str = ""
    """"": the model of `judge`, with what this section says beside it."""
    max_turns: Annotated[int, Strict()] = Field(default=20, ge=-1)
    """Turns of the user at most, the first included; a case may say otherwise. -1: as many as it takes."""
    personas: str | None = None
    """A file of personas, relative to the thresholds file."""
    prompt: str | None = None
    """A template that the model is asked with instead of ours, relative to the thresholds file."""
    instructions: str | None = None
    """The same, written here. A template of Google ADK's does."""
    include_function_calls: bool = False
    """Whether the model is told which tools the agent called, and what they answered."""
    stories: Literal["played", "first_sentence"] = "played"
    """Whether a case with a story and a starting sentence goes on by the story, or ends there."""

    def model_config_for(self, judge: JudgeConfig | None) -> JudgeConfig | None:
        """How the model is asked; None when nobody says which."""
        said = {name: getattr(self, name) for name in self.model_fields_set - USER_SETTINGS}
        if not self.model:
            return judge.altered(**said) if judge is not None else None
        if "provider" in said:
            return JudgeConfig(model=self.model, **said)
        if own := named_model(self.model):
            return JudgeConfig(**{**said, "provider": own[0], "model": own[1]})
        return (judge or JudgeConfig(model=self.model)).altered(**{**said, "model": self.model})

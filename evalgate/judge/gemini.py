"""How Gemini is told to generate, in the words of the wire format that every provider reads."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

_Finite = Annotated[float, Field(allow_inf_nan=False)]


class GenerationConfig(BaseModel):
    """Of Google's `GenerateContentConfig` what other models have too; the rest of it is not sent."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, defer_build=True
    )

    temperature: Annotated[_Finite, Field(ge=0, le=2)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    top_p: _Finite | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] | None = None
    presence_penalty: _Finite | None = None
    frequency_penalty: _Finite | None = None

    def changes(self) -> dict[str, object]:
        """What of it alters a judge's configuration."""
        further = {
            "top_p": self.top_p,
            "seed": self.seed,
            "stop": None if self.stop_sequences is None else list(self.stop_sequences),
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
        }
        generation = {name: value for name, value in further.items() if value is not None}
        own = {"temperature": self.temperature, "max_tokens": self.max_output_tokens}
        changed: dict[str, object] = {name: value for name, value in own.items() if value is not None}
        return {**changed, "generation": generation} if generation else changed

"""How Gemini is told to generate, in the words of the wire format that every provider reads."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

_Finite = Annotated[float, Field(allow_inf_nan=False)]

_OURS = {"max_output_tokens": "max_tokens", "stop_sequences": "stop"}
_OF_EVERY_JUDGE = ("temperature", "max_tokens")
"""What has a key of its own in a judge's configuration; the rest stands under `generation`."""


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
        given = self.model_dump(mode="json", exclude_none=True)
        said = {_OURS.get(name, name): value for name, value in given.items()}
        changed = {name: said.pop(name) for name in _OF_EVERY_JUDGE if name in said}
        return {**changed, "generation": said} if said else changed

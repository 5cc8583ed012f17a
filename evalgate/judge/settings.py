"""The `judge` section of a thresholds file: which model judges, and how it is asked."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator

from evalgate.judge.providers import PROVIDERS
from evalgate.reading.validation import did_you_mean, listed

CacheMode: TypeAlias = Literal["off", "read", "read-write"]

Count = Annotated[int, Strict()]
Number = Annotated[float, Strict()]

_PLACEHOLDER = re.compile(r"\$(?:\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*)")
_RESERVED = frozenset({"model", "messages", "stream", "stream_options", "n", "response_format"})


def check_names_variable(api_key: str, example: str) -> None:
    """Look whether the text only names a variable.

    Raises:
        ValueError: it may be a key.
    """
    if not _PLACEHOLDER.fullmatch(api_key):
        raise ValueError(
            f"must name a variable, as `${{{example}}}`: a key that stands in a file is in everybody's "
            "hands. If it was committed, revoke it"
        )


class CacheConfig(BaseModel):
    """Where answers are kept, so that the same question is not paid for twice."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    mode: CacheMode = "read-write"
    """`read-write`; `read`: store no new answer; `off`: ask every question again."""
    path: str = ".evalgate/judge-cache.sqlite"
    """Relative to the thresholds file."""
    max_age_days: Number = Field(default=90.0, gt=0, allow_inf_nan=False)
    """Answers that nobody asked for in so long are removed."""
    max_megabytes: Number = Field(default=200.0, gt=0, allow_inf_nan=False)
    """Beyond, those that were not asked for the longest are removed."""


class JudgeConfig(BaseModel):
    """Which model is asked, and how."""

    # What a user wrote is never repeated in an error: it may be the key.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    provider: str = "openai"
    """A name of the table in docs/judges.md, or `custom` with a `base_url`."""
    model: str
    """Name of the model, as the provider spells it."""
    base_url: str | None = None
    """Of an OpenAI-compatible endpoint; the provider's own when absent. May hold `${NAME}`."""
    api_key: str | None = None
    """`${NAME}` of the variable that holds the key; the provider's usual variable when absent."""
    temperature: Number | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    """Not sent when absent: some models take no other than their own."""
    max_tokens: Count | None = Field(default=None, ge=1)
    """The longest answer."""
    generation: Mapping[str, object] = Field(default_factory=dict)
    """Further parameters of the wire format, as `{top_p: 0.9, seed: 7, reasoning_effort: low}`."""
    timeout: Number = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Seconds that one answer may take."""
    retries: Count = Field(default=4, ge=0, le=100)
    """How often a question is asked again when the provider is down, slow or busy."""
    give_up_after: Number = Field(default=300.0, gt=0, allow_inf_nan=False)
    """Seconds of pauses, in all, after which a question is not asked again."""
    concurrency: Count = Field(default=8, ge=1, le=1000)
    """Questions at the same time, over all models of the endpoint."""
    requests_per_minute: Count | None = Field(default=None, ge=1)
    """Questions that are begun in any minute, at most, over all models of the endpoint."""
    tokens_per_minute: Count | None = Field(default=None, ge=1)
    """Input and output, over all models of the endpoint."""
    cache: CacheConfig = CacheConfig()
    """Where answers are kept, and for how long."""
    anchors: str | None = None
    """File of cases that people judged, relative to the thresholds file: they are judged first."""
    floor: Number = Field(default=0.8, ge=0, le=1, allow_inf_nan=False)
    """The share of anchors that must be met; below it there is no verdict."""

    @field_validator("provider")
    @classmethod
    def _is_known(cls, value: str) -> str:
        known = sorted(PROVIDERS)
        if value not in known and "$" not in value:
            hint = did_you_mean(value, known) or f" Known: {listed(known)}."
            raise ValueError(f"is no provider that evalgate knows.{hint}")
        return value

    @field_validator("api_key")
    @classmethod
    def _is_a_placeholder(cls, value: str | None) -> str | None:
        if value is not None:
            check_names_variable(value, "OPENAI_API_KEY")
        return value

    @field_validator("base_url")
    @classmethod
    def _holds_no_password(cls, value: str | None) -> str | None:
        if value is not None and "@" in value:
            raise ValueError("must not hold a user name or password: name the key's variable as `api_key`")
        return value

    @field_validator("generation")
    @classmethod
    def _leaves_ours_alone(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        if ours := sorted(_RESERVED & set(value)):
            raise ValueError(f"must not set {listed(ours)}: evalgate does")
        return value

    def altered(self, **changes: object) -> "JudgeConfig":
        """This configuration with other values, checked: what a single metric says goes before the section.

        Raises:
            pydantic.ValidationError: a value is wrong.
        """
        return JudgeConfig.model_validate({**self.model_dump(), **changes})

    def parameters(self) -> dict[str, object]:
        """The parameters of the wire format that every request starts from."""
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {**self.generation, **{name: value for name, value in own.items() if value is not None}}

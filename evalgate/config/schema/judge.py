"""The sections `judge` and `user` of the thresholds file."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, field_validator

from evalgate.config import option_defaults
from evalgate.config.schema.field_types import ReadBareOff
from evalgate.core.formatting import join_quoted
from evalgate.core.lazy_pattern import compile_lazily

CacheMode: TypeAlias = Literal["off", "read", "read-write"]

Count = Annotated[int, Strict()]
Number = Annotated[float, Strict()]

_PLACEHOLDER = compile_lazily(r"\$(?:\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*)")
_RESERVED = frozenset({"model", "messages", "stream", "stream_options", "n", "response_format"})


def require_variable_reference(api_key: str, example: str) -> None:
    """Raise ValueError if `api_key` is not a reference such as `${NAME}`. Files must not contain keys.

    `example` is the name of a variable for the message.
    """
    if not _PLACEHOLDER.fullmatch(api_key):
        raise ValueError(
            f"must name a variable, as `${{{example}}}`: a key that stands in a file is in everybody's "
            "hands. If it was committed, revoke it"
        )


class CacheConfig(BaseModel):
    """Stored answers of the model, so that no question is paid for twice."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    mode: Annotated[CacheMode, ReadBareOff] = option_defaults.JUDGE_CACHE
    """`read-write`: use and store answers; `read`: store no new answer; `off`: ask every question again."""
    path: str = ".evalgate/judge-cache.sqlite"
    """File of the cache, relative to the thresholds file."""
    max_age_days: Number = Field(default=90.0, gt=0, allow_inf_nan=False)
    """Days after which an unused answer is removed."""
    max_megabytes: Number = Field(default=200.0, gt=0, allow_inf_nan=False)
    """Largest size in megabytes (1,000,000 bytes). Above it, the answers unused for longest are removed."""


class JudgeFloor(BaseModel):
    """Least agreement of the judge with people. If a judge is below it, no case is run."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    anchors: Number = Field(default=0.8, ge=0, le=1, allow_inf_nan=False)
    """Lowest share of the answers in the file `judge.anchors` on which the judge and people must agree."""
    agreement: Number | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    """Lowest share of all answers on which the judge and people agree, estimated from people's labels."""
    kappa: Number | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    """Lowest Cohen's kappa of the judge and people."""
    tpr: Number | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    """Lowest true positive rate: the share of the answers passed by people that the judge must pass, too."""
    tnr: Number | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    """Lowest true negative rate: the share of the answers failed by people that the judge must fail, too."""

    @property
    def label_floors(self) -> Mapping[str, float]:
        """Return the minimums that are set, by name, except `anchors`.

        They limit the agreement with people's labels, which `evalgate judge` collects.
        """
        found = self.model_dump(exclude={"anchors"})
        return {name: value for name, value in found.items() if value is not None}


_Share = Annotated[float, Field(ge=0, le=1)]


def _build_floor(value: object) -> object:
    """Convert a number to a section with the number as `anchors`. Return any other value unchanged."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"anchors": value} if is_number else value


class JudgeConfig(BaseModel):
    """Model that judges, and the settings of its requests."""

    # Errors must not repeat the input, because it may be the key.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    provider: str = "openai"
    """A name of the table in docs/judges.md, or `custom` with a `base_url`."""
    model: str
    """Name of the model, as the provider spells it."""
    base_url: str | None = None
    """Address of an OpenAI-compatible endpoint; the provider's own when absent. May hold `${NAME}`."""
    api_key: str | None = None
    """`${NAME}` of the variable that holds the key; the provider's usual variable when absent."""
    temperature: Number | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    """Temperature of the requests. When absent, none is sent, because some models accept only their own."""
    max_tokens: Count | None = Field(default=None, ge=1)
    """Longest answer, in tokens; not sent when absent."""
    generation: Mapping[str, object] = Field(default_factory=dict)
    """Further parameters of the wire format, as `{top_p: 0.9, seed: 7, reasoning_effort: low}`."""
    timeout: Number = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Seconds that one answer may take."""
    retries: Count = Field(default=4, ge=0, le=100)
    """Number of further attempts at a question if the provider is down, slow or busy."""
    give_up_after: Number = Field(default=300.0, gt=0, allow_inf_nan=False)
    """Largest sum of the pauses between the attempts at one question, in seconds."""
    concurrency: Count = Field(default=8, ge=1, le=1000)
    """Largest number of questions asked at the same time, over all models of the endpoint."""
    requests_per_minute: Count | None = Field(default=None, ge=1)
    """Largest number of questions that may begin within one minute, over all models of the endpoint."""
    tokens_per_minute: Count | None = Field(default=None, ge=1)
    """Largest number of tokens in one minute, input and output together, over all models of the endpoint."""
    cache: CacheConfig = CacheConfig.model_construct()
    """Storage of the model's answers, with its limits."""
    anchors: str | None = Field(default=None, min_length=1)
    """File of answers that people judged, relative to the thresholds file. The judge is checked with them
    before the run."""
    floor: Annotated[
        JudgeFloor, BeforeValidator(_build_floor, json_schema_input_type=_Share | JudgeFloor)
    ] = JudgeFloor.model_construct()
    """Least agreement with people, below which there is no verdict: a section, or a number that stands for
    `anchors` in it."""

    @field_validator("provider")
    @classmethod
    def _require_known_provider(cls, value: str) -> str:
        from evalgate.config.schema.providers import PROVIDERS

        known = sorted(PROVIDERS)
        if value not in known and "$" not in value:
            from evalgate.core.did_you_mean import did_you_mean

            hint = did_you_mean(value, known) or f" Known: {join_quoted(known)}."
            raise ValueError(f"is no provider that evalgate knows.{hint}")
        return value

    @field_validator("api_key")
    @classmethod
    def _require_placeholder(cls, value: str | None) -> str | None:
        if value is not None:
            require_variable_reference(value, "OPENAI_API_KEY")
        return value

    @field_validator("base_url")
    @classmethod
    def _forbid_credentials(cls, value: str | None) -> str | None:
        if value is not None and "@" in value:
            raise ValueError("must not hold a user name or password: name the key's variable as `api_key`")
        return value

    @field_validator("generation")
    @classmethod
    def _forbid_reserved_keys(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        if ours := sorted(_RESERVED & set(value)):
            raise ValueError(f"must not set {join_quoted(ours)}: evalgate does")
        return value

    def apply_changes(self, **changes: object) -> "JudgeConfig":
        """Return a copy of this configuration with changed values, such as the settings of a single metric.

        Raises:
            pydantic.ValidationError: a value is invalid.
        """
        return JudgeConfig.model_validate({**self.model_dump(), **changes})

    def build_parameters(self) -> dict[str, object]:
        """Return the parameters of `generation`, and also `temperature` and `max_tokens` if they are set."""
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {**self.generation, **{name: value for name, value in own.items() if value is not None}}


USER_SETTINGS = frozenset(
    {"model", "max_turns", "personas", "prompt", "instructions", "include_function_calls", "stories"}
)
"""Keys of the section `user` about how the user is played; its other keys are about requests to the model."""


class UserConfig(JudgeConfig):
    """Model that plays the user, with its settings. Without `model`, the model of `judge` plays.

    Without `provider`, the provider is the one that the model's name identifies. If the name identifies none,
    it is the judge's provider.
    """

    model: str = ""
    """Name of the model; "": the model of `judge`, with the settings that this section changes."""
    max_turns: Annotated[int, Strict()] = Field(default=20, ge=-1)
    """Largest number of the user's turns, including the first; a case may set its own limit. -1: no limit."""
    personas: str | None = Field(default=None, min_length=1)
    """File of personas, relative to the thresholds file."""
    prompt: str | None = Field(default=None, min_length=1)
    """File of a template that replaces evalgate's own prompt, relative to the thresholds file."""
    instructions: str | None = None
    """The template itself, if there is no `prompt`. A template of Google ADK works unchanged."""
    include_function_calls: bool = False
    """true: the model is told which tools the agent called, and what they returned."""
    stories: Literal["played", "first_sentence"] = "played"
    """Rule for cases with a story and a starting sentence. `played`: the model continues by the story;
    `first_sentence`: the conversation ends after that sentence."""

    def resolve_model_config(self, judge: JudgeConfig | None) -> JudgeConfig | None:
        """Return the settings of the model that plays the user, or None if no model is named.

        The model comes from `user`, or from `judge` if `user` names none.
        """
        explicit = {name: getattr(self, name) for name in self.model_fields_set - USER_SETTINGS}
        if not self.model:
            return judge.apply_changes(**explicit) if judge is not None else None
        if "provider" in explicit:
            return JudgeConfig(model=self.model, **explicit)
        from evalgate.config.schema.providers import parse_model_name

        if own := parse_model_name(self.model):
            return JudgeConfig(**{**explicit, "provider": own[0], "model": own[1]})
        return (judge or JudgeConfig(model=self.model)).apply_changes(**{**explicit, "model": self.model})

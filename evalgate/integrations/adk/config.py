"""Google ADK's `test_config.json`, and generation settings with Gemini's key names."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from evalgate.config.schema.criteria import AdkCriterionConfig
from evalgate.config.schema.field_types import Entry
from evalgate.config.schema.judge import UserConfig
from evalgate.core.formatting import join_quoted
from evalgate.datasets.ignored_keys import IgnoredKey, KeyChecker
from evalgate.documents.config_file import ConfigDocument
from evalgate.documents.strict_json import Location

_Finite = Annotated[float, Field(allow_inf_nan=False)]

_OURS = {"max_output_tokens": "max_tokens", "stop_sequences": "stop"}
_JUDGE_CONFIG_KEYS = ("temperature", "max_tokens")
"""Settings that have a key of their own in a judge's configuration. The others are under `generation`."""


class GenerationConfig(BaseModel):
    """The keys of Google's `GenerateContentConfig` that other providers also have; other keys are ignored."""

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

    def to_judge_changes(self) -> dict[str, object]:
        """Return the settings that are not None, as fields of `JudgeConfig` that override the run's judge."""
        given = self.model_dump(mode="json", exclude_none=True)
        generation = {_OURS.get(name, name): value for name, value in given.items()}
        changes = {name: generation.pop(name) for name in _JUDGE_CONFIG_KEYS if name in generation}
        return {**changes, "generation": generation} if generation else changes


class _AdkCode(BaseModel):
    model_config = ConfigDict(defer_build=True)

    name: Entry


class _AdkCustomMetric(BaseModel):
    # `metric_info` and `description` are for readers only; nothing is computed from them.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    code_config: _AdkCode = Field(validation_alias=AliasChoices("code_config", "codeConfig"))


_PLACEHOLDERS = ("stop_signal", "conversation_plan", "conversation_history")
"""The template variables that Google ADK requires in custom instructions."""


class _AdkUser(BaseModel):
    """The simulated user's settings, Google ADK's `user_simulator_config`."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    type: Literal["llm_backed"] | None = None
    # Google ADK's own defaults, so that a file without them means the same here.
    model: str = "gemini-2.5-flash"
    max_turns: int = Field(
        default=20, validation_alias=AliasChoices("max_allowed_invocations", "maxAllowedInvocations"), ge=-1
    )
    instructions: str | None = Field(
        default=None, validation_alias=AliasChoices("custom_instructions", "customInstructions")
    )
    include_function_calls: bool = Field(
        default=False, validation_alias=AliasChoices("include_function_calls", "includeFunctionCalls")
    )
    generation: GenerationConfig = Field(
        default=GenerationConfig.model_construct(),
        validation_alias=AliasChoices("model_configuration", "modelConfiguration"),
    )

    @field_validator("instructions")
    @classmethod
    def _require_placeholders(cls, value: str | None) -> str | None:
        from evalgate.llm.prompt_templates import find_template_variables

        found = _PLACEHOLDERS if value is None else find_template_variables(value)
        missing = [f"{{{{ {name} }}}}" for name in _PLACEHOLDERS if name not in found]
        if missing:
            raise ValueError(f"must hold {join_quoted(missing)}")
        return value

    def to_user_config(self) -> UserConfig:
        """Return the equivalent `user` section of a thresholds file."""
        changes: dict[str, Any] = self.generation.to_judge_changes()
        return UserConfig(
            model=self.model,
            max_turns=self.max_turns,
            instructions=self.instructions,
            include_function_calls=self.include_function_calls,
            **changes,
        )


class AdkTestConfig(BaseModel):
    """A `test_config.json`. As in Google ADK, unknown keys are ignored and thresholds have no bounds."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    criteria: Mapping[str, AdkCriterionConfig]
    custom_metrics: Mapping[str, _AdkCustomMetric] | None = Field(
        default=None, validation_alias=AliasChoices("custom_metrics", "customMetrics")
    )
    user: _AdkUser | None = Field(
        default=None, validation_alias=AliasChoices("user_simulator_config", "userSimulatorConfig")
    )


_ANY = "*"
_KNOWN_KEYS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    (): ("criteria", "custom_metrics", "user_simulator_config"),
    # A docstring of Google ADK shows `metric` for `metric_info`; no release reads it.
    ("custom_metrics", _ANY): ("code_config", "metric_info", "description"),
    ("custom_metrics", _ANY, "code_config"): ("name", "args"),
    ("user_simulator_config",): (
        "type",
        "model",
        "max_allowed_invocations",
        "custom_instructions",
        "include_function_calls",
        "model_configuration",
    ),
}
"""The known keys of each object in the file, by the object's path, in which `*` stands for any key. The keys
of a criterion depend on its metric and are checked elsewhere."""


def describe_ignored_adk_keys(document: ConfigDocument) -> tuple[str, ...]:
    """Return sentences about ignored keys of a `test_config.json`, such as misspelt keys.

    Keys within criteria are left out: they depend on the metric and are checked elsewhere.
    """
    # Google ADK ignores them silently: with `criterias` for `criteria` nothing is evaluated.
    check = KeyChecker(document.path, document.find_position, [])
    check.add_keys(
        key for path, known in _KNOWN_KEYS.items() for key in _iter_unknown_keys(document.value, path, known)
    )
    return check.build_notices()


def _iter_unknown_keys(
    value: object, path: tuple[str, ...], known: tuple[str, ...], at: Location = ()
) -> Iterator[IgnoredKey]:
    if not isinstance(value, Mapping):
        return
    if path:
        for key, inner in value.items():
            if path[0] in {_ANY, key} or to_camel(path[0]) == key:
                yield from _iter_unknown_keys(inner, path[1:], known, (*at, key))
        return
    for key in value:
        if key not in known and key not in map(to_camel, known):
            yield IgnoredKey((*at, key), is_refused=False, known=known)

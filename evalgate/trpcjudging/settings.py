"""The options of a judged metric: `criterion.llmJudge` of `.metrics.json`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field, field_validator, model_validator

from evalgate.judge.bench import Bench, Judge, NoJudge
from evalgate.judge.providers import CUSTOM, PROVIDERS
from evalgate.judge.settings import JudgeConfig, check_names_variable
from evalgate.scoring.criteria import Rule
from evalgate.trpcjudging.rubrics import RubricOption, twice, visible
from evalgate.trpcjudging.templates import JudgeTemplate

_OF_NO_GENERATION: Mapping[str, object] = {"max_tokens": 2000, "temperature": 0.8}
"""What Go sends where a judge has no `generationConfig`; one that is there replaces all of it."""


class JudgeModel(Rule):
    """Which model judges, and how. Without a name the run's own judge does."""

    provider_name: str = Field(default="", alias="providerName")
    model_name: str = Field(default="", alias="modelName")
    variant: str = ""
    """Go's word for a dialect of OpenAI's wire format; not needed here."""
    base_url: str = Field(default="", alias="baseURL")
    api_key: str = Field(default="", alias="apiKey", repr=False)
    extra_fields: dict[str, Any] = Field(default_factory=dict, alias="extraFields")
    num_samples: int = Field(default=1, alias="numSamples", ge=1, le=1000)
    generation_config: dict[str, Any] | None = Field(default=None, alias="generationConfig")

    @field_validator("api_key")
    @classmethod
    def _is_a_placeholder(cls, value: str) -> str:
        if value:
            check_names_variable(value, "JUDGE_MODEL_API_KEY")
        return value

    @model_validator(mode="after")
    def _can_be_reached(self) -> "JudgeModel":
        name = self.provider_name
        if name and name not in PROVIDERS and "$" not in name and not self.base_url:
            raise ValueError(f"names the provider {name!r}, whose endpoint must be given as `baseURL`")
        return self

    def parameters(self) -> dict[str, object]:
        """How the model is asked, in the words of `JudgeConfig`. Nothing is streamed."""
        own = _OF_NO_GENERATION if self.generation_config is None else self.generation_config
        generation = {**self.extra_fields, **{key: value for key, value in own.items() if key != "stream"}}
        return {
            "temperature": generation.pop("temperature", None),
            "max_tokens": generation.pop("max_tokens", None),
            "generation": generation,
        }

    def config(self, base: JudgeConfig | None) -> JudgeConfig:
        """This model, asked as patiently as `base`.

        Raises:
            pydantic.ValidationError: a value is wrong.
        """
        name = self.provider_name or "openai"
        provider = name if name in PROVIDERS or "$" in name else CUSTOM
        known = base or JudgeConfig(model=self.model_name)
        return known.altered(
            provider=provider,
            model=self.model_name,
            base_url=self.base_url or None,
            api_key=self.api_key or None,
            **self.parameters(),
        )


class LlmJudge(Rule):
    """How a model judges."""

    rubrics: tuple[RubricOption, ...] = Field(default=(), strict=False)
    judge_model: JudgeModel | None = Field(default=None, alias="judgeModel")
    template: JudgeTemplate | None = None
    sample_parallelism_enabled: bool = Field(default=False, alias="sampleParallelismEnabled")
    sample_parallelism: int = Field(default=0, alias="sampleParallelism", ge=0)
    """Samples are always asked for at the same time, as many as the judge's `concurrency` allows."""

    @property
    def samples(self) -> int:
        """How often a turn is judged."""
        return self.judge_model.num_samples if self.judge_model else 1

    def judge(self, bench: Bench | None) -> Judge:
        """Who judges: the model that is named here, unless the command line decrees another.

        Raises:
            NoJudge: nobody names one.
            pydantic.ValidationError: a value is wrong.
        """
        if bench is None:
            raise NoJudge
        own = self.judge_model
        if own is None or bench.is_decreed or not own.model_name:
            changes = own.parameters() if own and own.generation_config is not None else {}
            return bench.judge("", **changes)
        return replace(bench, config=own.config(bench.config)).judge()


def told_apart(rubrics: tuple[RubricOption, ...]) -> tuple[RubricOption, ...]:
    """`rubrics`, where a judge scores each by its id.

    Raises:
        ValueError: one has no id, or that of another.
    """
    seen = list(visible(rubrics))
    if any(not rubric.id for rubric in seen):
        raise ValueError("must give every rubric an `id`")
    if id_ := twice(seen):
        raise ValueError(f"must not give the id {id_!r} to two rubrics")
    return rubrics


class RubricJudge(LlmJudge):
    """How a model judges by rubrics, each of which it scores by its id."""

    _are_told_apart = field_validator("rubrics")(told_apart)

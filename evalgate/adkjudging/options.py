"""The options that Google ADK's judged metrics share, and how a metric asks its judge."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from pydantic.alias_generators import to_camel

from evalgate.judge.asking import ChatMessage, ModelAnswer, ModelRequest
from evalgate.judge.bench import Judge, NoJudge
from evalgate.judge.failures import BY_CHANCE
from evalgate.judge.gemini import GenerationConfig
from evalgate.judge.prompting import Prompt, prompt, prompt_of_user, variables_of
from evalgate.judge.sampling import Samples, take_samples
from evalgate.model import Criterion, JsonObject
from evalgate.protocols import MetricContext

T = TypeVar("T")


class AdkOptions(BaseModel):
    """Keys are read in snake_case and in camelCase, as Google ADK reads them."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class JudgeModelOptions(AdkOptions):
    """Which model judges, and how often it is asked."""

    judge_model: str | None = Field(default=None, exclude=True)
    """None: the one that the run is configured with."""
    judge_model_config: GenerationConfig | None = Field(default=None, exclude=True)
    num_samples: int = Field(default=5, ge=1)
    """Answers to each question."""
    parallelism_limit: int | None = Field(default=None, ge=1, exclude=True)
    """Read and not used: the judge's own `concurrency` holds for all metrics together."""

    def changes(self) -> dict[str, object]:
        """What of it alters the judge's configuration."""
        return self.judge_model_config.changes() if self.judge_model_config else {}


class JudgedMetric(AdkOptions):
    """A metric that asks a model."""

    prompt_names: ClassVar[tuple[str, ...]]
    """Of the prompts that come with evalgate; a user's own takes the place of the first."""

    more_variables: ClassVar[frozenset[str]] = frozenset()
    """What that own prompt is filled with beside the variables of ours."""

    judge_model_options: JudgeModelOptions = JudgeModelOptions()
    prompt: str | None = Field(default=None, exclude=True)
    """File of a prompt that is asked instead, relative to the thresholds file."""
    include_intermediate_responses_in_final: bool = False
    """Whether what the agent said on its way counts as a part of its final response."""

    _judge: Judge = PrivateAttr()
    _release: tuple[int, int] = PrivateAttr()
    """Of Google ADK, whose scores are wanted."""
    _prompts: tuple[Prompt, ...] = PrivateAttr()

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """The metric with its judge.

        Raises:
            ValidationError: an option is wrong.
            NoJudge: no model is named.
            InvalidInput: the prompt's file cannot be read, or filled.
        """
        metric = cls.model_validate(cls.options_of(criterion, context))
        metric.take(context)
        return metric

    def take(self, context: MetricContext) -> None:
        """Take the judge and the prompts that the options name; raises as `build`."""
        if context.bench is None:
            raise NoJudge
        options = self.judge_model_options
        self._judge = context.bench.judge(options.judge_model or "", **options.changes())
        self._release = context.adk_release
        self._prompts = tuple(prompt(name) for name in self.prompt_names)
        if self.prompt is not None:
            path = context.locate(context.folder / self.prompt)
            known = variables_of(self.prompt_names[0]) | self.more_variables
            self._prompts = (prompt_of_user(path, self.prompt, known), *self._prompts[1:])

    @classmethod
    def options_of(cls, criterion: Criterion, context: MetricContext) -> dict[str, object]:
        """What the fields are set to."""
        del context
        return dict(criterion.options)

    @property
    def judged_by(self) -> JsonObject:
        """See `Judged`."""
        return {**self._judge.identity, "prompts": [each.version for each in self._prompts]}

    async def ask(
        self,
        parse: Callable[[ModelAnswer], T],
        material: Mapping[str, str],
        *,
        at: int = 0,
        samples: int | None = None,
    ) -> Samples[T]:
        """Answers to the prompt `at` this place, filled with `material`, which no instruction is taken from.

        An answer that is refused, or cannot be read, is no opinion: the others decide.

        Raises:
            JudgeFailed: some answer is missing for another reason.
        """
        template = self._prompts[at]
        text = template.filled(**material)
        count = self.judge_model_options.num_samples if samples is None else samples
        request = ModelRequest((ChatMessage("user", text),), prompt_version=template.version)
        taken = await take_samples(self._judge.client, request, count, parse, are_all_needed=False)
        for failed in taken.failed:
            if failed.failure.kind not in BY_CHANCE:
                raise failed.failure
        return taken

"""The algorithm and settings of tRPC-Agent-Go's judged evaluators."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from evalgate.config.schema.judge import CUSTOM, PROVIDERS, JudgeConfig, check_names_variable
from evalgate.core.formatting import counted, mean_as_added
from evalgate.core.frozen import frozen
from evalgate.core.protocols import MetricContext
from evalgate.core.protocols.metrics import ProvidesJudges
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    JsonObject,
    MetricFailed,
    MetricResult,
    NotApplicable,
    Scored,
    TurnScore,
)
from evalgate.integrations.trpc.criteria import BOUND, Rule
from evalgate.integrations.trpc.judging.answers import (
    Scorecard,
    checked,
    looks_like_json,
    representative,
    rubric_blocks,
    rubric_schema,
    rubric_scores,
)
from evalgate.integrations.trpc.judging.prompt_inputs import (
    Exchange,
    JudgedRubric,
    RubricOption,
    exchanges,
    listed,
    of_case,
    of_turn,
    twice,
    visible,
)
from evalgate.integrations.trpc.judging.templates import JudgeTemplate
from evalgate.llm.client import AnswerSchema, ChatMessage, ModelAnswer, ModelRequest
from evalgate.llm.judge_health import agreement
from evalgate.llm.prompting import Prompt, prompt, prompt_of_user, variables_of
from evalgate.llm.resolver import Bench, Judge, NoJudge
from evalgate.llm.sampling import Samples, Unparsable, take_samples

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

    def judge(self, bench: ProvidesJudges | None) -> Judge:
        """Who judges: the model that is named here, unless the command line decrees another.

        Raises:
            NoJudge: nobody names one.
            pydantic.ValidationError: a value is wrong.
        """
        if not isinstance(bench, Bench):
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


class CannotJudge(Exception):
    """A turn lacks what the evaluator needs; says what. The metric breaks, as in the original."""


class JudgeOptions(Rule):
    """The criterion of a judged metric; criteria of other kinds beside it are overlooked."""

    llm_judge: LlmJudge = Field(default=LlmJudge(), alias="llmJudge")
    tool_trajectory: object = Field(default=None, alias="toolTrajectory")
    final_response: object = Field(default=None, alias="finalResponse")
    prompt: str = ""
    """File of a prompt that is asked instead of ours, relative to the thresholds file."""


@frozen
class Question:
    """What the judge is asked of one turn."""

    text: str
    schema: AnswerSchema | None = None
    parameters: JsonObject | None = None
    sentences: int | None = None
    """How many an answer must label; None: it labels none."""


class RubricOptions(JudgeOptions):
    """The criterion of a metric whose judge scores rubrics by their ids."""

    llm_judge: RubricJudge = Field(default=RubricJudge(), alias="llmJudge")


@dataclass(frozen=True)
class LlmEvaluator(ABC):
    """A metric that a model judges, turn by turn."""

    needs_rubrics: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = False
    options_type: ClassVar[type[JudgeOptions]] = JudgeOptions
    prompt_name: ClassVar[str] = ""
    """"": the prompt is the user's own."""
    more_variables: ClassVar[frozenset[str]] = frozenset()
    """What a prompt of the user's own is filled with beside the variables of ours."""

    settings: LlmJudge
    judge: Judge
    name: str
    """As the user calls the metric: rubrics of a case may be meant for it."""
    threshold: float
    """At or above it a sample passes, in the vote."""
    own_prompt: Prompt | None = None
    """Instead of ours."""

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """The metric of a criterion object of `.metrics.json`.

        Raises:
            ValidationError: an option is wrong.
            NoJudge: no model is named.
            InvalidInput: the prompt's file cannot be read, or filled.
        """
        options = cls.options_type.model_validate(criterion.options, context=BOUND)
        settings, name = options.llm_judge, criterion.metric.removeprefix("trpc/")
        own = None
        if options.prompt:
            known = variables_of(cls.prompt_name) | cls.more_variables
            own = prompt_of_user(context.locate(context.folder / options.prompt), options.prompt, known)
        return cls(settings, settings.judge(context.bench), name, criterion.threshold, own)

    @property
    def judged_by(self) -> JsonObject:
        """See `Judged`."""
        return {**self.judge.identity, "prompt": self.prompt.version if self.prompt_name else ""}

    @property
    def prompt(self) -> Prompt:
        """What the judge is asked with."""
        return self.own_prompt or prompt(self.prompt_name)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """The mean over the turns, in [0, 1]. A turn that is missing or unasked scores 0.0."""
        found = list(exchanges(case, run))
        rubrics = [(*self.rubrics_of(case), *of_turn(each.rubrics)) for each in found]
        if reason := self._not_applicable(found):
            return NotApplicable(reason)
        if self.needs_rubrics and not any(rubrics):
            return MetricFailed("no rubrics: give them as `llmJudge.rubrics`, or with the case")
        if id_ := self._id_given_twice(case, found, rubrics):
            return MetricFailed(f"the case and the metric both have a rubric with the id {id_!r}")
        try:
            turns = [await self._turn(found[: at + 1], own) for at, own in enumerate(rubrics)]
        except CannotJudge as error:
            return MetricFailed(str(error))
        return Scored(_mean(turns), tuple(turns), _first_reason(turns, self.threshold))

    def rubrics_of(self, case: EvalCase) -> tuple[JudgedRubric, ...]:
        """The metric's rubrics, then those of the case that are meant for it."""
        return (*visible(self.settings.rubrics), *of_case(case, self.name))

    def _id_given_twice(
        self, case: EvalCase, found: Sequence[Exchange], rubrics: Sequence[Sequence[JudgedRubric]]
    ) -> str:
        """Return an id that two rubrics of one turn have; "" when the metric alone has rubrics."""
        if not any(of_case(case, self.name)) and not any(each.rubrics for each in found):
            return ""
        return next(filter(None, map(twice, rubrics)), "")

    def _not_applicable(self, found: Sequence[Exchange]) -> str:
        if not found:
            return "nothing was said"
        if self.needs_reference and all(each.reference is None and each.is_asked_for for each in found):
            return "the case expects no final response to compare with"
        return ""

    async def _turn(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> TurnScore:
        exchange = so_far[-1]
        if not exchange.is_asked_for:
            return TurnScore(0.0, "the case does not ask for this turn")
        if exchange.reply is None:
            return TurnScore(0.0, "the agent gave no reply to this turn")
        if self.needs_reference and exchange.reference is None:
            return TurnScore(None, "the turn expects no final response")
        if self.needs_rubrics and not rubrics:
            return TurnScore(None, "there is no rubric for this turn")
        question = await self.question(so_far, rubrics)
        samples = await self._samples(question, rubrics)
        cards = samples.need()
        card, agreed = representative(cards, self.threshold), agreement([each.score for each in cards])
        details = {**card.details, "samples": samples.told(lambda each: (each.score, each.reason))}
        return TurnScore(
            card.score, card.reason, details if agreed is None else {**details, "agreement": agreed}
        )

    async def _samples(self, question: Question, rubrics: Sequence[JudgedRubric]) -> Samples[Scorecard]:
        request = ModelRequest(
            (ChatMessage("user", question.text),),
            parameters=question.parameters or {},
            answer_schema=question.schema,
            prompt_version=self.prompt.version if self.prompt_name else "",
        )
        ids = [rubric.id for rubric in rubrics]

        def read(answer: ModelAnswer) -> Scorecard:
            card, asked = self.read(answer, ids), question.sentences
            if asked is not None and len(card.items) != asked:
                raise Unparsable(f"it labels {len(card.items)} of {counted(asked, 'sentence')}")
            return card

        return await take_samples(self.judge.client, request, self.settings.samples, read)

    @abstractmethod
    async def question(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> Question:
        """What the judge is asked of the last of these turns.

        Raises:
            CannotJudge: the turn lacks something.
            JudgeFailed: the judge had to be asked something before, and gave no answer.
        """

    @abstractmethod
    def read(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        """What an answer says; `ids` are those of the rubrics.

        Raises:
            Unparsable: it is not in the form that was asked for.
        """


class RubricEvaluator(LlmEvaluator):
    """Asks whether rubrics hold; reads the JSON of today's evaluators, and the blocks of the first ones."""

    needs_rubrics = True
    options_type = RubricOptions

    async def question(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> Question:
        """See `LlmEvaluator`."""
        text = self.prompt.filled(**self.material(so_far[-1]), rubrics=listed(rubrics))
        return Question(text, rubric_schema([rubric.id for rubric in rubrics]))

    def material(self, exchange: Exchange) -> Mapping[str, str]:
        """What the prompt shows of a turn.

        Raises:
            CannotJudge: something is missing.
        """
        return material_of(exchange)

    def read(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        """See `LlmEvaluator`."""
        is_json = looks_like_json(answer.text)
        card = rubric_scores(answer.text) if is_json else rubric_blocks(answer.text)
        return checked(card, ids)


def material_of(exchange: Exchange) -> dict[str, str]:
    """User's text, final response and the expected one."""
    return {"user": exchange.user, "response": exchange.response, "reference": exchange.reference or ""}


def _mean(turns: Sequence[TurnScore]) -> float:
    return mean_as_added([turn.score for turn in turns if turn.score is not None])


def _first_reason(turns: Sequence[TurnScore], threshold: float) -> str:
    """Of the first turn below the threshold; where none is, of none."""
    for number, turn in enumerate(turns, start=1):
        if turn.score is not None and turn.score < threshold and turn.reason:
            return f"turn {number}: {turn.reason}" if len(turns) > 1 else turn.reason
    return ""

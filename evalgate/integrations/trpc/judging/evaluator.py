"""Score turns by the algorithm and the settings of tRPC-Agent-Go's judged evaluators."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator
from typing_extensions import override

from evalgate.config.schema.judge import JudgeConfig, require_variable_reference
from evalgate.config.schema.providers import CUSTOM, PROVIDERS
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.means import compute_sequential_mean
from evalgate.core.protocols import MetricContext, ProvidesJudges
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    JsonObject,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    TurnScore,
)
from evalgate.integrations.trpc.judging.answers import (
    Scorecard,
    build_rubric_schema,
    check_rubric_ids,
    choose_representative,
    looks_like_json,
    parse_rubric_blocks,
    parse_rubric_scores,
)
from evalgate.integrations.trpc.judging.rubrics import (
    JudgedRubric,
    TrpcRubricOption,
    find_repeated_id,
    format_rubrics,
    iter_case_rubrics,
    iter_turn_rubrics,
    iter_visible_rubrics,
)
from evalgate.integrations.trpc.judging.user_template import JudgeTemplate
from evalgate.integrations.trpc.value_criteria import BOUND, GoModel
from evalgate.llm.client import AnswerSchema, ChatMessage, ModelAnswer, ModelRequest
from evalgate.llm.judge_resolver import Judge, get_judge_resolver
from evalgate.llm.prompt_templates import Prompt, list_prompt_variables, load_prompt, read_user_prompt
from evalgate.llm.sampling import Samples, UnparsableAnswerError, take_samples
from evalgate.metrics.turnwise import NO_REPLY, NOT_ASKED_FOR, Exchange, build_exchanges

_DEFAULT_GENERATION: Mapping[str, object] = {"max_tokens": 2000, "temperature": 0.8}
"""The settings that Go sends if a judge has no `generationConfig`. If it has one, Go sends none of these."""


class TrpcJudgeModel(GoModel):
    """The model that judges, with its settings. If it has no name, the run's own judge is used."""

    provider_name: str = Field(default="", alias="providerName")
    model_name: str = Field(default="", alias="modelName")
    variant: str = ""
    """The dialect of OpenAI's wire format. It is read and not used."""
    base_url: str = Field(default="", alias="baseURL")
    api_key: str = Field(default="", alias="apiKey", repr=False)
    extra_fields: dict[str, Any] = Field(default_factory=dict, alias="extraFields")
    num_samples: int = Field(default=1, alias="numSamples", ge=1, le=1000)
    generation_config: dict[str, Any] | None = Field(default=None, alias="generationConfig")

    @field_validator("api_key")
    @classmethod
    def _require_placeholder(cls, value: str) -> str:
        if value:
            require_variable_reference(value, "JUDGE_MODEL_API_KEY")
        return value

    @model_validator(mode="after")
    def _require_endpoint(self) -> "TrpcJudgeModel":
        name = self.provider_name
        if name and name not in PROVIDERS and "$" not in name and not self.base_url:
            raise ValueError(f"names the provider {name!r}, whose endpoint must be given as `baseURL`")
        return self

    def build_parameters(self) -> dict[str, object]:
        """Return the model's parameters, by the keys of `JudgeConfig`.

        The parameter `stream` is left out, because a judge's answer is not streamed.
        """
        own = _DEFAULT_GENERATION if self.generation_config is None else self.generation_config
        # tRPC-Agent-Go itself switches streaming off for a judge.
        generation = {**self.extra_fields, **{key: value for key, value in own.items() if key != "stream"}}
        return {
            "temperature": generation.pop("temperature", None),
            "max_tokens": generation.pop("max_tokens", None),
            "generation": generation,
        }

    def build_config(self, base: JudgeConfig | None) -> JudgeConfig:
        """Build the configuration of this model.

        Settings that `TrpcJudgeModel` lacks are taken from `base`, the run's configuration. If `base` is
        None, they have their defaults.

        Raises:
            pydantic.ValidationError: a value is wrong.
        """
        name = self.provider_name or "openai"
        provider = name if name in PROVIDERS or "$" in name else CUSTOM
        known = base or JudgeConfig(model=self.model_name)
        return known.apply_changes(
            provider=provider,
            model=self.model_name,
            base_url=self.base_url or None,
            api_key=self.api_key or None,
            **self.build_parameters(),
        )


class LlmJudgeOptions(GoModel):
    """The options of a judge: its model, its rubrics, and a prompt template of the user's own."""

    rubrics: tuple[TrpcRubricOption, ...] = Field(default=(), strict=False)
    judge_model: TrpcJudgeModel | None = Field(default=None, alias="judgeModel")
    template: JudgeTemplate | None = None
    sample_parallelism_enabled: bool = Field(default=False, alias="sampleParallelismEnabled")
    sample_parallelism: int = Field(default=0, alias="sampleParallelism", ge=0)
    """Not used: the judge's `concurrency` decides how many samples are asked for at the same time."""

    @property
    def samples(self) -> int:
        """Return the number of samples for each turn."""
        return self.judge_model.num_samples if self.judge_model else 1

    def resolve_judge(self, judges: ProvidesJudges | None) -> Judge:
        """Return the judge to ask: a model on the command line comes first, then the model in the options.

        If neither names a model, return the run's judge.

        Raises:
            JudgeNotConfiguredError: no model is named.
            pydantic.ValidationError: a value is wrong.
        """
        resolver, own = get_judge_resolver(judges), self.judge_model
        if own is None or resolver.forced_by_cli or not own.model_name:
            changes = own.build_parameters() if own and own.generation_config is not None else {}
            return resolver.resolve_judge("", **changes)
        return replace(resolver, config=own.build_config(resolver.config)).resolve_judge()


def require_unique_ids(rubrics: tuple[TrpcRubricOption, ...]) -> tuple[TrpcRubricOption, ...]:
    """Return `rubrics` unchanged if their ids are all different, since a judge scores rubrics by id.

    Raises:
        ValueError: a rubric with content has no id, or two rubrics with content have the same id.
    """
    seen = list(iter_visible_rubrics(rubrics))
    if any(not rubric.id for rubric in seen):
        raise ValueError("must give every rubric an `id`")
    if id_ := find_repeated_id(seen):
        raise ValueError(f"must not give the id {id_!r} to two rubrics")
    return rubrics


class RubricJudgeOptions(LlmJudgeOptions):
    """The options of a judge that scores each rubric. The judge's answer names a rubric by its id."""

    _require_unique_rubric_ids = field_validator("rubrics")(require_unique_ids)


class TurnNotJudgeableError(Exception):
    """Error for a turn that lacks data which the evaluator needs; the text names the data.

    The whole metric fails, as in tRPC-Agent-Go.
    """


class LlmCriterion(GoModel):
    """The criterion of a judged metric. Criteria of other kinds in the same object are ignored."""

    llm_judge: LlmJudgeOptions = Field(default=LlmJudgeOptions(), alias="llmJudge")
    tool_trajectory: object = Field(default=None, alias="toolTrajectory")
    final_response: object = Field(default=None, alias="finalResponse")
    prompt: str = ""
    """File of a prompt to use instead of evalgate's, relative to the thresholds file."""


@frozen
class JudgeQuestion:
    """The question to the judge about one turn, with the form of the answer."""

    text: str
    schema: AnswerSchema | None = None
    parameters: JsonObject | None = None
    sentences: int | None = None
    """Number of sentences that a complete answer labels; None for a question without sentences."""


class LlmRubricCriterion(LlmCriterion):
    """The criterion of a metric with a judge that scores rubrics by their ids."""

    llm_judge: RubricJudgeOptions = Field(default=RubricJudgeOptions(), alias="llmJudge")


@dataclass(frozen=True)
class LlmEvaluator(ABC):
    """A metric that a model judges, turn by turn."""

    needs_rubrics: ClassVar[bool] = False
    """True if turns without a rubric have no score."""
    needs_reference: ClassVar[bool] = False
    """True if turns without an expected response have no score."""
    options_type: ClassVar[type[LlmCriterion]] = LlmCriterion
    builtin_prompt_name: ClassVar[str] = ""
    """Name of evalgate's prompt; "" if the prompt is always the user's own."""
    more_variables: ClassVar[frozenset[str]] = frozenset()
    """Variables that a user's own prompt may use besides those of evalgate's prompt."""

    settings: LlmJudgeOptions
    judge: Judge
    name: str
    """Name that the user gave the metric. A case's rubric may say by this name which metric it is for."""
    threshold: float
    """Least score with which an answer of the judge passes, for the majority vote over a turn's answers."""
    user_prompt: Prompt | None = None
    """The user's prompt, which replaces evalgate's."""

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """Build the metric from the criterion in a `.metrics.json` file.

        Raises:
            ValidationError: an option is wrong.
            JudgeNotConfiguredError: no model is named.
            InvalidInputError: the prompt's file cannot be read, is no template, or uses unknown variables.
        """
        options = cls.options_type.model_validate(criterion.options, context=BOUND)
        settings, name = options.llm_judge, criterion.metric.removeprefix("trpc/")
        own = None
        if options.prompt:
            known = list_prompt_variables(cls.builtin_prompt_name) | cls.more_variables
            own = read_user_prompt(context.locate(context.folder / options.prompt), options.prompt, known)
        return cls(settings, settings.resolve_judge(context.judges), name, criterion.threshold, own)

    @property
    def judged_by(self) -> JsonObject:
        """Return the judge's identity and the version of the prompt, for the record of the run."""
        return {**self.judge.identity, "prompt": self.prompt.version if self.builtin_prompt_name else ""}

    @property
    def prompt(self) -> Prompt:
        """Return the prompt in the user's file, or evalgate's own prompt if the criterion names no file."""
        return self.user_prompt or load_prompt(self.builtin_prompt_name)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the mean of the turns' scores, in [0, 1]. A turn that is missing or unexpected scores 0.0.

        A metric that needs an expected response or rubrics leaves out the turns that lack them. If no turn is
        left, the result is not applicable. The metric fails if it needs rubrics and no turn has any, if two
        rubrics have the same id, or if a turn lacks other data that the question to the judge needs.

        Raises:
            JudgeError: an answer of the judge is missing or cannot be parsed.
        """
        found = build_exchanges(case, run)
        rubrics = [(*self.collect_rubrics(case), *iter_turn_rubrics(each)) for each in found]
        if reason := self._explain_not_applicable(found):
            return NotApplicable(reason)
        if self.needs_rubrics and not any(rubrics):
            return MetricFailure("no rubrics: give them as `llmJudge.rubrics`, or with the case")
        if repetition := self._describe_repeated_id(case, found):
            return MetricFailure(repetition)
        try:
            turns = [await self._score_turn(found[: at + 1], own) for at, own in enumerate(rubrics)]
        except TurnNotJudgeableError as error:
            return MetricFailure(str(error))
        scores = [turn.score for turn in turns if turn.score is not None]
        if not scores:
            return NotApplicable("no turn has both an expected final response and a rubric")
        return MetricScore(
            compute_sequential_mean(scores), tuple(turns), _find_first_reason(turns, self.threshold)
        )

    def collect_rubrics(self, case: EvalCase) -> tuple[JudgedRubric, ...]:
        """Return the metric's rubrics, then the case's rubrics that are for this or for every metric."""
        return (*iter_visible_rubrics(self.settings.rubrics), *iter_case_rubrics(case, self.name))

    def _describe_repeated_id(self, case: EvalCase, found: Sequence[Exchange]) -> str:
        """Return a sentence about two rubrics with the same id that apply to the same turn; "" if none.

        Return "" also if only the metric has rubrics: their ids were checked when the metric's options were
        read.
        """
        of_metric = list(iter_visible_rubrics(self.settings.rubrics))
        of_case = list(iter_case_rubrics(case, self.name))
        of_turns = [list(iter_turn_rubrics(each)) for each in found]
        if not of_case and not any(of_turns):
            return ""
        for exchange, of_turn in zip(found, of_turns, strict=True):
            owners: dict[str, str] = {}
            sources = {"the metric": of_metric, "the case": of_case, f"turn {exchange.number}": of_turn}
            for owner, rubrics in sources.items():
                for id_ in (rubric.id for rubric in rubrics):
                    if (other := owners.setdefault(id_, owner)) != owner:
                        return f"{owner} and {other} both have a rubric with the id {id_!r}"
                if id_ := find_repeated_id(rubrics):
                    return f"two rubrics of {owner} have the id {id_!r}"
        return ""

    def _explain_not_applicable(self, found: Sequence[Exchange]) -> str:
        if not found:
            return "nothing was said"
        if self.needs_reference and all(each.reference is None and each.is_asked_for for each in found):
            return "the case expects no final response to compare with"
        return ""

    async def _score_turn(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> TurnScore:
        exchange = so_far[-1]
        if not exchange.is_asked_for:
            return TurnScore(0.0, NOT_ASKED_FOR)
        if exchange.reply is None:
            return TurnScore(0.0, NO_REPLY)
        if self.needs_reference and exchange.reference is None:
            return TurnScore(None, "the turn expects no final response")
        if self.needs_rubrics and not rubrics:
            return TurnScore(None, "there is no rubric for this turn")
        question = await self.build_question(so_far, rubrics)
        samples = await self._take_samples(question, rubrics)
        card = choose_representative(samples.require_values(), self.threshold)
        details = samples.build_details(lambda each: (each.score, each.reason))
        return TurnScore(card.score, card.reason, {**card.details, **details})

    async def _take_samples(
        self, question: JudgeQuestion, rubrics: Sequence[JudgedRubric]
    ) -> Samples[Scorecard]:
        request = ModelRequest(
            (ChatMessage("user", question.text),),
            parameters=question.parameters or {},
            answer_schema=question.schema,
            prompt_version=self.prompt.version if self.builtin_prompt_name else "",
        )
        ids = [rubric.id for rubric in rubrics]

        def parse_complete_answer(answer: ModelAnswer) -> Scorecard:
            card, asked = self.parse_answer(answer, ids), question.sentences
            if asked is not None and len(card.items) != asked:
                raise UnparsableAnswerError(f"it labels {len(card.items)} of {pluralize(asked, 'sentence')}")
            return card

        return await take_samples(self.judge.client, request, self.settings.samples, parse_complete_answer)

    @abstractmethod
    async def build_question(
        self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]
    ) -> JudgeQuestion:
        """Build the question about the last turn in `so_far`.

        Raises:
            TurnNotJudgeableError: the turn lacks data for the question.
            JudgeError: a preliminary question to the judge failed.
        """

    @abstractmethod
    def parse_answer(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        """Parse an answer; `ids` are the ids of the rubrics.

        Raises:
            UnparsableAnswerError: the answer is not in the requested form.
        """


class RubricEvaluator(LlmEvaluator):
    """An evaluator that asks a judge which of the rubrics hold.

    The judge is asked for JSON. Answers in blocks of text, which judges were asked for until May 2026, are
    read, too, because some models still answer so.
    """

    needs_rubrics = True
    options_type = LlmRubricCriterion

    @override
    async def build_question(
        self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]
    ) -> JudgeQuestion:
        text = self.prompt.render_text(**self.build_material(so_far[-1]), rubrics=format_rubrics(rubrics))
        return JudgeQuestion(text, build_rubric_schema([rubric.id for rubric in rubrics]))

    def build_material(self, exchange: Exchange) -> Mapping[str, str]:
        """Return the values of the prompt's variables, such as the texts of the turn.

        Raises:
            TurnNotJudgeableError: the turn lacks a value.
        """
        return get_exchange_texts(exchange)

    @override
    def parse_answer(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        # Until May 2026 judges were asked for text blocks, and the same models answer in either form.
        is_json = looks_like_json(answer.text)
        card = parse_rubric_scores(answer.text) if is_json else parse_rubric_blocks(answer.text)
        return check_rubric_ids(card, ids)


def get_exchange_texts(exchange: Exchange) -> dict[str, str]:
    """Return the texts of the turn under the variables of prompts: `user`, `response` and `reference`."""
    return {"user": exchange.user, "response": exchange.response, "reference": exchange.reference or ""}


def _find_first_reason(turns: Sequence[TurnScore], threshold: float) -> str:
    """Return the reason of the first turn below the threshold that has a reason, or "".

    If there are several turns, the number of the turn (from 1) precedes the reason.
    """
    for number, turn in enumerate(turns, start=1):
        if turn.score is not None and turn.score < threshold and turn.reason:
            return f"turn {number}: {turn.reason}" if len(turns) > 1 else turn.reason
    return ""

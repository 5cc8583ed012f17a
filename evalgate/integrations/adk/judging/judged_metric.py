"""Options, rubrics and scores of Google ADK's judged metrics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Self, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from typing_extensions import override

from evalgate.core.formatting import (
    compute_exact_mean,
    compute_mean,
    compute_sequential_mean,
    compute_weighted_mean,
    pluralize,
)
from evalgate.core.frozen import frozen
from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    Criterion,
    EvalCase,
    JsonObject,
    Message,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    Rubric,
    TurnScore,
)
from evalgate.integrations.adk.config import GenerationConfig
from evalgate.integrations.adk.judging.answers import (
    JudgeOpinion,
    RubricVerdict,
    RubricVerdicts,
    build_rubric_parser,
)
from evalgate.integrations.adk.judging.prompts import collect_rubrics
from evalgate.llm.client import ChatMessage, ModelAnswer, ModelRequest
from evalgate.llm.errors import RANDOM_FAILURES, JudgeError
from evalgate.llm.judge_resolver import Judge, get_judge_resolver
from evalgate.llm.prompting import Prompt, list_prompt_variables, load_prompt, read_user_prompt
from evalgate.llm.sample_votes import Sample, Samples, take_samples
from evalgate.metrics.turnwise import Exchange

T = TypeVar("T")


class AdkOptions(BaseModel):
    """Options with keys in snake_case or camelCase, as Google ADK reads them."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class JudgeModelOptions(AdkOptions):
    """The model that judges, and the number of samples."""

    judge_model: str | None = Field(default=None, exclude=True)
    """None: the model that the run is configured with."""
    judge_model_config: GenerationConfig | None = Field(default=None, exclude=True)
    num_samples: int = Field(default=5, ge=1)
    """Answers to each question."""
    parallelism_limit: int | None = Field(default=None, ge=1, exclude=True)
    """Read and not used: the judge's own `concurrency` limits all metrics together."""

    def get_config_changes(self) -> dict[str, object]:
        """Return the changes to the judge's configuration, by its key names."""
        return self.judge_model_config.to_judge_changes() if self.judge_model_config else {}


class JudgedMetric(AdkOptions):
    """A metric that asks a model."""

    prompt_names: ClassVar[tuple[str, ...]]
    """Names of prompts that come with evalgate; a user's own prompt replaces the first."""

    more_variables: ClassVar[frozenset[str]] = frozenset()
    """Variables that a user's own prompt may use besides those of evalgate's prompt."""

    judge_model_options: JudgeModelOptions = JudgeModelOptions()
    prompt: str | None = Field(default=None, exclude=True)
    """File of a prompt to use instead, relative to the thresholds file."""
    include_intermediate_responses_in_final: bool = False
    """Count messages before the final response as a part of it."""

    _judge: Judge = PrivateAttr()
    _release: tuple[int, int] = PrivateAttr()
    """The release of Google ADK whose scores are wanted."""
    _prompts: tuple[Prompt, ...] = PrivateAttr()

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """Build the metric with its judge.

        Raises:
            ValidationError: an option is wrong.
            JudgeNotConfiguredError: no model is named.
            InvalidInputError: the prompt's file cannot be read, or filled.
        """
        metric = cls.model_validate(cls.build_options(criterion, context))
        metric.bind_judge(context)
        return metric

    def bind_judge(self, context: MetricContext) -> None:
        """Resolve the judge and load the prompts that the options name.

        Raises:
            JudgeNotConfiguredError: no model is named.
            InvalidInputError: the prompt's file cannot be read, or filled.
        """
        options, resolver = self.judge_model_options, get_judge_resolver(context.judges)
        self._judge = resolver.resolve_judge(options.judge_model or "", **options.get_config_changes())
        self._release = context.adk_release
        self._prompts = tuple(load_prompt(name) for name in self.prompt_names)
        if self.prompt is not None:
            path = context.locate(context.folder / self.prompt)
            known = list_prompt_variables(self.prompt_names[0]) | self.more_variables
            self._prompts = (read_user_prompt(path, self.prompt, known), *self._prompts[1:])

    @classmethod
    def build_options(cls, criterion: Criterion, context: MetricContext) -> dict[str, object]:
        """Return the values of the metric's fields."""
        del context
        return dict(criterion.options)

    @property
    def judged_by(self) -> JsonObject:
        """Return the judge's identity and the versions of the prompts."""
        return {**self._judge.identity, "prompts": [each.version for each in self._prompts]}

    def get_response(self, exchange: Exchange) -> str:
        """Return the final response, after earlier messages if the options count them as a part of it."""
        events = exchange.reply.events if exchange.reply else ()
        is_whole = self.include_intermediate_responses_in_final
        earlier = [event.text for event in events if is_whole and isinstance(event, Message)]
        return "\n".join([*earlier, exchange.response]).strip("\n")

    async def ask_judge(
        self,
        parse: Callable[[ModelAnswer], T],
        material: Mapping[str, str],
        *,
        at: int = 0,
        samples: int | None = None,
    ) -> Samples[T]:
        """Ask the prompt at index `at`, filled with `material`, and parse the answers.

        The prompt marks the material as data, from which no instruction is taken. An answer that is refused
        or cannot be read is no opinion: the others decide.

        Raises:
            JudgeError: an answer is missing for another reason.
        """
        template = self._prompts[at]
        text = template.render_text(**material)
        count = self.judge_model_options.num_samples if samples is None else samples
        request = ModelRequest((ChatMessage("user", text),), prompt_version=template.version)
        taken = await take_samples(self._judge.client, request, count, parse, are_all_needed=False)
        # Google ADK from 2.8 on takes the mean of the other turns. An outage says nothing about the agent,
        # so here the metric fails.
        for failed in taken.failed:
            if failed.failure.kind not in RANDOM_FAILURES:
                raise failed.failure
        return taken


@frozen
class JudgedTurn:
    """A turn's score, with the samples in its details."""

    score: TurnScore
    failure: JudgeError | None = None
    """The judge's failure, if that is why there is no score."""


def build_unjudged_turn(reason: str) -> JudgedTurn:
    """Build a turn that the metric does not score."""
    return JudgedTurn(TurnScore(None, reason))


def build_zero_turn(reason: str) -> JudgedTurn:
    """Build a turn that scores 0 without a judge."""
    return JudgedTurn(TurnScore(0.0, reason))


def score_by_vote(samples: Samples[JudgeOpinion]) -> JudgedTurn:
    """Build a turn that scores 1.0 if more than half of the opinions are positive, else 0.0."""
    if not samples.good:
        return build_failed_turn(samples)
    positive = [opinion for opinion in samples.values if opinion.score > 0]
    # A tie is lost, as in Google ADK; samples without an opinion do not vote.
    wins = len(positive) > len(samples.values) - len(positive)
    side = positive if wins else [opinion for opinion in samples.values if not opinion.score]
    says = "says" if len(samples.values) == 1 else "say"
    share = f"{len(side)} of {pluralize(len(samples.values), 'sample')} {says} so"
    reason = f"{share}: {side[0].reason}" if side[0].reason else share
    return JudgedTurn(TurnScore(float(wins), reason, _build_details(samples)))


def score_by_mean(samples: Samples[JudgeOpinion]) -> JudgedTurn:
    """Build a turn with the mean of the opinions, and the reason of the opinion nearest to the mean."""
    if not samples.good:
        return build_failed_turn(samples)
    scores = [opinion.score for opinion in samples.values]
    mean = compute_sequential_mean(scores)
    nearest = min(samples.values, key=lambda opinion: abs(opinion.score - mean))
    return JudgedTurn(TurnScore(mean, nearest.reason, _build_details(samples)))


def build_failed_turn(samples: Samples[JudgeOpinion]) -> JudgedTurn:
    """Build a turn on which the judge gave no usable answer."""
    failure = samples.failed[0].failure
    return JudgedTurn(TurnScore(None, str(failure), _build_details(samples)), failure)


def _build_details(samples: Samples[JudgeOpinion]) -> JsonObject:
    return samples.build_details(lambda opinion: (opinion.score, opinion.reason))


def compute_mean_result(
    turns: Sequence[JudgedTurn],
    *,
    nothing: str,
    mean: Callable[[Sequence[float]], float] = compute_sequential_mean,
) -> MetricResult:
    """Compute the mean over the turns that have a score, as Google ADK does.

    `nothing` is the reason if there is no turn to score, and the judge is not at fault. `mean` decides how
    the metric rounds.

    Raises:
        JudgeError: no turn has a score because the judge failed.
    """
    scores = [turn.score.score for turn in turns if turn.score.score is not None]
    if not scores:
        if failure := next((turn.failure for turn in turns if turn.failure), None):
            raise failure
        return NotApplicable(next((turn.score.reason for turn in turns if turn.score.reason), nothing))
    return MetricScore(mean(scores), tuple(turn.score for turn in turns), find_worst_reason(turns))


def build_conversation_result(turn: JudgedTurn, turns: int) -> MetricResult:
    """Return the score of a whole conversation, which is recorded at its last turn.

    Raises:
        JudgeError: the judge gave no score.
    """
    if turn.score.score is None:
        if turn.failure:
            raise turn.failure
        return NotApplicable(turn.score.reason)
    earlier = (TurnScore(None, "the conversation is judged as a whole"),) * (turns - 1)
    return replace(MetricScore(turn.score.score, (*earlier, turn.score)), reason=turn.score.reason)


def find_worst_reason(turns: Sequence[JudgedTurn]) -> str:
    """Return the reason of the turn with the lowest score."""
    judged = [(at, turn.score) for at, turn in enumerate(turns, 1) if turn.score.score is not None]
    at, worst = min(judged, key=lambda pair: pair[1].score or 0.0)
    return f"turn {at}: {worst.reason}" if len(turns) > 1 and worst.reason else worst.reason


class AdkRubricOptionContent(AdkOptions):
    """The text of a rubric."""

    text_property: str


class AdkRubricOption(AdkOptions):
    """A rubric of the criterion."""

    rubric_id: str
    rubric_content: AdkRubricOptionContent
    description: str | None = Field(default=None, exclude=True)
    type: str | None = Field(default=None, exclude=True)
    points: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Weight in the mean of the rubrics' scores."""

    @field_validator("points", mode="before")
    @classmethod
    def _default_points(cls, value: object) -> object:
        return 1.0 if value is None else value

    @model_serializer(mode="wrap")
    def _serialize_options(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out `points` of 1: scores of metrics that never had any stay comparable."""
        values: dict[str, object] = serialize(self)
        return {key: value for key, value in values.items() if key != "points" or value != 1.0}


def _expand_criterion(number: int, rubric: object) -> object:
    """Convert a rubric of Google ADK's guide, `{criterion, points}`, to the form that its releases read."""
    if not isinstance(rubric, dict) or "criterion" not in rubric:
        return rubric
    rest = {key: value for key, value in rubric.items() if key != "criterion"}
    content = {"text_property": rubric["criterion"]}
    return {"rubric_id": f"criterion_{number}", "rubric_content": content, **rest}


class DuplicateRubricError(Exception):
    """Two rubrics have the same id, so that an answer cannot be assigned to either."""


class RubricMetric(JudgedMetric):
    """A metric that scores the share of rubrics that hold."""

    kind: ClassVar[str]
    """The type that a rubric of a case or turn must have to be judged by this metric."""

    rubrics: tuple[AdkRubricOption, ...] = ()
    """Rubrics that apply to every turn."""
    answers: Literal["adk<=2.5", "adk>=2.6"] = "adk>=2.6"
    """Releases of Google ADK to agree with when answers are read."""
    _takes_untyped: bool = PrivateAttr(default=False)
    """Count rubrics of cases and turns that have no type."""

    @field_validator("rubrics", mode="before")
    @classmethod
    def _normalize_rubrics(cls, value: object) -> object:
        if not isinstance(value, (list, tuple)):
            return value
        return tuple(_expand_criterion(number, each) for number, each in enumerate(value, 1))

    @override
    def bind_judge(self, context: MetricContext) -> None:
        super().bind_judge(context)
        # Google ADK ignores rubrics without a type; in evalgate's own thresholds files they count.
        self._takes_untyped = not context.is_literal

    def accepts_rubric(self, rubric: Rubric) -> bool:
        """Return True if a rubric of a case or a turn is meant for this metric."""
        # No release of Google ADK reads the form of its guide, which has points and no type.
        takes_untyped = self._takes_untyped or rubric.points is not None
        return rubric.type == self.kind or (takes_untyped and not rubric.type)

    def collect_points(self, case: EvalCase, exchange: Exchange) -> dict[str, float]:
        """Return the weight of each rubric that `collect_rubric_texts` returns, by id."""
        own = {each.rubric_id: each.points for each in self.rubrics}
        written = [each for each in collect_rubrics(case, exchange) if self.accepts_rubric(each)]
        return own | {each.rubric_id: 1.0 if each.points is None else each.points for each in written}

    @override
    @classmethod
    def build_options(cls, criterion: Criterion, context: MetricContext) -> dict[str, object]:
        answers = "adk>=2.6" if context.adk_release >= (2, 6) else "adk<=2.5"
        return {"answers": answers, **criterion.options}

    def collect_rubric_texts(self, case: EvalCase, exchange: Exchange) -> dict[str, str]:
        """Return the texts of the criterion's rubrics, then those of the case and the turn, by id.

        Returns an empty dict if there are none. Releases up to 2.5 also use none if the criterion has none.

        Raises:
            DuplicateRubricError: two rubrics have the same id, even if one is of another kind.
        """
        written = collect_rubrics(case, exchange)
        _require_unique_ids([(each.rubric_id, each.text) for each in written])
        if self.answers == "adk<=2.5" and not self.rubrics:
            return {}
        own = [(each.rubric_id, each.rubric_content.text_property) for each in self.rubrics]
        return _require_unique_ids(
            own + [(each.rubric_id, each.text) for each in written if self.accepts_rubric(each)]
        )

    def build_no_rubrics_failure(self) -> MetricFailure:
        """Build the failure of a metric that has no rubric to judge by."""
        elsewhere = f", or rubrics of type {self.kind} with the case"
        if self.answers == "adk<=2.5":
            elsewhere = ", without which releases of Google ADK before 2.6 look at no others"
        return MetricFailure(f"there is no rubric to judge by: give `rubrics` in the criterion{elsewhere}")

    async def ask_verdicts(
        self, rubrics: Mapping[str, str], material: Mapping[str, str]
    ) -> Samples[RubricVerdicts]:
        """Ask the judge for a verdict on each of `rubrics` (texts by id)."""
        release = (2, 6) if self.answers == "adk>=2.6" else (2, 3)
        listed = "\n".join(f"* {text}" for text in rubrics.values())
        return await self.ask_judge(build_rubric_parser(rubrics, release), {**material, "rubrics": listed})


def _require_unique_ids(rubrics: Sequence[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in rubrics:
        if name in found:
            raise DuplicateRubricError(f"two rubrics have the id {name!r}: give each its own")
        found[name] = text
    return found


WeightedScores: TypeAlias = Sequence[tuple[float, float | None]]
"""Scores of rubrics, each with its points."""


def score_turn_by_rubrics(
    samples: Samples[RubricVerdicts], rubrics: Mapping[str, str], points: Mapping[str, float]
) -> tuple[JudgedTurn, WeightedScores]:
    """Return the turn, and the score of each of its rubrics with its points.

    A rubric that no sample decides has no score, as in Google ADK.
    """
    opinions = Samples(tuple(map(_to_opinion, samples.good)), samples.failed)
    if not samples.good:
        return build_failed_turn(opinions), ()
    pairs = [each for verdicts in samples.values for each in verdicts]
    scores = {name: _take_majority([verdict for own, verdict in pairs if own == name]) for name in rubrics}
    decided = tuple((score, points[name]) for name, (score, _) in scores.items() if score is not None)
    is_weighted = len(set(points.values())) > 1
    found = {
        **_build_details(opinions),
        "rubrics": [
            {"id": name, "text": rubrics[name], "score": score, "reason": why}
            | ({"points": points[name]} if is_weighted else {})
            for name, (score, why) in scores.items()
        ],
    }
    mean = compute_rubric_mean(decided, compute_mean)
    return JudgedTurn(TurnScore(mean, _explain_score(scores, rubrics), found)), decided


def compute_rubric_mean(scores: WeightedScores, plain_mean: Callable[[Sequence[float]], float]) -> float:
    """Return the mean of rubrics' scores by their points.

    Google ADK has no points: if all are equal, `plain_mean` has its result to the last bit. A score without
    points, as of a missing turn, counts like the average rubric.
    """
    values = [score for score, _ in scores]
    known = [points for _, points in scores if points is not None]
    if len(set(known)) <= 1:
        return plain_mean(values)
    average = compute_exact_mean(known)
    return compute_weighted_mean(values, [average if points is None else points for _, points in scores])


def _to_opinion(sample: Sample[RubricVerdicts]) -> Sample[JudgeOpinion]:
    scores = [verdict.score for _, verdict in sample.value if verdict.score is not None]
    why = "; ".join(verdict.rationale for _, verdict in sample.value if verdict.rationale)
    return Sample(sample.number, sample.answer, JudgeOpinion(compute_mean(scores), why), sample.attempts)


def _take_majority(verdicts: Sequence[RubricVerdict]) -> tuple[float | None, str]:
    """Return a score and the first reason on the winning side.

    The score is 1.0 for more yes than no, otherwise 0.0, or None if no verdict is yes or no.
    """
    decided = [verdict for verdict in verdicts if verdict.score is not None]
    if not decided:
        return None, "the judge says neither yes nor no"
    yes = sum(verdict.score == 1.0 for verdict in decided)
    score = float(yes > len(decided) - yes)
    return score, next(verdict.rationale for verdict in decided if verdict.score == score)


def _explain_score(scores: Mapping[str, tuple[float | None, str]], rubrics: Mapping[str, str]) -> str:
    missed = [f"{rubrics[name]} – no: {why}" for name, (score, why) in scores.items() if score == 0.0]
    undecided = sum(score is None for score, _ in scores.values())
    reason = "; ".join(missed)
    if undecided:
        separator = "; " if reason else ""
        reason += f"{separator}{pluralize(undecided, 'rubric')} undecided, and left out as in Google ADK"
    return reason

"""Options, rubrics and scores of Google ADK's judged metrics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator
from pydantic.alias_generators import to_camel

from evalgate.core.formatting import compute_mean, compute_sequential_mean, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    Criterion,
    EvalCase,
    JsonObject,
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
from evalgate.integrations.adk.judging.exchanges import AdkExchange, collect_rubrics
from evalgate.llm.client import ChatMessage, ModelAnswer, ModelRequest
from evalgate.llm.errors import RANDOM_FAILURES, JudgeError
from evalgate.llm.judge_health import compute_agreement
from evalgate.llm.prompting import Prompt, list_prompt_variables, load_prompt, read_user_prompt
from evalgate.llm.resolver import Judge, JudgeNotConfiguredError
from evalgate.llm.sampling import Sample, Samples, take_samples

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

    def get_config_changes(self) -> dict[str, object]:
        """What of it alters the judge's configuration."""
        return self.judge_model_config.to_judge_changes() if self.judge_model_config else {}


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
            JudgeNotConfiguredError: no model is named.
            InvalidInputError: the prompt's file cannot be read, or filled.
        """
        metric = cls.model_validate(cls.build_options(criterion, context))
        metric.bind_judge(context)
        return metric

    def bind_judge(self, context: MetricContext) -> None:
        """Take the judge and the prompts that the options name; raises as `build`."""
        if context.bench is None:
            raise JudgeNotConfiguredError
        options = self.judge_model_options
        self._judge = context.bench.resolve_judge(options.judge_model or "", **options.get_config_changes())
        self._release = context.adk_release
        self._prompts = tuple(load_prompt(name) for name in self.prompt_names)
        if self.prompt is not None:
            path = context.locate(context.folder / self.prompt)
            known = list_prompt_variables(self.prompt_names[0]) | self.more_variables
            self._prompts = (read_user_prompt(path, self.prompt, known), *self._prompts[1:])

    @classmethod
    def build_options(cls, criterion: Criterion, context: MetricContext) -> dict[str, object]:
        """What the fields are set to."""
        del context
        return dict(criterion.options)

    @property
    def judged_by(self) -> JsonObject:
        """See `Judged`."""
        return {**self._judge.identity, "prompts": [each.version for each in self._prompts]}

    async def ask_judge(
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
            JudgeError: some answer is missing for another reason.
        """
        template = self._prompts[at]
        text = template.render_text(**material)
        count = self.judge_model_options.num_samples if samples is None else samples
        request = ModelRequest((ChatMessage("user", text),), prompt_version=template.version)
        taken = await take_samples(self._judge.client, request, count, parse, are_all_needed=False)
        for failed in taken.failed:
            if failed.failure.kind not in RANDOM_FAILURES:
                raise failed.failure
        return taken


NOT_ASKED_FOR = "the case does not ask for this turn"
NO_REPLY = "the agent gave no reply to this turn"


@frozen
class JudgedTurn:
    """A turn with its opinions."""

    score: TurnScore
    failure: JudgeError | None = None
    """Why it has no score, where the judge is to blame."""


def build_unjudged_turn(reason: str) -> JudgedTurn:
    """A turn that the metric has nothing to say about."""
    return JudgedTurn(TurnScore(None, reason))


def build_zero_turn(reason: str) -> JudgedTurn:
    """A turn that scores 0 without a judge."""
    return JudgedTurn(TurnScore(0.0, reason))


def score_by_vote(samples: Samples[JudgeOpinion]) -> JudgedTurn:
    """1.0 when more than half of the opinions are positive, else 0.0: a tie is none."""
    if not samples.good:
        return build_failed_turn(samples)
    positive = [opinion for opinion in samples.values if opinion.score > 0]
    wins = len(positive) > len(samples.values) - len(positive)
    side = positive if wins else [opinion for opinion in samples.values if not opinion.score]
    says = "says" if len(samples.values) == 1 else "say"
    share = f"{len(side)} of {pluralize(len(samples.values), 'sample')} {says} so"
    reason = f"{share}: {side[0].reason}" if side[0].reason else share
    return JudgedTurn(TurnScore(float(wins), reason, build_details(samples)))


def score_by_mean(samples: Samples[JudgeOpinion]) -> JudgedTurn:
    """The mean of the opinions."""
    if not samples.good:
        return build_failed_turn(samples)
    scores = [opinion.score for opinion in samples.values]
    mean = compute_sequential_mean(scores)
    nearest = min(samples.values, key=lambda opinion: abs(opinion.score - mean))
    return JudgedTurn(TurnScore(mean, nearest.reason, build_details(samples)))


def build_failed_turn(samples: Samples[JudgeOpinion]) -> JudgedTurn:
    """A turn that the judge said nothing usable about."""
    failure = samples.failed[0].failure
    return JudgedTurn(TurnScore(None, str(failure), build_details(samples)), failure)


def build_details(
    samples: Samples[JudgeOpinion],
    tell: Callable[[JudgeOpinion], tuple[float | None, str]] = lambda each: (each.score, each.reason),
) -> JsonObject:
    """Every sample with its reason, and how far they agree."""
    found: dict[str, object] = {"samples": samples.to_rows(tell)}
    agreed = compute_agreement([tell(value)[0] for value in samples.values])
    return found if agreed is None else {**found, "agreement": agreed}


def compute_mean_result(
    turns: Sequence[JudgedTurn],
    *,
    nothing: str,
    mean: Callable[[Sequence[float]], float] = compute_sequential_mean,
) -> MetricResult:
    """The mean over the turns that have a score, as Google ADK takes it.

    `nothing` says why none may have one, when that is not the judge's fault; `mean` how the metric rounds.

    Raises:
        JudgeError: none has a score because the judge failed.
    """
    scores = [turn.score.score for turn in turns if turn.score.score is not None]
    if not scores:
        if failure := next((turn.failure for turn in turns if turn.failure), None):
            raise failure
        return NotApplicable(next((turn.score.reason for turn in turns if turn.score.reason), nothing))
    return MetricScore(mean(scores), tuple(turn.score for turn in turns), find_worst_reason(turns))


def build_conversation_result(turn: JudgedTurn, turns: int) -> MetricResult:
    """The score of a whole conversation, which stands at its last turn.

    Raises:
        JudgeError: the judge gave none.
    """
    if turn.score.score is None:
        if turn.failure:
            raise turn.failure
        return NotApplicable(turn.score.reason)
    earlier = (TurnScore(None, "the conversation is judged as a whole"),) * (turns - 1)
    return replace(MetricScore(turn.score.score, (*earlier, turn.score)), reason=turn.score.reason)


def find_worst_reason(turns: Sequence[JudgedTurn]) -> str:
    """Why the worst turn has its score."""
    judged = [(at, turn.score) for at, turn in enumerate(turns, 1) if turn.score.score is not None]
    at, worst = min(judged, key=lambda pair: pair[1].score or 0.0)
    return f"turn {at}: {worst.reason}" if len(turns) > 1 and worst.reason else worst.reason


class AdkRubricOptionContent(AdkOptions):
    """What a rubric says."""

    text_property: str


class AdkRubricOption(AdkOptions):
    """A rubric of the criterion."""

    rubric_id: str
    rubric_content: AdkRubricOptionContent
    description: str | None = Field(default=None, exclude=True)
    type: str | None = Field(default=None, exclude=True)


def _expand_criterion(number: int, rubric: object) -> object:
    """A rubric as Google ADK's guide shows it, `{criterion, points}`, in the form that its releases read."""
    if not isinstance(rubric, dict) or "criterion" not in rubric:
        return rubric
    rest = {key: value for key, value in rubric.items() if key not in {"criterion", "points"}}
    content = {"text_property": rubric["criterion"]}
    return {"rubric_id": f"criterion_{number}", "rubric_content": content, **rest}


class DuplicateRubricError(Exception):
    """Two rubrics have one id: which of them an answer speaks of cannot be known."""


class RubricMetric(JudgedMetric):
    """A metric whose score is the share of rubrics that hold."""

    kind: ClassVar[str]
    """The type of the rubrics of cases and turns that it judges by."""

    rubrics: tuple[AdkRubricOption, ...] = ()
    """Rubrics of every turn."""
    answers: Literal["adk<=2.5", "adk>=2.6"] = "adk>=2.6"
    """Which releases of Google ADK to agree with when answers are read."""
    _takes_untyped: bool = PrivateAttr(default=False)
    """Whether rubrics of cases and turns count that have no type."""

    @field_validator("rubrics", mode="before")
    @classmethod
    def _normalize_rubrics(cls, value: object) -> object:
        if not isinstance(value, (list, tuple)):
            return value
        if len({str(each.get("points", 1)) for each in value if isinstance(each, dict)}) > 1:
            raise ValueError("must all have the same `points`: as in Google ADK, each counts once")
        return tuple(_expand_criterion(number, each) for number, each in enumerate(value, 1))

    def bind_judge(self, context: MetricContext) -> None:
        """See the base. Google ADK passes over rubrics without a type; a thresholds file of ours does not."""
        super().bind_judge(context)
        self._takes_untyped = not context.is_literal

    def accepts_rubric(self, rubric: Rubric) -> bool:
        """Return whether a rubric of a case or a turn is meant for this metric."""
        return rubric.type == self.kind or (self._takes_untyped and not rubric.type)

    @classmethod
    def build_options(cls, criterion: Criterion, context: MetricContext) -> dict[str, object]:
        """See the base."""
        answers = "adk>=2.6" if context.adk_release >= (2, 6) else "adk<=2.5"
        return {"answers": answers, **criterion.options}

    def collect_rubric_texts(self, case: EvalCase, exchange: AdkExchange) -> dict[str, str]:
        """Rubric → text: the criterion's, then those of the case and the turn.

        Empty where there is none, or where the release looks at no others without one in the criterion.

        Raises:
            DuplicateRubricError: two have one id, also where only one of them is of the metric's kind.
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
        """There is nothing to judge by."""
        elsewhere = f", or rubrics of type {self.kind} with the case"
        if self.answers == "adk<=2.5":
            elsewhere = ", without which releases of Google ADK before 2.6 look at no others"
        return MetricFailure(f"there is no rubric to judge by: give `rubrics` in the criterion{elsewhere}")

    async def ask_verdicts(
        self, rubrics: Mapping[str, str], material: Mapping[str, str]
    ) -> Samples[RubricVerdicts]:
        """What the samples say of the rubrics."""
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


def score_turn_by_rubrics(
    samples: Samples[RubricVerdicts], rubrics: Mapping[str, str]
) -> tuple[JudgedTurn, tuple[float, ...]]:
    """The turn, and the scores of its rubrics; one that no sample decides has none, as in Google ADK."""
    opinions = Samples(tuple(map(_to_opinion, samples.good)), samples.failed)
    if not samples.good:
        return build_failed_turn(opinions), ()
    said = [each for verdicts in samples.values for each in verdicts]
    scores = {name: _take_majority([verdict for own, verdict in said if own == name]) for name in rubrics}
    decided = tuple(score for score, _ in scores.values() if score is not None)
    found = {
        **build_details(opinions),
        "rubrics": [
            {"id": name, "text": rubrics[name], "score": score, "reason": why}
            for name, (score, why) in scores.items()
        ],
    }
    return JudgedTurn(TurnScore(compute_mean(decided), _explain_score(scores, rubrics), found)), decided


def _to_opinion(sample: Sample[RubricVerdicts]) -> Sample[JudgeOpinion]:
    scores = [verdict.score for _, verdict in sample.value if verdict.score is not None]
    why = "; ".join(verdict.rationale for _, verdict in sample.value if verdict.rationale)
    return Sample(sample.number, sample.answer, JudgeOpinion(compute_mean(scores), why), sample.attempts)


def _take_majority(verdicts: Sequence[RubricVerdict]) -> tuple[float | None, str]:
    """More yes than no is 1; a tie is 0; nothing decided is None. With the first reason of that side."""
    decided = [verdict for verdict in verdicts if verdict.score is not None]
    if not decided:
        return None, "the judge says neither yes nor no"
    yes = sum(verdict.score == 1.0 for verdict in decided)
    score = float(yes > len(decided) - yes)
    return score, next(verdict.rationale for verdict in decided if verdict.score == score)


def _explain_score(scores: Mapping[str, tuple[float | None, str]], rubrics: Mapping[str, str]) -> str:
    missed = [f"{rubrics[name]} – no: {why}" for name, (score, why) in scores.items() if score == 0.0]
    undecided = sum(score is None for score, _ in scores.values())
    told = "; ".join(missed)
    if undecided:
        told += (
            f"{'; ' if told else ''}{pluralize(undecided, 'rubric')} undecided, and left out as in Google ADK"
        )
    return told

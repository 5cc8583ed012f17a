"""Google ADK's rubric metrics: their options, the rubrics of a turn, and their weighted mean."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias, TypeVar

from pydantic import (
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)
from typing_extensions import override

from evalgate.config.schema.field_types import Weight
from evalgate.core.formatting import pluralize
from evalgate.core.means import compute_exact_mean, compute_mean, compute_weighted_mean
from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    Criterion,
    EvalCase,
    MetricFailure,
    Rubric,
    TurnScore,
)
from evalgate.integrations.adk.judging.answers import (
    JudgeOpinion,
    RubricVerdict,
    RubricVerdicts,
    build_rubric_parser,
)
from evalgate.integrations.adk.judging.judged_metric import (
    AdkOptions,
    JudgedMetric,
    ScoredTurn,
    build_details,
    build_failed_turn,
)
from evalgate.integrations.adk.judging.prompts import collect_rubrics
from evalgate.llm.sampling import Sample, Samples
from evalgate.metrics.turnwise import Exchange

T = TypeVar("T")


class AdkRubricOptionContent(AdkOptions):
    """The text of a rubric."""

    text_property: str


class AdkRubricOption(AdkOptions):
    """A rubric in the options of a criterion; it applies to every case."""

    rubric_id: str
    rubric_content: AdkRubricOptionContent
    description: str | None = Field(default=None, exclude=True)
    type: str | None = Field(default=None, exclude=True)
    points: Weight = 1.0
    """Weight in the mean of the rubrics' scores."""

    @field_validator("points", mode="before")
    @classmethod
    def _default_points(cls, value: object) -> object:
        return 1.0 if value is None else value

    @model_serializer(mode="wrap")
    def _serialize_options(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Return the rubric's options as they are recorded; `points` are left out if they are 1, the default.

        A metric with `points: 1` in its options is thus recorded like a metric without `points`, so that
        their results can be compared.
        """
        values: dict[str, object] = serialize(self)
        return {key: value for key, value in values.items() if key != "points" or value != 1.0}


def _expand_criterion(number: int, rubric: object) -> object:
    """Convert a rubric `{criterion, points}`, as in Google ADK's guide, to the form that ADK itself reads.

    The rubric gets the id `criterion_<number>`; `number` is the rubric's position in the list, from 1. Return
    any other value unchanged.
    """
    if not isinstance(rubric, dict) or "criterion" not in rubric:
        return rubric
    rest = {key: value for key, value in rubric.items() if key != "criterion"}
    content = {"text_property": rubric["criterion"]}
    return {"rubric_id": f"criterion_{number}", "rubric_content": content, **rest}


class DuplicateRubricError(Exception):
    """Error for two rubrics with the same id: a verdict names the id, and could belong to either rubric."""


class RubricMetric(JudgedMetric):
    """A metric that scores the share of rubrics that hold, weighted by their points."""

    kind: ClassVar[str]
    """The type that a rubric of a case or turn must have to be judged by this metric."""

    rubrics: tuple[AdkRubricOption, ...] = ()
    """Rubrics that apply to every turn."""
    answers: Literal["adk<=2.5", "adk>=2.6"] = "adk>=2.6"
    """Releases of Google ADK to agree with; 2.6 changed how answers are read. Releases up to 2.5 use the
    rubrics of cases and turns only if the criterion has rubrics, too."""
    _takes_untyped: bool = PrivateAttr(default=False)
    """True if rubrics of cases and turns count even if they have no type."""

    @field_validator("rubrics", mode="before")
    @classmethod
    def _normalize_rubrics(cls, value: object) -> object:
        if not isinstance(value, (list, tuple)):
            return value
        return tuple(_expand_criterion(number, each) for number, each in enumerate(value, 1))

    @field_validator("rubrics")
    @classmethod
    def _refuse_repeated_ids(cls, rubrics: tuple[AdkRubricOption, ...]) -> tuple[AdkRubricOption, ...]:
        ids = [each.rubric_id for each in rubrics]
        for id_ in ids:
            if ids.count(id_) > 1:
                raise ValueError(f"must not give the id {id_!r} to two rubrics")
        return rubrics

    @override
    def bind_judge(self, context: MetricContext) -> None:
        super().bind_judge(context)
        # Google ADK ignores rubrics without a type; in evalgate's own thresholds files they count.
        self._takes_untyped = not context.is_literal

    def accepts_rubric(self, rubric: Rubric) -> bool:
        """Return True if a rubric of a case or a turn is meant for this metric.

        Return True for a rubric of the type `kind`. A rubric without a type is ignored by Google ADK.
        evalgate accepts it in two cases: the rubric has the field `points` (as an example in ADK's guide), or
        the metric's criterion is in a thresholds file of evalgate.
        """
        # Rubrics with points and without a type are a form of Google ADK's guide that no release reads.
        takes_untyped = self._takes_untyped or rubric.points is not None
        return rubric.type == self.kind or (takes_untyped and not rubric.type)

    def collect_points(self, case: EvalCase, exchange: Exchange) -> dict[str, float]:
        """Return the weight of each rubric, by id.

        All rubrics of the criterion count. Rubrics of the case and the turn count if they are meant for this
        metric.
        """
        own = {each.rubric_id: each.points for each in self.rubrics}
        written = [each for each in collect_rubrics(case, exchange) if self.accepts_rubric(each)]
        return own | {each.rubric_id: 1.0 if each.points is None else each.points for each in written}

    @override
    @classmethod
    def build_options(cls, criterion: Criterion, context: MetricContext) -> dict[str, object]:
        answers = "adk>=2.6" if context.adk_release >= (2, 6) else "adk<=2.5"
        return {"answers": answers, **criterion.options}

    def collect_rubric_texts(self, case: EvalCase, exchange: Exchange) -> dict[str, str]:
        """Return the texts of the rubrics that apply to a turn, by id; {} if no rubric applies.

        First come the criterion's rubrics, then the rubrics of the case and the turn that are meant for this
        metric. With the option `answers: adk<=2.5`, the result is {} if the criterion has no rubric.

        Raises:
            DuplicateRubricError: two of these rubrics have the same id. As in Google ADK, it is also raised
                if two rubrics of the case and the turn share an id, even if they are for other metrics.
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
        """Ask the judge for a verdict on each of `rubrics` (texts by id).

        A refusal, or an answer that cannot be parsed, becomes one of the `failed` samples.

        Raises:
            JudgeError: the judge fails in another way, for example because it cannot be reached.
        """
        release = (2, 6) if self.answers == "adk>=2.6" else (2, 3)
        # The judge copies each rubric behind `Property:`, and an answer is read line by line.
        lines = {name: " ".join(text.split()) for name, text in rubrics.items()}
        listed = "\n".join(f"* {line}" for line in lines.values())
        return await self.ask_judge(build_rubric_parser(lines, release), {**material, "rubrics": listed})


def _require_unique_ids(rubrics: Sequence[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in rubrics:
        if name in found:
            raise DuplicateRubricError(f"two rubrics have the id {name!r}: give each its own")
        found[name] = text
    return found


WeightedScores: TypeAlias = Sequence[tuple[float, float | None]]
"""Pairs (score, points) of rubrics. A turn that is missing or unexpected is the pair (0.0, None)."""


def score_turn_by_rubrics(
    samples: Samples[RubricVerdicts], rubrics: Mapping[str, str], points: Mapping[str, float]
) -> tuple[ScoredTurn, WeightedScores]:
    """Score a turn. Return the scored turn, and a pair (score, points) for each rubric with a verdict.

    As in Google ADK, a rubric has no verdict if no sample answers yes or no to it. If no sample is usable,
    the turn has no score.
    """
    opinions = Samples(tuple(map(_to_opinion, samples.good)), samples.failed)
    if not samples.good:
        return build_failed_turn(opinions), ()
    pairs = [each for verdicts in samples.values for each in verdicts]
    scores = {name: _take_majority([verdict for own, verdict in pairs if own == name]) for name in rubrics}
    decided = tuple((score, points[name]) for name, (score, _) in scores.items() if score is not None)
    is_weighted = len(set(points.values())) > 1
    found = {
        **build_details(opinions),
        "rubrics": [
            {"id": name, "text": rubrics[name], "score": score, "reason": why}
            | ({"points": points[name]} if is_weighted else {})
            for name, (score, why) in scores.items()
        ],
    }
    mean = compute_rubric_mean(decided, compute_mean)
    return ScoredTurn(TurnScore(mean, _explain_score(scores, rubrics), found)), decided


def compute_rubric_mean(scores: WeightedScores, plain_mean: Callable[[Sequence[float]], float]) -> float:
    """Return the mean of the rubrics' scores, weighted by their points.

    A score without points (None) has the average weight of the other scores. If all points are equal,
    `plain_mean` computes the result: it rounds as Google ADK, which has no points, does for this metric.
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
    """Return the score of the majority, and the first reason of a verdict with this score.

    The score is 1.0 if more verdicts are yes than no, otherwise 0.0. The score is None if no verdict is yes
    or no.
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

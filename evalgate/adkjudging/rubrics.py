"""Scoring by rubrics: a verdict on each, by majority over the samples."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr, field_validator

from evalgate.adkjudging.answers import Opinion, Verdict, Verdicts, rubric_verdicts
from evalgate.adkjudging.exchanges import Exchange, all_rubrics
from evalgate.adkjudging.options import AdkOptions, JudgedMetric
from evalgate.adkjudging.turns import JudgedTurn, details, failed
from evalgate.judge.sampling import Sample, Samples
from evalgate.model import Criterion, EvalCase, MetricFailed, Rubric, TurnScore
from evalgate.numbers import counted, mean
from evalgate.protocols import MetricContext


class RubricContent(AdkOptions):
    """What a rubric says."""

    text_property: str


class RubricOption(AdkOptions):
    """A rubric of the criterion."""

    rubric_id: str
    rubric_content: RubricContent
    description: str | None = Field(default=None, exclude=True)
    type: str | None = Field(default=None, exclude=True)


def _spelt_out(number: int, rubric: object) -> object:
    """A rubric as Google ADK's guide shows it, `{criterion, points}`, in the form that its releases read."""
    if not isinstance(rubric, dict) or "criterion" not in rubric:
        return rubric
    rest = {key: value for key, value in rubric.items() if key not in {"criterion", "points"}}
    content = {"text_property": rubric["criterion"]}
    return {"rubric_id": f"criterion_{number}", "rubric_content": content, **rest}


class TwiceTheSameRubric(Exception):
    """Two rubrics have one id: which of them an answer speaks of cannot be known."""


class RubricMetric(JudgedMetric):
    """A metric whose score is the share of rubrics that hold."""

    kind: ClassVar[str]
    """The type of the rubrics of cases and turns that it judges by."""

    rubrics: tuple[RubricOption, ...] = ()
    """Rubrics of every turn."""
    answers: Literal["adk<=2.5", "adk>=2.6"] = "adk>=2.6"
    """Which releases of Google ADK to agree with when answers are read."""
    _takes_untyped: bool = PrivateAttr(default=False)
    """Whether rubrics of cases and turns count that have no type."""

    @field_validator("rubrics", mode="before")
    @classmethod
    def _as_releases_read_them(cls, value: object) -> object:
        if not isinstance(value, (list, tuple)):
            return value
        if len({str(each.get("points", 1)) for each in value if isinstance(each, dict)}) > 1:
            raise ValueError("must all have the same `points`: as in Google ADK, each counts once")
        return tuple(_spelt_out(number, each) for number, each in enumerate(value, 1))

    def take(self, context: MetricContext) -> None:
        """See the base. Google ADK passes over rubrics without a type; a thresholds file of ours does not."""
        super().take(context)
        self._takes_untyped = not context.is_literal

    def judges(self, rubric: Rubric) -> bool:
        """Return whether a rubric of a case or a turn is meant for this metric."""
        return rubric.type == self.kind or (self._takes_untyped and not rubric.type)

    @classmethod
    def options_of(cls, criterion: Criterion, context: MetricContext) -> dict[str, object]:
        """See the base."""
        answers = "adk>=2.6" if context.adk_release >= (2, 6) else "adk<=2.5"
        return {"answers": answers, **criterion.options}

    def texts(self, case: EvalCase, exchange: Exchange) -> dict[str, str]:
        """Rubric → text: the criterion's, then those of the case and the turn.

        Empty where there is none, or where the release looks at no others without one in the criterion.

        Raises:
            TwiceTheSameRubric: two have one id, also where only one of them is of the metric's kind.
        """
        written = all_rubrics(case, exchange)
        _once_each([(each.rubric_id, each.text) for each in written])
        if self.answers == "adk<=2.5" and not self.rubrics:
            return {}
        own = [(each.rubric_id, each.rubric_content.text_property) for each in self.rubrics]
        return _once_each(own + [(each.rubric_id, each.text) for each in written if self.judges(each)])

    def no_rubrics(self) -> MetricFailed:
        """There is nothing to judge by."""
        elsewhere = f", or rubrics of type {self.kind} with the case"
        if self.answers == "adk<=2.5":
            elsewhere = ", without which releases of Google ADK before 2.6 look at no others"
        return MetricFailed(f"there is no rubric to judge by: give `rubrics` in the criterion{elsewhere}")

    async def verdicts(self, rubrics: Mapping[str, str], material: Mapping[str, str]) -> Samples[Verdicts]:
        """What the samples say of the rubrics."""
        release = (2, 6) if self.answers == "adk>=2.6" else (2, 3)
        listed = "\n".join(f"* {text}" for text in rubrics.values())
        return await self.ask(rubric_verdicts(rubrics, release), {**material, "rubrics": listed})


def _once_each(rubrics: Sequence[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in rubrics:
        if name in found:
            raise TwiceTheSameRubric(f"two rubrics have the id {name!r}: give each its own")
        found[name] = text
    return found


def judged_by_rubrics(
    samples: Samples[Verdicts], rubrics: Mapping[str, str]
) -> tuple[JudgedTurn, tuple[float, ...]]:
    """The turn, and the scores of its rubrics; one that no sample decides has none, as in Google ADK."""
    opinions = Samples(tuple(map(_as_opinion, samples.good)), samples.failed)
    if not samples.good:
        return failed(opinions), ()
    said = [each for verdicts in samples.values for each in verdicts]
    scores = {name: _majority([verdict for own, verdict in said if own == name]) for name in rubrics}
    decided = tuple(score for score, _ in scores.values() if score is not None)
    found = {
        **details(opinions),
        "rubrics": [
            {"id": name, "text": rubrics[name], "score": score, "reason": why}
            for name, (score, why) in scores.items()
        ],
    }
    return JudgedTurn(TurnScore(mean(decided), _reason(scores, rubrics), found)), decided


def _as_opinion(sample: Sample[Verdicts]) -> Sample[Opinion]:
    scores = [verdict.score for _, verdict in sample.value if verdict.score is not None]
    why = "; ".join(verdict.rationale for _, verdict in sample.value if verdict.rationale)
    return Sample(sample.number, sample.answer, Opinion(mean(scores), why), sample.attempts)


def _majority(verdicts: Sequence[Verdict]) -> tuple[float | None, str]:
    """More yes than no is 1; a tie is 0; nothing decided is None. With the first reason of that side."""
    decided = [verdict for verdict in verdicts if verdict.score is not None]
    if not decided:
        return None, "the judge says neither yes nor no"
    yes = sum(verdict.score == 1.0 for verdict in decided)
    score = float(yes > len(decided) - yes)
    return score, next(verdict.rationale for verdict in decided if verdict.score == score)


def _reason(scores: Mapping[str, tuple[float | None, str]], rubrics: Mapping[str, str]) -> str:
    missed = [f"{rubrics[name]} – no: {why}" for name, (score, why) in scores.items() if score == 0.0]
    undecided = sum(score is None for score, _ in scores.values())
    told = "; ".join(missed)
    if undecided:
        told += (
            f"{'; ' if told else ''}{counted(undecided, 'rubric')} undecided, and left out as in Google ADK"
        )
    return told

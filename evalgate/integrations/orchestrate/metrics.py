"""The metrics of journeys: goals of a whole conversation, which a model or a literal comparison judges.

The details of a score hold the counts from which it was computed, except for `KeywordMatch`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict
from typing_extensions import override

from evalgate.core.frozen import frozen
from evalgate.core.protocols import Metric, MetricContext
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    JsonObject,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
)
from evalgate.integrations.orchestrate.journey.outcome import (
    JourneyOutcome,
    LiteralTextJudge,
    TextJudge,
    evaluate_journey,
)
from evalgate.llm.client import ChatMessage, ModelClient, ModelRequest
from evalgate.llm.judge_resolver import Judge, get_judge_resolver
from evalgate.llm.prompt_templates import load_prompt
from evalgate.llm.sampling import take_samples
from evalgate.llm.verdicts import VERDICT_SCHEMA, parse_verdict
from evalgate.metrics.tool_call_matching import TOO_DEEP

PROMPTS = ("orchestrate_keywords", "orchestrate_text", "orchestrate_check")
_LETTERS = LiteralTextJudge()


@dataclass(slots=True)
class ModelTextJudge:
    """A model that judges the texts of one conversation; implements `journey.outcome.TextJudge`."""

    client: ModelClient
    samples: int = 1
    """Number of answers to each question. The majority counts, and a tie is a no."""
    context: str = ""
    """The first message of the user, which the model sees when it compares two texts."""
    verdicts: list[JsonObject] = field(default_factory=list)
    """Every question that was asked, with its answers, for the record."""

    async def holds_keywords(self, keywords: Sequence[str], text: str) -> bool | None:
        """Return True if all keywords occur literally, or the model finds that they occur; else False.

        Raises:
            JudgeError: the model returns no verdict.
        """
        if await _LETTERS.holds_keywords(keywords, text):
            return True
        filled = load_prompt(PROMPTS[0]).render_text(keywords=list(keywords), text=text)
        return await self._ask_judge(PROMPTS[0], filled, {"keywords": list(keywords)})

    async def matches_text(self, expected: str, text: str) -> bool | None:
        """Return True if the texts are equal apart from case and white space, or mean the same to the model.

        Raises:
            JudgeError: the model returns no verdict.
        """
        if await _LETTERS.matches_text(expected, text):
            return True
        filled = load_prompt(PROMPTS[1]).render_text(expected=expected, text=text, context=self.context)
        return await self._ask_judge(PROMPTS[1], filled, {"expected": expected})

    async def confirms_check(self, check: str, transcript: str) -> bool | None:
        """Return True if the model finds that the check holds for the transcript, else False.

        Raises:
            JudgeError: the model returns no verdict.
        """
        filled = load_prompt(PROMPTS[2]).render_text(check=check, transcript=transcript)
        return await self._ask_judge(PROMPTS[2], filled, {"check": check})

    async def _ask_judge(self, name: str, text: str, about: JsonObject) -> bool:
        request = ModelRequest(
            (ChatMessage("user", text),),
            answer_schema=VERDICT_SCHEMA,
            prompt_version=load_prompt(name).version,
        )
        samples = await take_samples(self.client, request, self.samples, parse_verdict)
        opinions = samples.require_values()
        approvals = sum(opinion.verdict for opinion in opinions)
        verdict = approvals > len(opinions) - approvals
        rows = samples.to_rows(lambda opinion: (float(opinion.verdict), opinion.reason))
        self.verdicts.append({**about, "verdict": verdict, "samples": rows})
        return verdict


class JourneyMetric(BaseModel, ABC):
    """A metric that scores a conversation by the goals of its case, as watsonx Orchestrate 1.6.9 does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reads_texts: ClassVar[bool] = True
    """False if the score does not depend on texts, so that no judge is needed."""

    responses: Literal["judged", "exact"] = "judged"
    """Rule for an expected response if no text equals it, apart from case and white space. `judged`: ask the
    judge; without a judge, the goal's keywords decide, and a goal without keywords stays undecided. `exact`:
    count the goal as not reached, and ask no judge at all."""
    judge_model: str = ""
    """Name of the model that judges. "": the judge of the run."""
    num_samples: Annotated[int, Strict()] = Field(default=1, ge=1, le=100)
    """Number of answers that the judge returns to each question; the majority counts."""

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Metric:
        """Build the metric. It has a judge if one is configured and the score can depend on a judge.

        Raises:
            ValidationError: an option is unknown or wrong.
            JudgeNotConfiguredError: `judge_model` names a model that cannot be resolved.
        """
        metric, judges = cls.model_validate(criterion.options), context.judges
        if not cls.reads_texts or metric.responses == "exact" or judges is None:
            return metric
        if judges.config is None and not metric.judge_model:
            return metric
        return JudgedJourneyMetric(metric, get_judge_resolver(judges).resolve_judge(metric.judge_model))

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1], judged literally, without a model.

        The result is not applicable if one of these statements is true:

        - The case has no journey.
        - The score depends on a text or check that only a judge can decide.
        - The journey has no goal that the metric counts. `JourneySuccess` has a score even then.

        The metric fails if arguments of a call nest too deep.
        """
        return await self.score_with_judge(
            case, run, LiteralTextJudge(leaves_differences_undecided=self.responses == "judged")
        )

    async def score_with_judge(self, case: EvalCase, run: CaseRun, judge: TextJudge) -> MetricResult:
        """Return the score in [0, 1]. `judge` compares the texts.

        The result is not applicable if one of these statements is true:

        - The case has no journey.
        - The score depends on a text or check that `judge` leaves undecided.
        - The journey has no goal that the metric counts. `JourneySuccess` has a score even then.

        The metric fails if arguments of a call nest too deep.

        Raises:
            JudgeError: `judge` asks a model, which returns no verdict.
        """
        if case.journey is None:
            return NotApplicable("the case has no journey: its source names no goals")
        try:
            return self.score_outcome(await evaluate_journey(case, run, case.journey, judge))
        except RecursionError:
            return MetricFailure(TOO_DEEP)

    @abstractmethod
    def score_outcome(self, outcome: JourneyOutcome) -> MetricResult:
        """Compute the score from the result of every goal."""


@frozen
class JudgedJourneyMetric:
    """A metric of journeys together with the model that judges its texts."""

    metric: JourneyMetric
    judge: Judge

    @property
    def judged_by(self) -> JsonObject:
        """Return the judge's identity and the versions of the prompts, for the record of the run."""
        return {**self.judge.identity, "prompt": [load_prompt(name).version for name in PROMPTS]}

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1].

        The result is not applicable if the case has no journey, or if the journey has no goal that the metric
        counts. `JourneySuccess` has a score even without such a goal. The metric fails if arguments of a call
        nest too deep.

        Raises:
            JudgeError: the judge returns no verdict.
        """
        messages = run.said or [turn.user for turn in case.turns]
        context = messages[0].text if messages else ""
        judge = ModelTextJudge(self.judge.client, self.metric.num_samples, context)
        result = await self.metric.score_with_judge(case, run, judge)
        if isinstance(result, MetricScore) and judge.verdicts:
            return replace(result, details={**(result.details or {}), "judged": judge.verdicts})
        return result


class JourneySuccess(JourneyMetric):
    """1.0 when the journey's goals were reached in the required order and all checks hold; else 0.0.

    Only goals that the journey's `order` names must be reached. A journey in which no goal was reached scores
    0.0, even if it has only checks and these hold. The metric is not applicable if the score depends on a
    text or check that only a judge can decide.
    """

    @override
    def score_outcome(self, outcome: JourneyOutcome) -> MetricResult:
        if failure := outcome.explain_failure(accept_undecided=True):
            return MetricScore(0.0, reason=failure, details=outcome.details)
        if outcome.explain_failure(accept_undecided=False):
            return NotApplicable(outcome.undecided)
        return MetricScore(1.0, details=outcome.details)


class JourneyCompletion(JourneyMetric):
    """Share of the goals that were reached, in any order, rounded to hundredths."""

    @override
    def score_outcome(self, outcome: JourneyOutcome) -> MetricResult:
        completion = outcome.compute_completion()
        if completion is None:
            return NotApplicable("the journey has no goal that can be reached")
        if outcome.undecided:
            return NotApplicable(outcome.undecided)
        reason = "" if completion == 1.0 else _describe_first_unreached(outcome)
        return MetricScore(completion, reason=reason, details=outcome.details)


def _describe_first_unreached(outcome: JourneyOutcome) -> str:
    if len(outcome.calls.reached) < outcome.calls.expected:
        return outcome.calls.reason
    for text in outcome.texts:
        if not text.is_reached:
            return f"no text is what the goal `{text.goal.name}` asks for"
    return "a widget was not shown, or a check does not hold"


class KeywordMatch(JourneyMetric):
    """1.0 when, for each goal with keywords, one text of the agent holds all of them; else 0.0."""

    @override
    def score_outcome(self, outcome: JourneyOutcome) -> MetricResult:
        asked = [text for text in outcome.texts if text.has_keywords is not None]
        if not asked:
            return NotApplicable("no goal names keywords")
        lacking = [text.goal.name for text in asked if not text.has_keywords]
        reason = f"no text holds all keywords of the goal `{lacking[0]}`" if lacking else ""
        return MetricScore(0.0 if lacking else 1.0, reason=reason)


class TextMatch(JourneyMetric):
    """1.0 when every goal that asks for a text was reached; else 0.0."""

    @override
    def score_outcome(self, outcome: JourneyOutcome) -> MetricResult:
        if not outcome.texts:
            return NotApplicable("no goal asks for a text")
        lacking = [text.goal.name for text in outcome.texts if text.is_reached is False]
        if lacking:
            return MetricScore(
                0.0, reason=f"no text is what the goal `{lacking[0]}` asks for", details=outcome.details
            )
        if any(text.is_reached is None for text in outcome.texts):
            return NotApplicable(outcome.undecided)
        unjudged = [text.goal.name for text in outcome.texts if not text.is_response_judged]
        reason = f"`{unjudged[0]}` was found by its keywords; its response was not judged" if unjudged else ""
        return MetricScore(1.0, reason=reason, details=outcome.details)


_NO_CALLS_EXPECTED = "no goal asks for a tool call"


class ToolCallPrecision(JourneyMetric):
    """Share of the calls that fulfilled a goal, rounded to hundredths; 0.0 without a call."""

    reads_texts = False

    @override
    def score_outcome(self, outcome: JourneyOutcome) -> MetricResult:
        return _build_result(outcome.calls.precision, outcome)


class ToolCallRecall(JourneyMetric):
    """Share of reached goals among the goals that ask for a tool call, rounded to hundredths."""

    reads_texts = False

    @override
    def score_outcome(self, outcome: JourneyOutcome) -> MetricResult:
        return _build_result(outcome.calls.recall, outcome)


def _build_result(score: float | None, outcome: JourneyOutcome) -> MetricResult:
    if score is None:
        return NotApplicable(_NO_CALLS_EXPECTED)
    return MetricScore(
        score, reason="" if score == 1.0 else outcome.calls.reason, details=outcome.calls.details
    )

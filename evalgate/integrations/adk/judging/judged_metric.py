"""Options and scores of Google ADK's judged metrics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
)
from pydantic.alias_generators import to_camel

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.means import compute_sequential_mean
from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    Criterion,
    JsonObject,
    Message,
    MetricResult,
    MetricScore,
    NotApplicable,
    TurnScore,
)
from evalgate.integrations.adk.config import GenerationConfig
from evalgate.integrations.adk.judging.answers import (
    JudgeOpinion,
)
from evalgate.llm.client import ChatMessage, ModelAnswer, ModelRequest
from evalgate.llm.errors import RANDOM_FAILURES, JudgeError
from evalgate.llm.judge_resolver import DefaultJudge, Judge, get_judge_resolver
from evalgate.llm.prompt_templates import Prompt, list_prompt_variables, load_prompt, read_user_prompt
from evalgate.llm.sampling import Samples, take_samples
from evalgate.metrics.turnwise import Exchange

T = TypeVar("T")

_DEFAULT_JUDGE = DefaultJudge("gemini-2.5-flash", "Google ADK")


class AdkOptions(BaseModel):
    """Options with keys in snake_case or camelCase, as Google ADK reads them."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class JudgeModelOptions(AdkOptions):
    """The model that judges, and the number of samples."""

    judge_model: str | None = Field(default=None, exclude=True)
    """Name of the model. None: the judge of the run. If the run has no judge either, criteria in a file of
    Google ADK use Google ADK's default model."""
    judge_model_config: GenerationConfig | None = Field(default=None, exclude=True)
    num_samples: int = Field(default=5, ge=1)
    """Number of answers that the judge is asked for, for each question."""
    parallelism_limit: int | None = Field(default=None, ge=1, exclude=True)
    """Read and not used: the judge's own `concurrency` limits all metrics together."""

    def get_config_changes(self) -> dict[str, object]:
        """Return `judge_model_config` as fields of `JudgeConfig`, which override those of the run's judge."""
        return self.judge_model_config.to_judge_changes() if self.judge_model_config else {}


class JudgedMetric(AdkOptions):
    """Base class of Google ADK's judged metrics: their options, and how they ask the judge."""

    prompt_names: ClassVar[tuple[str, ...]]
    """Names of prompts that come with evalgate; a user's own prompt replaces the first."""

    more_variables: ClassVar[frozenset[str]] = frozenset()
    """Variables that a user's own prompt may use besides those of evalgate's prompt."""

    judge_model_options: JudgeModelOptions = JudgeModelOptions()
    prompt: str | None = Field(default=None, exclude=True)
    """File of a prompt that replaces the first of `prompt_names`, relative to the thresholds file."""
    include_intermediate_responses_in_final: bool = False
    """True if the messages before the final response count as a part of the response."""

    _judge: Judge = PrivateAttr()
    _release: tuple[int, int] = PrivateAttr()
    """The release (major, minor) of Google ADK to agree with."""
    _prompts: tuple[Prompt, ...] = PrivateAttr()

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """Build the metric with its judge.

        Raises:
            ValidationError: an option is wrong.
            JudgeNotConfiguredError: no model is named.
            InvalidInputError: the prompt's file cannot be read, is no template, or uses unknown variables.
        """
        metric = cls.model_validate(cls.build_options(criterion, context))
        metric.bind_judge(context)
        return metric

    def bind_judge(self, context: MetricContext) -> None:
        """Resolve the judge, and load the prompts: the user's own, if the options name one, and evalgate's.

        Raises:
            ValidationError: a setting of the judge is wrong.
            JudgeNotConfiguredError: no model is named.
            InvalidInputError: the prompt's file cannot be read, is no template, or uses unknown variables.
        """
        options, resolver = self.judge_model_options, get_judge_resolver(context.judges)
        default = _DEFAULT_JUDGE if context.is_literal else None
        self._judge = resolver.resolve_judge(
            options.judge_model or "", default, **options.get_config_changes()
        )
        self._release = context.adk_release
        self._prompts = tuple(load_prompt(name) for name in self.prompt_names)
        if self.prompt is not None:
            path = context.locate(context.folder / self.prompt)
            known = list_prompt_variables(self.prompt_names[0]) | self.more_variables
            self._prompts = (read_user_prompt(path, self.prompt, known), *self._prompts[1:])

    @classmethod
    def build_options(cls, criterion: Criterion, context: MetricContext) -> dict[str, object]:
        """Return the values of the metric's fields: the criterion's options. Subclasses may add values."""
        del context
        return dict(criterion.options)

    @property
    def judged_by(self) -> JsonObject:
        """Return the judge's identity and the versions of the prompts, for the record of the run."""
        return {**self._judge.identity, "prompts": [each.version for each in self._prompts]}

    def get_response(self, exchange: Exchange) -> str:
        """Return the final response; "" if there is none.

        With `include_intermediate_responses_in_final`, the turn's earlier messages precede the response.
        """
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
        """Ask the judge with the prompt at index `at`, filled with `material`, and parse the answers.

        The prompt marks the material as data, in which the judge must not follow instructions. A refusal, or
        an answer that cannot be parsed, becomes one of the `failed` samples.

        Args:
            parse: Parses one answer; raises UnparsableAnswerError if that is impossible.
            material: Values of the prompt's variables.
            at: Index in `prompt_names`.
            samples: Number of answers; None: the number in the options.

        Raises:
            JudgeError: the judge fails in another way, for example because it cannot be reached.
        """
        template = self._prompts[at]
        text = template.render_text(**material)
        count = self.judge_model_options.num_samples if samples is None else samples
        request = ModelRequest((ChatMessage("user", text),), prompt_version=template.version)
        taken = await take_samples(self._judge.client, request, count, parse, are_all_needed=False)
        # If the judge fails, Google ADK from 2.8 on takes the mean of the other turns. Here the metric fails,
        # because an outage of the judge does not tell anything about the agent.
        for failed in taken.failed:
            if failed.failure.kind not in RANDOM_FAILURES:
                raise failed.failure
        return taken


@frozen
class ScoredTurn:
    """A turn's score. The details of the score hold the judge's samples."""

    score: TurnScore
    failure: JudgeError | None = None
    """The judge's failure, if it is the reason that the turn has no score; else None."""


def build_unjudged_turn(reason: str) -> ScoredTurn:
    """Build a turn without a score, for the given reason."""
    return ScoredTurn(TurnScore(None, reason))


def build_zero_turn(reason: str) -> ScoredTurn:
    """Build a turn with the score 0, for which the judge is not asked."""
    return ScoredTurn(TurnScore(0.0, reason))


def score_by_vote(samples: Samples[JudgeOpinion]) -> ScoredTurn:
    """Build a turn that scores 1.0 if more than half of the opinions score above 0, else 0.0.

    The turn has no score if no sample has an opinion.
    """
    if not samples.good:
        return build_failed_turn(samples)
    positive = [opinion for opinion in samples.values if opinion.score > 0]
    # A tie is lost, as in Google ADK; samples without an opinion do not vote.
    wins = len(positive) > len(samples.values) - len(positive)
    side = positive if wins else [opinion for opinion in samples.values if not opinion.score]
    says = "says" if len(samples.values) == 1 else "say"
    share = f"{len(side)} of {pluralize(len(samples.values), 'sample')} {says} so"
    reason = f"{share}: {side[0].reason}" if side[0].reason else share
    return ScoredTurn(TurnScore(float(wins), reason, build_details(samples)))


def score_by_mean(samples: Samples[JudgeOpinion]) -> ScoredTurn:
    """Build a turn with the mean of the opinions' scores, and the reason of the opinion nearest to the mean.

    The turn has no score if no sample has an opinion.
    """
    if not samples.good:
        return build_failed_turn(samples)
    scores = [opinion.score for opinion in samples.values]
    mean = compute_sequential_mean(scores)
    nearest = min(samples.values, key=lambda opinion: abs(opinion.score - mean))
    return ScoredTurn(TurnScore(mean, nearest.reason, build_details(samples)))


def build_failed_turn(samples: Samples[JudgeOpinion]) -> ScoredTurn:
    """Build a turn without a score, because no answer of the judge is usable."""
    failure = samples.failed[0].failure
    return ScoredTurn(TurnScore(None, str(failure), build_details(samples)), failure)


def build_details(samples: Samples[JudgeOpinion]) -> JsonObject:
    """Return the score and reason of each sample, and the agreement of the samples.

    The agreement is the share of pairs of samples with equal scores. It is left out if fewer than two samples
    have a score. A failed sample has no score.
    """
    return samples.build_details(lambda opinion: (opinion.score, opinion.reason))


def compute_mean_result(
    turns: Sequence[ScoredTurn],
    *,
    nothing: str,
    mean: Callable[[Sequence[float]], float] = compute_sequential_mean,
) -> MetricResult:
    """Average the scores of the turns, as Google ADK does. Turns without a score are left out.

    If no turn has a score, the result is not applicable. Its reason is the first reason of a turn, or
    `nothing` if no turn has a reason. `mean` computes the average, since metrics differ in the rounding.

    Raises:
        JudgeError: no turn has a score, and the judge failed on one of the turns.
    """
    scores = [turn.score.score for turn in turns if turn.score.score is not None]
    if not scores:
        if failure := next((turn.failure for turn in turns if turn.failure), None):
            raise failure
        return NotApplicable(next((turn.score.reason for turn in turns if turn.score.reason), nothing))
    return MetricScore(mean(scores), tuple(turn.score for turn in turns), find_worst_reason(turns))


def build_conversation_result(turn: ScoredTurn, turns: int) -> MetricResult:
    """Build the result of a metric that judges a conversation of `turns` turns as a whole.

    `turn` holds the judge's score, which is recorded at the last turn. If `turn` has no score, the result is
    not applicable.

    Raises:
        JudgeError: there is no score because the judge failed.
    """
    if turn.score.score is None:
        if turn.failure:
            raise turn.failure
        return NotApplicable(turn.score.reason)
    earlier = (TurnScore(None, "the conversation is judged as a whole"),) * (turns - 1)
    return replace(MetricScore(turn.score.score, (*earlier, turn.score)), reason=turn.score.reason)


def find_worst_reason(turns: Sequence[ScoredTurn]) -> str:
    """Return the reason of the turn with the lowest score. At least one turn must have a score.

    If there are several turns, the number of the turn (from 1) precedes the reason.
    """
    judged = [(at, turn.score) for at, turn in enumerate(turns, 1) if turn.score.score is not None]
    at, worst = min(judged, key=lambda pair: pair[1].score or 0.0)
    return f"turn {at}: {worst.reason}" if len(turns) > 1 and worst.reason else worst.reason

"""The six trajectory metrics of Google ADK's guide, with the names that they have in Vertex AI.

Source: "Why evaluate agents" in https://google.github.io/adk-docs/evaluate/ and "Trajectory evaluation" in
https://cloud.google.com/vertex-ai/generative-ai/docs/models/evaluation-agents. Both pages define the metrics
in words for one trajectory. Here each turn has a trajectory, and a case's score is the mean over its turns.
Only `trajectory_single_tool_use` scores the conversation as a whole.

Here an expected call matches at most one actual call; the sources leave this open. If the agent repeats an
expected call, the second call therefore counts as unexpected.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from typing_extensions import override

from evalgate.core.means import compute_mean
from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    MetricFailure,
    MetricResult,
    MetricScore,
    ToolCall,
    TurnScore,
)
from evalgate.metrics.tool_call_matching import TOO_DEEP, ToolCallComparator, format_call
from evalgate.metrics.turnwise import compute_turn_mean


class _TrajectoryOptions(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(validation_alias=to_camel),
        populate_by_name=True,
    )

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """Build the metric from the options of `criterion`; `context` is not used.

        Raises:
            ValidationError: an option is wrong.
        """
        del context
        return cls.model_validate(criterion.options)


class _TrajectoryMetric(_TrajectoryOptions):
    compares_with: ClassVar[Literal["response", "tools"]] = "tools"
    is_mean_of_turns: ClassVar[Literal[True]] = True

    ignore_args: bool = False
    """True: compare only the names of calls. False: compare the arguments, too."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1], the mean over the turns.

        A turn that is missing or unexpected scores 0.0. The result is not applicable for a case without
        turns, such as a case with a simulated user. The metric fails if arguments nest too deep.
        """
        try:
            return await compute_turn_mean(
                case,
                run,
                lambda turn, reply: self.score_calls(turn.expected.tool_calls, reply.tool_calls),
                mean=compute_mean,
            )
        except RecursionError:
            return MetricFailure(TOO_DEEP)

    def score_calls(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> TurnScore:
        """Return the score of one turn, in [0, 1], from its expected and actual calls."""
        raise NotImplementedError

    @property
    def _comparison(self) -> ToolCallComparator:
        return ToolCallComparator(self.ignore_args)

    def _score_matched_share(
        self, calls: Sequence[ToolCall], others: Sequence[ToolCall], fault: str
    ) -> TurnScore:
        """Return the share, in [0, 1], of `calls` that match a call of `others`. `calls` must not be empty.

        `fault` says what is wrong with calls without a match, such as "calls were not expected" in the reason
        "2 of 5 calls were not expected".
        """
        rest = self._comparison.find_unmatched_calls(calls, others)
        share = (len(calls) - len(rest)) / len(calls)
        if not rest:
            return TurnScore(share)
        return TurnScore(share, f"{len(rest)} of {len(calls)} {fault}, first {format_call(calls[rest[0]])}")


def _score_all_or_nothing(divergence: str) -> TurnScore:
    return TurnScore(0.0, divergence) if divergence else TurnScore(1.0)


class TrajectoryExactMatch(_TrajectoryMetric):
    """1.0 when the agent made the expected calls in the expected order and no other, else 0.0."""

    @override
    def score_calls(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> TurnScore:
        return _score_all_or_nothing(self._comparison.compare_exact(expected, actual))


class TrajectoryInOrderMatch(_TrajectoryMetric):
    """1.0 when the agent made all expected calls in the expected order, others allowed, else 0.0."""

    allows_extra_calls: ClassVar[bool] = True

    @override
    def score_calls(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> TurnScore:
        return _score_all_or_nothing(self._comparison.compare_in_order(expected, actual))


class TrajectoryAnyOrderMatch(_TrajectoryMetric):
    """1.0 when the agent made all expected calls in any order, others allowed, else 0.0."""

    allows_extra_calls: ClassVar[bool] = True

    @override
    def score_calls(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> TurnScore:
        return _score_all_or_nothing(self._comparison.compare_any_order(expected, actual))


class TrajectoryPrecision(_TrajectoryMetric):
    """Share of the agent's calls that were expected.

    If the agent made no call, the score is 1.0 if none was expected, else 0.0.
    """

    @override
    def score_calls(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> TurnScore:
        if not actual:
            return TurnScore(0.0, "the agent called no tool") if expected else TurnScore(1.0)
        return self._score_matched_share(actual, expected, "calls were not expected")


class TrajectoryRecall(_TrajectoryMetric):
    """Share of the expected calls that the agent made, averaged over the turns; 1.0 if none was expected."""

    allows_extra_calls: ClassVar[bool] = True

    @override
    def score_calls(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> TurnScore:
        if not expected:
            return TurnScore(1.0)
        return self._score_matched_share(expected, actual, "expected calls are missing")


class TrajectorySingleToolUse(_TrajectoryOptions):
    """1.0 when the agent called the tool at least once in the conversation, else 0.0.

    The option `tool_name` names the tool. The case's expected calls are ignored. The turn and the number of
    the calls do not matter.
    """

    tool_name: str = Field(min_length=1)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return 0.0 or 1.0 for the whole conversation."""
        del case
        replies = [reply for reply in run.replies if reply is not None]
        if any(call.name == self.tool_name for reply in replies for call in reply.tool_calls):
            return MetricScore(1.0)
        return MetricScore(0.0, reason=f"the agent never called `{self.tool_name}`")

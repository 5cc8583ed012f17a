"""The registry of evaluators by name, and tRPC-Agent-Go's evaluators, implemented with evalgate's metrics."""

import math
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from numbers import Real
from typing import Any

from pydantic import ValidationError

from evalgate.api.arguments import require_text
from evalgate.api.trpc.criteria import EvalMetric
from evalgate.api.trpc.datasets import Invocation
from evalgate.api.trpc.errors import NotFoundError
from evalgate.api.trpc.protocols import Evaluator
from evalgate.api.trpc.requests import EvaluateResult, PerInvocationDetails, PerInvocationResult
from evalgate.api.trpc.results import EvalStatus, RubricScore, parse_status
from evalgate.config.schema.thresholds import NEWEST_ADK
from evalgate.core import plugin_registry
from evalgate.core.did_you_mean import NEARLY_EQUAL, did_you_mean
from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.means import compute_sequential_mean
from evalgate.core.protocols import MetricContext, ProvidesJudges
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    Criterion,
    EvalCase,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    TurnScore,
    UserMessage,
)
from evalgate.documents.validation_errors import translate_validation_error
from evalgate.integrations.trpc.file_models import TrpcInvocation
from evalgate.integrations.trpc.metrics_file import EVALUATORS
from evalgate.integrations.trpc.value_criteria import describe_mismatch
from evalgate.llm.judge_resolver import JudgeNotConfiguredError

_PREFIX = "trpc/"
_judges: ContextVar[ProvidesJudges | None] = ContextVar("_judges", default=None)


class EvaluatorError(EvalgateError):
    """Error of a run that cannot be scored. The case fails, and the text of this error is the reason."""


@contextmanager
def provide_judges(judges: ProvidesJudges) -> Iterator[None]:
    """Let built-in evaluators get their judge models from `judges` within the `with` block."""
    token = _judges.set(judges)
    try:
        yield
    finally:
        _judges.reset(token)


class Registry:
    """Evaluators by name: those of tRPC-Agent-Go, and those that `register` adds.

    >>> sorted(Registry().list())[:2]
    ['final_response_avg_score', 'llm_final_response']
    """

    def __init__(self) -> None:
        self._evaluators: dict[str, Evaluator] = {name: BuiltInEvaluator(name) for name in EVALUATORS}

    def register(self, name: str, evaluator: Evaluator) -> None:
        """Add an evaluator under `name`. An evaluator that has this name is replaced.

        If `name` is "", `evaluator.name` is used.

        Raises:
            InvalidInputError: `evaluator` has no method `evaluate`, or the name is missing or no text.
        """
        if not callable(getattr(evaluator, "evaluate", None)) or isinstance(evaluator, type):
            raise InvalidInputError(f"`evaluator` is {evaluator!r}: it must be an object with `evaluate`")
        name = name or getattr(evaluator, "name", "")
        if not name:
            raise InvalidInputError("the evaluator has no name")
        require_text("name", name)
        self._evaluators[name] = evaluator

    def get(self, name: str) -> Evaluator:
        """Return the evaluator named `name`.

        Raises:
            NotFoundError: no evaluator has this name.
        """
        if name not in self._evaluators:
            hint = did_you_mean(name, list(self._evaluators))
            raise NotFoundError(f"no evaluator is registered as {name!r}.{hint}")
        return self._evaluators[name]

    def list(self) -> list[str]:
        """Return the names of all evaluators, sorted."""
        return sorted(self._evaluators)


class BuiltInEvaluator:
    """One of tRPC-Agent-Go's evaluators, implemented by evalgate's metric of the same name.

    Unlike in tRPC-Agent-Go, a turn without a score is `not_evaluated` and is left out of the mean.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """Return the name under which metrics refer to the evaluator."""
        return self._name

    @property
    def description(self) -> str:
        """Return the first line of the metric's documentation."""
        metric_type = plugin_registry.get_own_metric_type(_PREFIX + self._name)
        return (metric_type.__doc__ or "").partition("\n")[0]

    async def evaluate(
        self, actuals: Sequence[Invocation], expecteds: Sequence[Invocation], metric: EvalMetric
    ) -> EvaluateResult:
        """Score the actual turns by comparison with the same number of expected turns.

        Raises:
            InvalidInputError: the criterion is invalid, is meant for another evaluator, or names no usable
                judge model.
            EvaluatorError: the metric failed, or the numbers of actual and expected turns differ.
        """
        if len(actuals) != len(expecteds):
            raise EvaluatorError(f"{len(actuals)} actual turns cannot be compared with {len(expecteds)}")
        compare = _find_turn_comparer(self._name, metric)
        if compare is not None:
            result: MetricResult = _compare_turns(self._name, actuals, expecteds, compare)
        else:
            replies = tuple(_to_core(actual).to_reply() for actual in actuals)
            run = CaseRun(1, "answered", replies, said=tuple(map(_get_user, actuals)))
            result = await self._build_metric(metric).score(_build_case(actuals, expecteds), run)
        return _build_result(result, actuals, expecteds, metric.threshold)

    def check_metric(self, metric: EvalMetric) -> None:
        """Check that a metric can be evaluated. Call this before an agent is run.

        Raises:
            InvalidInputError: the criterion is invalid, is meant for another evaluator, or names no usable
                judge model.
        """
        self._build_metric(metric)

    def _build_metric(self, metric: EvalMetric) -> Any:
        options = metric.criterion.to_wire(functions=True) if metric.criterion else {}
        for kind in ("toolTrajectory", "finalResponse"):
            options.get(kind, {}).pop("compare", None)  # called by `evaluate`: metrics have no `Invocation`
        name = _PREFIX + self._name
        criterion = Criterion(metric.metric_name, metric.threshold, options, name)
        try:
            context = MetricContext(NEWEST_ADK, _judges.get())
            return plugin_registry.get_own_metric_type(name).build(criterion, context)
        except ValidationError as error:
            raise InvalidInputError(
                translate_validation_error(
                    error, file="", position=lambda _: (0, 0), prefix=(metric.metric_name, "criterion")
                )
            ) from None
        except JudgeNotConfiguredError as error:
            raise InvalidInputError(f"`{metric.metric_name}` is judged by a model; {error}") from None


def _find_turn_comparer(name: str, metric: EvalMetric) -> Callable[[Any, Any], object] | None:
    """Return the user's function that compares whole turns, or None if the criterion has none.

    The function is the field `compare` in the criterion of the evaluator `name`. It compares `Invocation`
    objects.
    """
    criterion = metric.criterion
    if criterion is None:
        return None
    if name == "tool_trajectory_avg_score" and criterion.tool_trajectory is not None:
        return criterion.tool_trajectory.compare
    if name == "final_response_avg_score" and criterion.final_response is not None:
        return criterion.final_response.compare
    return None


_MISMATCHES = {
    "tool_trajectory_avg_score": "tool trajectory mismatch",
    "final_response_avg_score": "final response mismatch",
}

_CRITERIA = {
    "tool_trajectory_avg_score": "ToolTrajectoryCriterion",
    "final_response_avg_score": "FinalResponseCriterion",
}


def _compare_turns(
    name: str,
    actuals: Sequence[Invocation],
    expecteds: Sequence[Invocation],
    compare: Callable[[Any, Any], object],
) -> MetricResult:
    turns = []
    for actual, expected in zip(actuals, expecteds, strict=True):
        # Copies, so that a user's function cannot change the turns for other metrics and for the results.
        pair = actual.model_copy(deep=True), expected.model_copy(deep=True)
        fault = describe_mismatch(compare, *pair, criterion=_CRITERIA[name])
        turns.append(TurnScore(0.0, f"{_MISMATCHES[name]}: {fault}") if fault else TurnScore(1.0))
    if not turns:
        return NotApplicable("there are no turns to compare")
    return MetricScore(compute_sequential_mean([turn.score or 0.0 for turn in turns]), tuple(turns))


def _build_case(actuals: Sequence[Invocation], expecteds: Sequence[Invocation]) -> EvalCase:
    turns = tuple(
        CaseTurn(_get_user(actual), _to_core(expected).to_reply(), execution=actual.execution_trace)
        for actual, expected in zip(actuals, expecteds, strict=True)
    )
    context = actuals[0].context_messages if actuals else []
    return EvalCase("", turns, context_messages=tuple(message.to_wire() for message in context))


def _get_user(turn: Invocation) -> UserMessage:
    return UserMessage(turn.user_content.content if turn.user_content else "")


def _to_core(turn: Invocation) -> TrpcInvocation:
    return TrpcInvocation.model_validate(turn.to_wire())


def _build_result(
    result: MetricResult, actuals: Sequence[Invocation], expecteds: Sequence[Invocation], threshold: float
) -> EvaluateResult:
    match result:
        case MetricFailure(reason=reason):
            raise EvaluatorError(reason)
        case NotApplicable(reason=reason):
            turns: Sequence[TurnScore] = [TurnScore(None, reason)] * len(actuals)
            score = None
        case MetricScore():
            turns, score = result.turns, result.score
    found = [
        PerInvocationResult(
            actual, expected, turn.score or 0.0, decide_status(turn.score, threshold), _build_details(turn)
        )
        for actual, expected, turn in zip(actuals, expecteds, turns, strict=True)
    ]
    return EvaluateResult(score or 0.0, decide_status(score, threshold), found)


def _build_details(turn: TurnScore) -> PerInvocationDetails:
    items: Any = (turn.details or {}).get("rubric_scores", ())
    rubrics = [RubricScore(id=item["id"], reason=item["reason"], score=item["score"]) for item in items]
    return PerInvocationDetails(turn.reason, turn.score or 0.0, rubrics)


def decide_status(score: float | None, threshold: float) -> EvalStatus:
    """Return "not_evaluated" if the score is None, "passed" if it reaches the threshold, else "failed"."""
    if score is None:
        return "not_evaluated"
    return "passed" if score >= threshold else "failed"


async def run_evaluator(
    evaluator: Evaluator, actuals: Sequence[Invocation], expecteds: Sequence[Invocation], metric: EvalMetric
) -> EvaluateResult:
    """Call an evaluator and return its result. The evaluator may be asynchronous.

    An evaluator of the user gets copies of the turns and of the metric.

    Raises:
        EvaluatorError: the evaluator did not return a result for each turn. Or it returned a score that is no
            finite number, or an unknown status.
        Exception: the evaluator raised it.
    """
    if not isinstance(evaluator, BuiltInEvaluator):
        actuals = [turn.model_copy(deep=True) for turn in actuals]
        expecteds = [turn.model_copy(deep=True) for turn in expecteds]
        metric = metric.model_copy(deep=True)
    result = evaluator.evaluate(actuals, expecteds, metric)
    if isinstance(result, Awaitable):
        result = await result
    if not isinstance(result, EvaluateResult):
        raise EvaluatorError(f"the evaluator returned {type(result).__name__} and no EvaluateResult")
    turns = result.per_invocation_results
    if len(turns) != len(actuals):
        raise EvaluatorError(f"the evaluator returned {len(turns)} results for {len(actuals)} turns")
    return EvaluateResult(
        _read_score(result.overall_score), _read_status(result.overall_status), list(map(_check_turn, turns))
    )


def _check_turn(turn: PerInvocationResult) -> PerInvocationResult:
    if not isinstance(turn, PerInvocationResult):
        raise EvaluatorError(f"the evaluator returned {type(turn).__name__} and no PerInvocationResult")
    details = turn.details
    if details is not None:
        details = replace(details, score=_read_score(details.score))
        for rubric in details.rubric_scores:
            _read_score(rubric.score)
    return replace(turn, score=_read_score(turn.score), status=_read_status(turn.status), details=details)


def _read_score(score: object) -> float:
    # `Real` instead of `float`, because it also covers numpy's numbers.
    if not isinstance(score, bool) and isinstance(score, Real) and math.isfinite(score):
        return float(score)
    raise EvaluatorError(f"the evaluator returned the score {score!r}: it must be a finite number")


def _read_status(status: object) -> EvalStatus:
    try:
        return parse_status(status)
    except ValueError as error:
        raise EvaluatorError(f"the evaluator returned {error}") from None


def warn_of_unknown_keys(metric: EvalMetric, evaluator: Evaluator) -> None:
    """Warn of unknown keys of a metric. A misspelt `threshold`, for example, would mean a threshold of 0.

    An evaluator of the user may read keys of its own. For such an evaluator, only keys that resemble a known
    key cause a warning.
    """
    known = list(EvalMetric.get_known_keys().values())
    for key in metric.model_extra or ():
        hint = did_you_mean(key, known, cutoff=NEARLY_EQUAL)
        if hint or isinstance(evaluator, BuiltInEvaluator):
            warnings.warn(
                f"the metric {metric.metric_name!r} has an unknown key {key!r}.{hint}", stacklevel=2
            )

"""Score one run of one case with every metric, as tRPC-Agent-Go's service does."""

from collections.abc import Sequence

from evalgate.api.trpc.criteria import Criterion, EvalMetric, LLMCriterion, Rubric
from evalgate.api.trpc.datasets import EvalCase, Invocation
from evalgate.api.trpc.evaluators import EvaluatorError, Registry, run_evaluator
from evalgate.api.trpc.requests import EvaluateResult, InferenceResult, PerInvocationResult
from evalgate.api.trpc.results import (
    EvalCaseResult,
    EvalMetricResult,
    EvalMetricResultDetails,
    EvalMetricResultPerInvocation,
    EvalStatus,
)
from evalgate.api.trpc.summaries import summarize_statuses


async def score_case_run(
    case: EvalCase, inference: InferenceResult, metrics: Sequence[EvalMetric], registry: Registry
) -> EvalCaseResult:
    """Score one run of a case with every metric, and return the result of the run.

    The result has the status "failed" and no scores in four situations: the inference failed, a metric
    failed, the number of turns differs from the expected number, or the case has rubrics for a metric that
    is missing or that no model judges.

    Raises:
        NotFoundError: a metric names an evaluator that is not registered.
    """
    result = EvalCaseResult(
        eval_set_id=inference.eval_set_id,
        eval_id=inference.eval_case_id,
        session_id=inference.session_id,
        user_id=inference.user_id,
    )
    if inference.status != "passed":
        result.final_eval_status, result.error_message = "failed", inference.error_message
        return result
    expecteds = _build_expected_turns(case)
    try:
        scored = await _score_metrics(case, inference.inferences, expecteds, metrics, registry)
    except EvaluatorError as error:
        result.final_eval_status, result.error_message = "failed", str(error)
        return result
    result.overall_eval_metric_results = [_build_overall(metric, found) for metric, found in scored]
    result.eval_metric_result_per_invocation = [
        EvalMetricResultPerInvocation(
            actual_invocation=actual,
            expected_invocation=expected,
            eval_metric_results=[
                _build_turn(metric, found.per_invocation_results[index]) for metric, found in scored
            ],
        )
        for index, (actual, expected) in enumerate(zip(inference.inferences, expecteds, strict=True))
    ]
    result.final_eval_status = summarize_statuses(found.overall_status for _, found in scored)
    result.score = 1.0 if result.final_eval_status == "passed" else 0.0
    return result


def _build_expected_turns(case: EvalCase) -> list[Invocation]:
    """Return the expected turns of a case.

    A case in trace mode without both `conversation` and `actual_conversation` has only recorded turns. Its
    expected turns have only the id and the user's message, because no reply is expected.
    """
    if case.eval_mode != "trace" or (case.conversation and case.actual_conversation):
        return case.conversation
    # Without expected replies, each turn has only the id and the user's message.
    return [
        Invocation(invocation_id=turn.invocation_id, user_content=turn.user_content)
        for turn in case.conversation or case.actual_conversation
    ]


async def _score_metrics(
    case: EvalCase,
    actuals: Sequence[Invocation],
    expecteds: Sequence[Invocation],
    metrics: Sequence[EvalMetric],
    registry: Registry,
) -> list[tuple[EvalMetric, EvaluateResult]]:
    if len(actuals) != len(expecteds):
        raise EvaluatorError(f"the inference has {len(actuals)} turns, and the case expects {len(expecteds)}")
    _check_rubrics(case, metrics)
    # Evaluators get the turns with the case's context messages; results store the turns without them.
    shown = [turn.model_copy(update={"context_messages": case.context_messages}) for turn in actuals]
    scored = []
    for metric in (_add_rubrics(each, case) for each in metrics):
        evaluator = registry.get(metric.evaluator_name or metric.metric_name)
        try:
            scored.append((metric, await run_evaluator(evaluator, shown, expecteds, metric)))
        except Exception as error:
            raise EvaluatorError(f"run evaluation for metric {metric.metric_name}: {error}") from error
    return scored


def _check_rubrics(case: EvalCase, metrics: Sequence[EvalMetric]) -> None:
    names = {metric.metric_name for metric in metrics}
    for rubric in case.rubrics:
        if rubric.metric_name not in names:
            raise EvaluatorError(f"the case has rubrics for {rubric.metric_name!r}, which is no metric")


def _add_rubrics(metric: EvalMetric, case: EvalCase) -> EvalMetric:
    """Return a copy of a metric to which the case's rubrics for the metric are added.

    If the case has no rubrics for the metric, return the metric itself.

    Raises:
        EvaluatorError: the case has rubrics for the metric, but no model judges the metric.
    """
    own = [
        Rubric(
            id=rubric.id or f"case_rubric_{number}",
            content=rubric.content,
            description=rubric.description,
            type=rubric.type,
        )
        for number, rubric in enumerate(case.rubrics, start=1)
        if rubric.metric_name == metric.metric_name
    ]
    if not own:
        return metric
    if metric.criterion is None or metric.criterion.llm_judge is None:
        raise EvaluatorError(f"the case has rubrics for {metric.metric_name!r}, which no model judges")
    copy = metric.model_copy(deep=True)
    criterion = copy.criterion or Criterion()
    criterion.llm_judge = criterion.llm_judge or LLMCriterion()
    criterion.llm_judge.rubrics += own
    return copy


def _build_overall(metric: EvalMetric, found: EvaluateResult) -> EvalMetricResult:
    details = [turn.details for turn in found.per_invocation_results if turn.details is not None]
    return _build_metric_result(
        metric,
        found.overall_score,
        found.overall_status,
        EvalMetricResultDetails(
            reason=";".join(each.reason for each in details),  # empty reasons included, as in tRPC-Agent-Go
            score=found.overall_score,
            rubric_scores=[rubric for each in details for rubric in each.rubric_scores],
        ),
    )


def _build_turn(metric: EvalMetric, turn: PerInvocationResult) -> EvalMetricResult:
    details = None
    if turn.details is not None:
        details = EvalMetricResultDetails(
            reason=turn.details.reason,
            score=turn.details.score,
            value={"kind": "numeric", "numeric": turn.details.score},
            rubric_scores=turn.details.rubric_scores,
        )
    return _build_metric_result(metric, turn.score, turn.status, details)


def _build_metric_result(
    metric: EvalMetric, score: float, status: EvalStatus, details: EvalMetricResultDetails | None
) -> EvalMetricResult:
    return EvalMetricResult(
        metric_name=metric.metric_name,
        score=score,
        eval_status=status,
        threshold=metric.threshold,
        criterion=_hide_key(metric.criterion),
        details=details,
    )


def _hide_key(criterion: Criterion | None) -> Criterion | None:
    """Return a copy of a criterion without the API key of the judge model. Results must not contain keys.

    If there is no judge model, return the criterion itself.
    """
    if criterion is None or criterion.llm_judge is None or criterion.llm_judge.judge_model is None:
        return criterion
    copy = criterion.model_copy(deep=True)
    if copy.llm_judge is not None and copy.llm_judge.judge_model is not None:
        copy.llm_judge.judge_model.api_key = ""
    return copy

"""A metric that gives its arguments to Google's functions and types, as metrics for `adk eval` do."""

from google.adk.evaluation.eval_case import get_all_tool_calls
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult
from google.adk.evaluation.trajectory_evaluator import TrajectoryEvaluator


def match_calls(eval_metric, actual_invocations, expected_invocations, conversation_scenario=None):
    evaluator = TrajectoryEvaluator(eval_metric=eval_metric)
    found = evaluator.evaluate_invocations(actual_invocations, expected_invocations)
    turns = []
    for actual, expected in zip(actual_invocations, expected_invocations):
        data = actual.intermediate_data
        (call,) = get_all_tool_calls(data)
        assert call == data.tool_uses[0] == data.invocation_events[0].content.parts[0].function_call
        score = float(call.args == expected.intermediate_data.tool_uses[0].args)
        turns.append(
            PerInvocationResult(
                actual_invocation=actual,
                expected_invocation=expected,
                score=score,
                eval_status=found.overall_eval_status,
            )
        )
    return EvaluationResult(
        overall_score=found.overall_score,
        overall_eval_status=found.overall_eval_status,
        per_invocation_results=turns,
    )

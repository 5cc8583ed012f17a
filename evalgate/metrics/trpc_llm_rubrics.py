"""`trpc/llm_rubric_response`, `…_critic` and `…_reference_critic`: which rubrics a response meets."""

from evalgate.trpcjudging.evaluator import RubricEvaluator


class TrpcLlmRubricResponse(RubricEvaluator):
    """Share of the rubrics that hold of each final response, averaged."""

    prompt_name = "trpc_rubric_response"
    more_variables = frozenset({"reference"})


class TrpcLlmRubricCritic(RubricEvaluator):
    """Share of the rubrics that hold of each final response, by a critic who has the expected one."""

    needs_reference = True
    prompt_name = "trpc_rubric_critic"


class TrpcLlmRubricReferenceCritic(RubricEvaluator):
    """Share of the rubrics that hold of each final response, measured by the expected one."""

    needs_reference = True
    prompt_name = "trpc_rubric_reference_critic"

"""The requests and results of the two phases of an evaluation, and of evaluators."""

from dataclasses import dataclass, field

from evalgate.api.trpc.criteria import EvalMetric
from evalgate.api.trpc.datasets import Invocation
from evalgate.api.trpc.results import EvalStatus, RubricScore


@dataclass
class InferenceRequest:
    """The cases to run the agent on.

    >>> InferenceRequest("math-eval-app", "math-basic").eval_case_ids
    []
    """

    app_name: str
    eval_set_id: str
    eval_case_ids: list[str] = field(default_factory=list)
    """Empty: all cases. Ids that the eval set does not have are refused."""


@dataclass
class InferenceResult:
    """The turns of the agent in one case.

    >>> InferenceResult("math-eval-app", "math-basic", "calc_add", status="passed").inferences
    []
    """

    app_name: str
    eval_set_id: str
    eval_case_id: str
    inferences: list[Invocation] = field(default_factory=list)
    """The actual turns; empty if the inference failed."""
    session_id: str = ""
    user_id: str = ""
    status: EvalStatus = "unknown"
    """`passed` if the agent answered every turn, else `failed`."""
    error_message: str = ""


@dataclass
class EvaluateConfig:
    """The metrics to score with.

    >>> EvaluateConfig([EvalMetric(metric_name="final_response_avg_score")]).eval_metrics[0].threshold
    0.0
    """

    eval_metrics: list[EvalMetric] = field(default_factory=list)


@dataclass
class EvaluateRequest:
    """The inference results to score.

    >>> EvaluateRequest("math-eval-app", "math-basic", []).evaluate_config.eval_metrics
    []
    """

    app_name: str
    eval_set_id: str
    inference_results: list[InferenceResult] = field(default_factory=list)
    evaluate_config: EvaluateConfig = field(default_factory=EvaluateConfig)


@dataclass
class PerInvocationDetails:
    """The reason of a turn's score, and the scores of rubrics.

    >>> PerInvocationDetails(reason="two words are missing", score=0.5).rubric_scores
    []
    """

    reason: str = ""
    score: float = 0.0
    rubric_scores: list[RubricScore] = field(default_factory=list)


@dataclass
class PerInvocationResult:
    """The score of one turn.

    >>> PerInvocationResult(Invocation(), Invocation(), score=1.0, status="passed").status
    'passed'
    """

    actual_invocation: Invocation | None = None
    expected_invocation: Invocation | None = None
    score: float = 0.0
    status: EvalStatus = "not_evaluated"
    details: PerInvocationDetails | None = None


@dataclass
class EvaluateResult:
    """The scores of an evaluator: a result for each turn, and the score of the whole run.

    >>> EvaluateResult(overall_score=1.0, overall_status="passed").per_invocation_results
    []
    """

    overall_score: float = 0.0
    overall_status: EvalStatus = "not_evaluated"
    per_invocation_results: list[PerInvocationResult] = field(default_factory=list)

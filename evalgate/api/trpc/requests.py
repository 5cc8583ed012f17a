"""Requests and results of the two phases of an evaluation (inference, scoring), and results of evaluators."""

from dataclasses import dataclass, field

from evalgate.api.trpc.criteria import EvalMetric
from evalgate.api.trpc.datasets import Invocation
from evalgate.api.trpc.results import EvalStatus, RubricScore


@dataclass
class InferenceRequest:
    """The app, the eval set and the cases to run the agent on.

    >>> InferenceRequest("math-eval-app", "math-basic").eval_case_ids
    []
    """

    app_name: str
    eval_set_id: str
    eval_case_ids: list[str] = field(default_factory=list)
    """Ids of the cases to run; empty: all cases. Unknown ids are refused."""


@dataclass
class InferenceResult:
    """The agent's turns in one case, or the error that ended the inference.

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
    """The metrics to score the cases with.

    >>> EvaluateConfig([EvalMetric(metric_name="final_response_avg_score")]).eval_metrics[0].threshold
    0.0
    """

    eval_metrics: list[EvalMetric] = field(default_factory=list)


@dataclass
class EvaluateRequest:
    """The results of an inference, and the metrics to score them with.

    >>> EvaluateRequest("math-eval-app", "math-basic", []).evaluate_config.eval_metrics
    []
    """

    app_name: str
    eval_set_id: str
    inference_results: list[InferenceResult] = field(default_factory=list)
    evaluate_config: EvaluateConfig = field(default_factory=EvaluateConfig)


@dataclass
class PerInvocationDetails:
    """Details about the score of one turn: the score, the reason for it, and the scores of the rubrics.

    >>> PerInvocationDetails(reason="two words are missing", score=0.5).rubric_scores
    []
    """

    reason: str = ""
    score: float = 0.0
    rubric_scores: list[RubricScore] = field(default_factory=list)


@dataclass
class PerInvocationResult:
    """One turn, actual and expected, with the score of one metric.

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
    """Result of an evaluator: a score for each turn, and the score of the whole run.

    >>> EvaluateResult(overall_score=1.0, overall_status="passed").per_invocation_results
    []
    """

    overall_score: float = 0.0
    overall_status: EvalStatus = "not_evaluated"
    per_invocation_results: list[PerInvocationResult] = field(default_factory=list)

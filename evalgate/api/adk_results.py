"""Google ADK's types of metrics and results, for programs without Google ADK.

The types of eval sets are in `adk_types`.
"""

from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, field_validator

from evalgate.api.adk_types import (
    OPEN,
    SPELLINGS,
    EvalBaseModel,
    EvalCase,
    EvalSet,
    Invocation,
    Rubric,
    RubricScore,
)

# --- metrics ------------------------------------------------------------------------------------------------


class PrebuiltMetrics(Enum):
    """Names of Google ADK's built-in metrics.

    >>> PrebuiltMetrics.RESPONSE_MATCH_SCORE.value
    'response_match_score'
    """

    TOOL_TRAJECTORY_AVG_SCORE = "tool_trajectory_avg_score"
    RESPONSE_EVALUATION_SCORE = "response_evaluation_score"
    RESPONSE_MATCH_SCORE = "response_match_score"
    SAFETY_V1 = "safety_v1"
    FINAL_RESPONSE_MATCH_V2 = "final_response_match_v2"
    RUBRIC_BASED_FINAL_RESPONSE_QUALITY_V1 = "rubric_based_final_response_quality_v1"
    HALLUCINATIONS_V1 = "hallucinations_v1"
    RUBRIC_BASED_TOOL_USE_QUALITY_V1 = "rubric_based_tool_use_quality_v1"
    PER_TURN_USER_SIMULATOR_QUALITY_V1 = "per_turn_user_simulator_quality_v1"
    MULTI_TURN_TASK_SUCCESS_V1 = "multi_turn_task_success_v1"
    MULTI_TURN_TRAJECTORY_QUALITY_V1 = "multi_turn_trajectory_quality_v1"
    MULTI_TURN_TOOL_USE_QUALITY_V1 = "multi_turn_tool_use_quality_v1"
    RUBRIC_BASED_MULTI_TURN_TRAJECTORY_QUALITY_V1 = "rubric_based_multi_turn_trajectory_quality_v1"


class JudgeModelOptions(EvalBaseModel):
    """The judge model of a metric, and the number of answers to sample for each question.

    >>> JudgeModelOptions().num_samples
    5
    """

    judge_model: str = "gemini-2.5-flash"
    judge_model_config: dict[str, Any] | None = None
    num_samples: int = 5


class BaseCriterion(BaseModel):
    """A metric's threshold with further options; unknown keys are kept.

    >>> BaseCriterion(threshold=0.8).threshold
    0.8
    """

    model_config = OPEN

    threshold: float
    include_intermediate_responses_in_final: bool = False


class LlmAsAJudgeCriterion(BaseCriterion):
    """Options of a metric that a judge model scores.

    >>> LlmAsAJudgeCriterion(threshold=0.8).judge_model_options.judge_model
    'gemini-2.5-flash'
    """

    judge_model_options: JudgeModelOptions = JudgeModelOptions()


class RubricsBasedCriterion(LlmAsAJudgeCriterion):
    """Options of a metric for which a judge model checks rubrics, statements about the conversation.

    >>> RubricsBasedCriterion(threshold=0.8, rubrics=[Rubric(criterion="It is polite.")]).rubrics[0].criterion
    'It is polite.'
    """

    rubrics: list[Rubric] = []


class HallucinationsCriterion(LlmAsAJudgeCriterion):
    """Options of the metric `hallucinations_v1`: a judge model looks for sentences without evidence.

    If `evaluate_intermediate_nl_responses` is True, messages before the final response are judged, too.

    >>> HallucinationsCriterion(threshold=0.8).evaluate_intermediate_nl_responses
    False
    """

    evaluate_intermediate_nl_responses: bool = False


class ToolTrajectoryCriterion(BaseCriterion):
    """Options of the metric `tool_trajectory_avg_score`, which compares tool calls.

    >>> ToolTrajectoryCriterion(threshold=1.0, match_type="in order").match_type.name
    'IN_ORDER'
    """

    class MatchType(Enum):
        """Rule for comparing the tool calls of a turn with the expected calls.

        EXACT: both lists are equal. IN_ORDER: the expected calls were made in their order, and other calls
        may come in between. ANY_ORDER: the expected calls were made in any order, with or without others.
        """

        EXACT = 0
        IN_ORDER = 1
        ANY_ORDER = 2

    match_type: MatchType = MatchType.EXACT

    @field_validator("match_type", mode="before")
    @classmethod
    def _read_name(cls, value: object) -> object:
        if isinstance(value, str):
            name = value.strip().upper().replace("-", "_").replace(" ", "_")
            return cls.MatchType.__members__.get(name, value)
        return value


class CodeConfig(BaseModel):
    """Dotted path of the Python function that computes a custom metric.

    >>> CodeConfig(name="my_package.metrics.length").name
    'my_package.metrics.length'
    """

    model_config = OPEN

    name: str


class CustomMetricConfig(BaseModel):
    """A metric that a Python function computes.

    >>> CustomMetricConfig(code_config=CodeConfig(name="my_package.metrics.length")).description
    ''
    """

    model_config = OPEN

    code_config: CodeConfig
    metric_info: dict[str, Any] | None = None
    description: str = ""


class EvalConfig(BaseModel):
    """Content of a `test_config.json`: the metrics to score, each with a threshold or a criterion.

    >>> EvalConfig(criteria={PrebuiltMetrics.RESPONSE_MATCH_SCORE.value: 0.8}).criteria
    {'response_match_score': 0.8}
    """

    model_config = ConfigDict(alias_generator=SPELLINGS, populate_by_name=True)

    criteria: dict[str, Any] = {}
    """By metric name: a threshold, or a criterion (a threshold with further options)."""
    custom_metrics: dict[str, CustomMetricConfig] | None = None
    user_simulator_config: dict[str, Any] | None = None


# --- results ------------------------------------------------------------------------------------------------


class _Status(Enum):
    """Base class of status enums that can be compared with Google ADK's own enums.

    Two members are equal if they have the same name and their classes have the same name.
    """

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Enum):
            return NotImplemented
        return (type(other).__name__, other.name) == (type(self).__name__, self.name)

    __hash__ = Enum.__hash__  # hashes the member's name, as in Google's enums


class EvalStatus(_Status):
    """Status of a metric or of a case.

    >>> EvalStatus(2).name
    'FAILED'
    """

    PASSED = 1
    FAILED = 2
    NOT_EVALUATED = 3


class EvalMetric(EvalBaseModel):
    """A metric to evaluate, with a threshold or a criterion (a threshold with further options).

    >>> EvalMetric(metric_name="response_match_score", threshold=0.8).criterion is None
    True
    """

    metric_name: str
    threshold: float | None = None
    criterion: SerializeAsAny[BaseCriterion] | None = None
    custom_function_path: str | None = None


class EvalMetricResultDetails(EvalBaseModel):
    """Scores of a metric's rubrics. `rubric_scores` is None if the metric has no rubrics.

    >>> EvalMetricResultDetails().rubric_scores is None
    True
    """

    rubric_scores: list[RubricScore] | None = None


class EvalMetricResult(EvalMetric):
    """A metric with its score and status.

    >>> EvalMetricResult(metric_name="response_match_score", score=1.0, eval_status=EvalStatus.PASSED).score
    1.0
    """

    score: float | None = None
    eval_status: EvalStatus
    details: EvalMetricResultDetails = EvalMetricResultDetails()


class EvalMetricResultPerInvocation(EvalBaseModel):
    """One turn, actual and expected, with the results of its metrics.

    >>> said = Invocation(user_content={"parts": [{"text": "Hi"}]})
    >>> EvalMetricResultPerInvocation(actual_invocation=said).eval_metric_results
    []
    """

    actual_invocation: Invocation
    expected_invocation: Invocation | None = None
    eval_metric_results: list[EvalMetricResult] = Field(default_factory=list)


class EvalCaseResult(BaseModel):
    """Result of one run of a case: its status, and the result of each metric, over all turns and per turn.

    >>> result = EvalCaseResult(eval_id="greets", final_eval_status=EvalStatus.FAILED, session_id="1",
    ...     overall_eval_metric_results=[], eval_metric_result_per_invocation=[])
    >>> result.final_eval_status.name
    'FAILED'
    """

    model_config = ConfigDict(alias_generator=SPELLINGS, populate_by_name=True)

    eval_set_file: str | None = None
    eval_set_id: str = ""
    eval_id: str = ""
    final_eval_status: EvalStatus
    eval_metric_results: list[Any] | None = None
    overall_eval_metric_results: list[EvalMetricResult]
    eval_metric_result_per_invocation: list[EvalMetricResultPerInvocation]
    session_id: str
    session_details: dict[str, Any] | None = None
    user_id: str | None = None


class EvalSetResult(BaseModel):
    """Results of an eval set: the content of an `.evalset_result.json`.

    >>> EvalSetResult(eval_set_result_id="app_suite_1.0", eval_set_id="suite").eval_case_results
    []
    """

    model_config = ConfigDict(alias_generator=SPELLINGS, populate_by_name=True)

    eval_set_result_id: str
    eval_set_result_name: str | None = None
    eval_set_id: str
    eval_case_results: list[EvalCaseResult] = []
    creation_timestamp: float = 0.0


class InferenceStatus(_Status):
    """Status of one conversation with the agent.

    >>> InferenceStatus(2).name
    'FAILURE'
    """

    UNKNOWN = 0
    SUCCESS = 1
    FAILURE = 2


class InferenceResult(BaseModel):
    """The conversation with the agent in one case, or the error that ended it.

    >>> InferenceResult(app_name="a", eval_set_id="s", eval_case_id="c", session_id="1").status.name
    'UNKNOWN'
    """

    model_config = ConfigDict(alias_generator=SPELLINGS, populate_by_name=True)

    app_name: str
    eval_set_id: str
    eval_case_id: str
    inferences: list[Any] | None = None
    """The actual invocations; None if the agent failed."""
    session_id: str | None
    status: InferenceStatus = InferenceStatus.UNKNOWN
    error_message: str | None = None

    @field_validator("inferences")
    @classmethod
    def _read_invocations(cls, value: list[Any] | None) -> list[Any] | None:
        return value and [read_adk_model("Invocation", each) for each in value]


# --- Google's own types -------------------------------------------------------------------------------------

ModelName = Literal[
    "EvalCase",
    "EvalCaseResult",
    "EvalConfig",
    "EvalMetric",
    "EvalSet",
    "EvalSetResult",
    "InferenceResult",
    "Invocation",
]
_MODELS: dict[ModelName, tuple[str, type[BaseModel]]] = {
    "EvalCase": ("eval_case", EvalCase),
    "EvalCaseResult": ("eval_result", EvalCaseResult),
    "EvalConfig": ("eval_config", EvalConfig),
    "EvalMetric": ("eval_metrics", EvalMetric),
    "EvalSet": ("eval_set", EvalSet),
    "EvalSetResult": ("eval_result", EvalSetResult),
    "InferenceResult": ("base_eval_service", InferenceResult),
    "Invocation": ("eval_case", Invocation),
}
"""By name of a type: the module of Google ADK that defines the type, and evalgate's own type."""


def get_adk_type(name: ModelName) -> Any:
    """Return Google ADK's type with this name if Google ADK is installed, otherwise evalgate's type.

    >>> get_adk_type("EvalSet").__name__
    'EvalSet'
    """
    module, own = _MODELS[name]
    try:
        return getattr(import_module(f"google.adk.evaluation.{module}"), name)
    except ImportError:
        return own


def read_adk_model(name: ModelName, value: object) -> Any:
    """Convert a mapping (decoded JSON) to the type `name`. Return any other value unchanged.

    The type is Google ADK's if Google ADK is installed, otherwise evalgate's.

    Raises:
        pydantic.ValidationError: the mapping does not fit the type.

    >>> read_adk_model("EvalMetric", {"metric_name": "safety_v1", "threshold": 0.5}).threshold
    0.5
    """
    return get_adk_type(name).model_validate(value) if isinstance(value, Mapping) else value

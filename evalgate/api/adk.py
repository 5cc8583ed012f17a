"""Google ADK's evaluation classes in one module, with the signatures and defaults of release 2.3.0.

Tests written for Google's package work after a change of the imports. Functions also accept Google's own
types. If Google ADK is installed, they return Google's types, too. Programs without Google ADK use the types
of this module.
"""

from evalgate.api.adk_documents import NotFoundError
from evalgate.api.adk_evaluator import (
    NUM_RUNS,
    AgentEvaluator,
)
from evalgate.api.adk_managers import (
    EvalSetsManager,
    GcsEvalSetsManager,
    InMemoryEvalSetsManager,
    LocalEvalSetsManager,
)
from evalgate.api.adk_result_managers import (
    EvalSetResultsManager,
    GcsEvalSetResultsManager,
    LocalEvalSetResultsManager,
)
from evalgate.api.adk_results import (
    BaseCriterion,
    CodeConfig,
    CustomMetricConfig,
    EvalCaseResult,
    EvalConfig,
    EvalMetric,
    EvalMetricResult,
    EvalMetricResultDetails,
    EvalMetricResultPerInvocation,
    EvalSetResult,
    EvalStatus,
    HallucinationsCriterion,
    InferenceResult,
    InferenceStatus,
    JudgeModelOptions,
    LlmAsAJudgeCriterion,
    PrebuiltMetrics,
    RubricsBasedCriterion,
    ToolTrajectoryCriterion,
)
from evalgate.api.adk_service import (
    EvaluateConfig,
    EvaluateRequest,
    InferenceConfig,
    InferenceRequest,
    LocalEvalService,
)
from evalgate.api.adk_types import (
    Content,
    EvalCase,
    EvalSet,
    FunctionCall,
    FunctionResponse,
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    Part,
    Rubric,
    RubricContent,
    RubricScore,
    SessionInput,
)

__all__ = [
    "NUM_RUNS",
    "AgentEvaluator",
    "BaseCriterion",
    "CodeConfig",
    "Content",
    "CustomMetricConfig",
    "EvalCase",
    "EvalCaseResult",
    "EvalConfig",
    "EvalMetric",
    "EvalMetricResult",
    "EvalMetricResultDetails",
    "EvalMetricResultPerInvocation",
    "EvalSet",
    "EvalSetResult",
    "EvalSetResultsManager",
    "EvalSetsManager",
    "EvalStatus",
    "EvaluateConfig",
    "EvaluateRequest",
    "FunctionCall",
    "FunctionResponse",
    "GcsEvalSetResultsManager",
    "GcsEvalSetsManager",
    "HallucinationsCriterion",
    "InMemoryEvalSetsManager",
    "InferenceConfig",
    "InferenceRequest",
    "InferenceResult",
    "InferenceStatus",
    "IntermediateData",
    "Invocation",
    "InvocationEvent",
    "InvocationEvents",
    "JudgeModelOptions",
    "LlmAsAJudgeCriterion",
    "LocalEvalService",
    "LocalEvalSetResultsManager",
    "LocalEvalSetsManager",
    "NotFoundError",
    "Part",
    "PrebuiltMetrics",
    "Rubric",
    "RubricContent",
    "RubricScore",
    "RubricsBasedCriterion",
    "SessionInput",
    "ToolTrajectoryCriterion",
]

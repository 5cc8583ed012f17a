"""tRPC-Agent-Go's evaluation in Python, with its own names: `from evalgate.api import trpc`.

You can follow the documentation of tRPC-Agent-Go in Python's spelling. `evaluation.New(app, runner,
WithNumRuns(3))` becomes `trpc.new(app, runner, num_runs=3)`, and `evalsetlocal.New(WithBaseDir(d))` becomes
`trpc.LocalEvalSetManager(d)`. docs/library.md has a whole example, and docs/conformance.md lists the
differences.
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from evalgate.api.trpc.callbacks import AfterEvaluateCaseArgs as AfterEvaluateCaseArgs
    from evalgate.api.trpc.callbacks import AfterEvaluateSetArgs as AfterEvaluateSetArgs
    from evalgate.api.trpc.callbacks import AfterInferenceCaseArgs as AfterInferenceCaseArgs
    from evalgate.api.trpc.callbacks import AfterInferenceSetArgs as AfterInferenceSetArgs
    from evalgate.api.trpc.callbacks import BeforeEvaluateCaseArgs as BeforeEvaluateCaseArgs
    from evalgate.api.trpc.callbacks import BeforeEvaluateSetArgs as BeforeEvaluateSetArgs
    from evalgate.api.trpc.callbacks import BeforeInferenceCaseArgs as BeforeInferenceCaseArgs
    from evalgate.api.trpc.callbacks import BeforeInferenceSetArgs as BeforeInferenceSetArgs
    from evalgate.api.trpc.callbacks import Callback as Callback
    from evalgate.api.trpc.callbacks import CallbackResult as CallbackResult
    from evalgate.api.trpc.callbacks import Callbacks as Callbacks
    from evalgate.api.trpc.callbacks import Context as Context
    from evalgate.api.trpc.callbacks import Hook as Hook
    from evalgate.api.trpc.criteria import Criterion as Criterion
    from evalgate.api.trpc.criteria import EvalMetric as EvalMetric
    from evalgate.api.trpc.criteria import FinalResponseCriterion as FinalResponseCriterion
    from evalgate.api.trpc.criteria import JSONCriterion as JSONCriterion
    from evalgate.api.trpc.criteria import JudgeModelOptions as JudgeModelOptions
    from evalgate.api.trpc.criteria import LLMCriterion as LLMCriterion
    from evalgate.api.trpc.criteria import Rubric as Rubric
    from evalgate.api.trpc.criteria import RubricContent as RubricContent
    from evalgate.api.trpc.criteria import TextCriterion as TextCriterion
    from evalgate.api.trpc.criteria import ToolTrajectoryCriterion as ToolTrajectoryCriterion
    from evalgate.api.trpc.criteria import ToolTrajectoryStrategy as ToolTrajectoryStrategy
    from evalgate.api.trpc.datasets import CaseRubric as CaseRubric
    from evalgate.api.trpc.datasets import EvalCase as EvalCase
    from evalgate.api.trpc.datasets import EvalMode as EvalMode
    from evalgate.api.trpc.datasets import EvalSet as EvalSet
    from evalgate.api.trpc.datasets import Invocation as Invocation
    from evalgate.api.trpc.datasets import Message as Message
    from evalgate.api.trpc.datasets import SessionInput as SessionInput
    from evalgate.api.trpc.datasets import Tool as Tool
    from evalgate.api.trpc.errors import AlreadyExistsError as AlreadyExistsError
    from evalgate.api.trpc.errors import CallbackError as CallbackError
    from evalgate.api.trpc.errors import NotFoundError as NotFoundError
    from evalgate.api.trpc.errors import StorageError as StorageError
    from evalgate.api.trpc.evaluation import AgentEvaluator as AgentEvaluator
    from evalgate.api.trpc.evaluation import new as new
    from evalgate.api.trpc.evaluators import Registry as Registry
    from evalgate.api.trpc.managers import FsspecEvalResultManager as FsspecEvalResultManager
    from evalgate.api.trpc.managers import FsspecEvalSetManager as FsspecEvalSetManager
    from evalgate.api.trpc.managers import FsspecMetricManager as FsspecMetricManager
    from evalgate.api.trpc.managers import InMemoryEvalResultManager as InMemoryEvalResultManager
    from evalgate.api.trpc.managers import InMemoryEvalSetManager as InMemoryEvalSetManager
    from evalgate.api.trpc.managers import InMemoryMetricManager as InMemoryMetricManager
    from evalgate.api.trpc.managers import LocalEvalResultManager as LocalEvalResultManager
    from evalgate.api.trpc.managers import LocalEvalSetManager as LocalEvalSetManager
    from evalgate.api.trpc.managers import LocalMetricManager as LocalMetricManager
    from evalgate.api.trpc.managers import SqlEvalResultManager as SqlEvalResultManager
    from evalgate.api.trpc.managers import SqlEvalSetManager as SqlEvalSetManager
    from evalgate.api.trpc.managers import SqlMetricManager as SqlMetricManager
    from evalgate.api.trpc.protocols import EvalResultLocator as EvalResultLocator
    from evalgate.api.trpc.protocols import EvalResultManager as EvalResultManager
    from evalgate.api.trpc.protocols import EvalSetLocator as EvalSetLocator
    from evalgate.api.trpc.protocols import EvalSetManager as EvalSetManager
    from evalgate.api.trpc.protocols import Evaluator as Evaluator
    from evalgate.api.trpc.protocols import MetricLocator as MetricLocator
    from evalgate.api.trpc.protocols import MetricManager as MetricManager
    from evalgate.api.trpc.protocols import Service as Service
    from evalgate.api.trpc.requests import EvaluateConfig as EvaluateConfig
    from evalgate.api.trpc.requests import EvaluateRequest as EvaluateRequest
    from evalgate.api.trpc.requests import EvaluateResult as EvaluateResult
    from evalgate.api.trpc.requests import InferenceRequest as InferenceRequest
    from evalgate.api.trpc.requests import InferenceResult as InferenceResult
    from evalgate.api.trpc.requests import PerInvocationDetails as PerInvocationDetails
    from evalgate.api.trpc.requests import PerInvocationResult as PerInvocationResult
    from evalgate.api.trpc.results import CaseRunSummary as CaseRunSummary
    from evalgate.api.trpc.results import EvalCaseResult as EvalCaseResult
    from evalgate.api.trpc.results import EvalCaseSummary as EvalCaseSummary
    from evalgate.api.trpc.results import EvalMetricResult as EvalMetricResult
    from evalgate.api.trpc.results import EvalMetricResultDetails as EvalMetricResultDetails
    from evalgate.api.trpc.results import EvalMetricResultPerInvocation as EvalMetricResultPerInvocation
    from evalgate.api.trpc.results import EvalSetResult as EvalSetResult
    from evalgate.api.trpc.results import EvalSetResultSummary as EvalSetResultSummary
    from evalgate.api.trpc.results import EvalStatus as EvalStatus
    from evalgate.api.trpc.results import EvaluationCaseResult as EvaluationCaseResult
    from evalgate.api.trpc.results import EvaluationResult as EvaluationResult
    from evalgate.api.trpc.results import MetricSummary as MetricSummary
    from evalgate.api.trpc.results import RubricScore as RubricScore
    from evalgate.api.trpc.results import RunSummary as RunSummary
    from evalgate.api.trpc.results import StatusCounts as StatusCounts
    from evalgate.api.trpc.service import LocalService as LocalService
    from evalgate.api.trpc.stores import SuffixLocator as SuffixLocator

_PUBLIC_NAMES = {
    "AfterEvaluateCaseArgs": "callbacks",
    "AfterEvaluateSetArgs": "callbacks",
    "AfterInferenceCaseArgs": "callbacks",
    "AfterInferenceSetArgs": "callbacks",
    "AgentEvaluator": "evaluation",
    "AlreadyExistsError": "errors",
    "BeforeEvaluateCaseArgs": "callbacks",
    "BeforeEvaluateSetArgs": "callbacks",
    "BeforeInferenceCaseArgs": "callbacks",
    "BeforeInferenceSetArgs": "callbacks",
    "Callback": "callbacks",
    "CallbackError": "errors",
    "CallbackResult": "callbacks",
    "Callbacks": "callbacks",
    "CaseRubric": "datasets",
    "CaseRunSummary": "results",
    "Context": "callbacks",
    "Criterion": "criteria",
    "EvalCase": "datasets",
    "EvalCaseResult": "results",
    "EvalCaseSummary": "results",
    "EvalMetric": "criteria",
    "EvalMetricResult": "results",
    "EvalMetricResultDetails": "results",
    "EvalMetricResultPerInvocation": "results",
    "EvalMode": "datasets",
    "EvalResultLocator": "protocols",
    "EvalResultManager": "protocols",
    "EvalSet": "datasets",
    "EvalSetLocator": "protocols",
    "EvalSetManager": "protocols",
    "EvalSetResult": "results",
    "EvalSetResultSummary": "results",
    "EvalStatus": "results",
    "EvaluateConfig": "requests",
    "EvaluateRequest": "requests",
    "EvaluateResult": "requests",
    "EvaluationCaseResult": "results",
    "EvaluationResult": "results",
    "Evaluator": "protocols",
    "FinalResponseCriterion": "criteria",
    "FsspecEvalResultManager": "managers",
    "FsspecEvalSetManager": "managers",
    "FsspecMetricManager": "managers",
    "Hook": "callbacks",
    "InMemoryEvalResultManager": "managers",
    "InMemoryEvalSetManager": "managers",
    "InMemoryMetricManager": "managers",
    "InferenceRequest": "requests",
    "InferenceResult": "requests",
    "Invocation": "datasets",
    "JSONCriterion": "criteria",
    "JudgeModelOptions": "criteria",
    "LLMCriterion": "criteria",
    "LocalEvalResultManager": "managers",
    "LocalEvalSetManager": "managers",
    "LocalMetricManager": "managers",
    "LocalService": "service",
    "Message": "datasets",
    "MetricLocator": "protocols",
    "MetricManager": "protocols",
    "MetricSummary": "results",
    "NotFoundError": "errors",
    "PerInvocationDetails": "requests",
    "PerInvocationResult": "requests",
    "Registry": "evaluators",
    "Rubric": "criteria",
    "RubricContent": "criteria",
    "RubricScore": "results",
    "RunSummary": "results",
    "Service": "protocols",
    "SessionInput": "datasets",
    "SqlEvalResultManager": "managers",
    "SqlEvalSetManager": "managers",
    "SqlMetricManager": "managers",
    "StatusCounts": "results",
    "StorageError": "errors",
    "SuffixLocator": "stores",
    "TextCriterion": "criteria",
    "Tool": "datasets",
    "ToolTrajectoryCriterion": "criteria",
    "ToolTrajectoryStrategy": "criteria",
    "new": "evaluation",
}
"""By public name: the module of this package that defines the name."""


def __getattr__(name: str) -> object:
    """Import a public name when it is first used. Raise AttributeError for any other name."""
    if name not in _PUBLIC_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_PUBLIC_NAMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(_PUBLIC_NAMES)

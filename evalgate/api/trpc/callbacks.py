"""Callbacks: functions of the user that an evaluation calls at eight points.

The points are before and after each of four actions: to run the agent on an eval set, to run it on a case, to
score an eval set, and to score a case.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from evalgate.api.trpc.errors import CallbackError
from evalgate.api.trpc.requests import EvaluateRequest, InferenceRequest, InferenceResult
from evalgate.api.trpc.results import EvalCaseResult, EvalSetResult, parse_status

Context: TypeAlias = Mapping[str, Any]
"""Values that a callback passes to later callbacks of its phase (inference or scoring).

The first callback of a phase gets an empty mapping.
"""


@dataclass
class BeforeInferenceSetArgs:
    """Arguments of a callback before the agent is run on an eval set. The callback may change `request`.

    >>> BeforeInferenceSetArgs(InferenceRequest("app", "set")).request.eval_set_id
    'set'
    """

    request: InferenceRequest


@dataclass
class AfterInferenceSetArgs:
    """Arguments of a callback after the agent was run on an eval set.

    >>> AfterInferenceSetArgs(InferenceRequest("app", "set"), [], None, 0.0).results
    []
    """

    request: InferenceRequest
    results: list[InferenceResult]
    error: Exception | None
    """Error that ended the whole inference; else None. If a single case failed, its status in `results` is
    `failed`."""
    start_time: float
    """Start of the inference of the eval set, in Unix seconds."""


@dataclass
class BeforeInferenceCaseArgs:
    """Arguments of a callback before the agent is run on a case.

    >>> BeforeInferenceCaseArgs(InferenceRequest("app", "set"), "case", "session").eval_case_id
    'case'
    """

    request: InferenceRequest
    eval_case_id: str
    session_id: str


@dataclass
class AfterInferenceCaseArgs:
    """Arguments of a callback after the agent was run on a case.

    If the agent failed, `result.status` is `failed` and `result.error_message` has the reason.

    >>> result = InferenceResult("app", "set", "case", status="passed")
    >>> AfterInferenceCaseArgs(InferenceRequest("app", "set"), result, None, 0.0).result.status
    'passed'
    """

    request: InferenceRequest
    result: InferenceResult
    error: Exception | None
    """Always None, as in tRPC-Agent-Go."""
    start_time: float
    """Start of the inference of the case, in Unix seconds."""


@dataclass
class BeforeEvaluateSetArgs:
    """Arguments of a callback before the results of an eval set are scored.

    The callback may change `request`.

    >>> BeforeEvaluateSetArgs(EvaluateRequest("app", "set")).request.inference_results
    []
    """

    request: EvaluateRequest


@dataclass
class AfterEvaluateSetArgs:
    """Arguments of a callback after the results of an eval set were scored.

    >>> AfterEvaluateSetArgs(EvaluateRequest("app", "set"), None, ValueError("no"), 0.0).result is None
    True
    """

    request: EvaluateRequest
    result: EvalSetResult | None
    """Results of all cases; None if the evaluation as a whole failed."""
    error: Exception | None
    """Error that ended the whole evaluation; else None. If a single case failed, its status in `result` is
    `failed`."""
    start_time: float
    """Start of the scoring of the eval set, in Unix seconds."""


@dataclass
class BeforeEvaluateCaseArgs:
    """Arguments of a callback before a case is scored.

    >>> BeforeEvaluateCaseArgs(EvaluateRequest("app", "set"), "case").eval_case_id
    'case'
    """

    request: EvaluateRequest
    eval_case_id: str


@dataclass
class AfterEvaluateCaseArgs:
    """Arguments of a callback after a case was scored.

    `result.final_eval_status` is the status of the case. If the case could not be scored,
    `result.error_message` has the reason.

    >>> inference, result = InferenceResult("app", "set", "case"), EvalCaseResult(eval_id="case")
    >>> AfterEvaluateCaseArgs(EvaluateRequest("app", "set"), inference, result, None, 0.0).result.eval_id
    'case'
    """

    request: EvaluateRequest
    inference_result: InferenceResult
    result: EvalCaseResult
    error: Exception | None
    """Always None, as in tRPC-Agent-Go."""
    start_time: float
    """Start of the scoring of the case, in Unix seconds."""


@dataclass(frozen=True)
class CallbackResult:
    """Return value of a callback: a context (a mapping of values), which later callbacks get.

    A context that a callback for an eval set returns reaches all later callbacks of the same phase (inference
    or scoring). A context that a callback for a case returns reaches only later callbacks for this case.

    >>> CallbackResult({"span": 7}).context["span"]
    7
    """

    context: Context = field(default_factory=dict)


Hook: TypeAlias = Callable[[Context, Any], "CallbackResult | Awaitable[CallbackResult | None] | None"]
"""A callback: a function, asynchronous or not, that gets a context and the arguments of its point.

If a callback raises an exception, the later callbacks of the same point are not called.
"""


@dataclass
class Callback:
    """Up to eight functions, one for each point. `Callbacks.register` adds them under one name.

    >>> Callback(before_inference_set=lambda context, args: None).after_inference_set is None
    True
    """

    before_inference_set: Hook | None = None
    after_inference_set: Hook | None = None
    before_inference_case: Hook | None = None
    after_inference_case: Hook | None = None
    before_evaluate_set: Hook | None = None
    after_evaluate_set: Hook | None = None
    before_evaluate_case: Hook | None = None
    after_evaluate_case: Hook | None = None


_POINTS = {name: "".join(map(str.title, name.split("_"))) for name in Callback.__dataclass_fields__}
"""By Python name of a point: the Go name of the point, which errors show."""


class Callbacks:
    """The callbacks of an evaluation. At each point, they are called in the order of their registration.

    Each function gets a context and the arguments of its point. Errors show the `name` under which the
    function was registered.

    >>> callbacks = Callbacks()
    >>> callbacks.register_before_inference_set("log", lambda context, args: print(args.request.eval_set_id))
    >>> callbacks.register("trace", Callback(after_evaluate_set=lambda context, args: None))
    """

    def __init__(self) -> None:
        self._hooks: dict[str, list[tuple[str, Hook]]] = {point: [] for point in _POINTS}

    def register(self, name: str, callback: Callback) -> None:
        """Add each function of `callback` at its point, under the name `name`."""
        for point in _POINTS:
            hook: Hook | None = getattr(callback, point)
            if hook is not None:
                self._hooks[point].append((name, hook))

    def register_before_inference_set(self, name: str, hook: Hook) -> None:
        """Add a function that gets `BeforeInferenceSetArgs` before the agent is run on an eval set."""
        self._hooks["before_inference_set"].append((name, hook))

    def register_after_inference_set(self, name: str, hook: Hook) -> None:
        """Add a function that gets `AfterInferenceSetArgs` after the agent was run on an eval set."""
        self._hooks["after_inference_set"].append((name, hook))

    def register_before_inference_case(self, name: str, hook: Hook) -> None:
        """Add a function that gets `BeforeInferenceCaseArgs` before the agent is run on a case."""
        self._hooks["before_inference_case"].append((name, hook))

    def register_after_inference_case(self, name: str, hook: Hook) -> None:
        """Add a function that gets `AfterInferenceCaseArgs` after the agent was run on a case."""
        self._hooks["after_inference_case"].append((name, hook))

    def register_before_evaluate_set(self, name: str, hook: Hook) -> None:
        """Add a function that gets `BeforeEvaluateSetArgs` before an eval set is scored."""
        self._hooks["before_evaluate_set"].append((name, hook))

    def register_after_evaluate_set(self, name: str, hook: Hook) -> None:
        """Add a function that gets `AfterEvaluateSetArgs` after an eval set was scored."""
        self._hooks["after_evaluate_set"].append((name, hook))

    def register_before_evaluate_case(self, name: str, hook: Hook) -> None:
        """Add a function that gets `BeforeEvaluateCaseArgs` before a case is scored."""
        self._hooks["before_evaluate_case"].append((name, hook))

    def register_after_evaluate_case(self, name: str, hook: Hook) -> None:
        """Add a function that gets `AfterEvaluateCaseArgs` after a case was scored."""
        self._hooks["after_evaluate_case"].append((name, hook))

    async def run_point(self, point: str, context: Context, args: object, where: str) -> Context:
        """Call the functions of a point in order, and return the context for the next point.

        This is the context of the last `CallbackResult` that a function returned. If no function returned
        one, it is `context`.

        Args:
            point: Name of the point: a field of `Callback`.
            context: Context for the first function.
            args: Arguments for each function.
            where: Text for errors that names app and eval set, and the case if there is one, such as
                `app=…, evalSetID=…, evalCaseID=…`.

        Raises:
            CallbackError: a function raised an exception, returned neither None nor a `CallbackResult`, or
                set an unknown status. The text is that of tRPC-Agent-Go.
        """
        own = _POINTS[point]
        for index, (name, hook) in enumerate(self._hooks[point]):
            try:
                found = await _call_hook(hook, context, args)
            except Exception as error:
                raise CallbackError(
                    f"run {point.replace('_', ' ')} callbacks ({where}): execute {own} callbacks: "
                    f"{own} callback[{index}] ({name}): {error}"
                ) from error
            if found is not None:
                context = found.context
        return context


async def _call_hook(
    hook: Callable[[Context, Any], object], context: Context, args: object
) -> CallbackResult | None:
    found = hook(context, args)
    if inspect.isawaitable(found):
        found = await found
    if not isinstance(found, CallbackResult | None):
        raise TypeError(f"it returned {type(found).__name__} in the place of None or a CallbackResult")
    _read_statuses(args)
    return found


def _read_statuses(args: object) -> None:
    """Convert statuses such as `Passed`, which a callback may have set in its arguments, to lower case.

    `args` are the arguments of the callback.

    Raises:
        ValueError: a status is unknown.
    """
    match args:
        case AfterInferenceCaseArgs(result=InferenceResult() as inference):
            inference.status = parse_status(inference.status)
        case AfterInferenceSetArgs(results=inferences):
            for inference in inferences:
                inference.status = parse_status(inference.status)
        case AfterEvaluateCaseArgs(result=EvalCaseResult() as case):
            _read_case_statuses(case)
        case AfterEvaluateSetArgs(result=EvalSetResult() as result):
            for case in result.eval_case_results:
                _read_case_statuses(case)


def _read_case_statuses(case: EvalCaseResult) -> None:
    case.final_eval_status = parse_status(case.final_eval_status)
    turns = case.eval_metric_result_per_invocation
    for metric in (
        *case.overall_eval_metric_results,
        *(each for turn in turns for each in turn.eval_metric_results),
    ):
        metric.eval_status = parse_status(metric.eval_status)

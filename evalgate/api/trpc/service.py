"""tRPC-Agent-Go's local evaluation service, with inference and scoring as two steps."""

import asyncio
import os
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from evalgate.api.arguments import check_arguments, require_text
from evalgate.api.evaluation import run_blocking
from evalgate.api.trpc.callbacks import (
    AfterEvaluateCaseArgs,
    AfterEvaluateSetArgs,
    AfterInferenceCaseArgs,
    AfterInferenceSetArgs,
    BeforeEvaluateCaseArgs,
    BeforeEvaluateSetArgs,
    BeforeInferenceCaseArgs,
    BeforeInferenceSetArgs,
    Callbacks,
    Context,
)
from evalgate.api.trpc.criteria import require_threshold
from evalgate.api.trpc.datasets import EvalCase, EvalSet, Invocation
from evalgate.api.trpc.errors import CallbackError, NotFoundError
from evalgate.api.trpc.evaluators import BuiltInEvaluator, Registry, provide_judges, warn_of_unknown_keys
from evalgate.api.trpc.inference import (
    InferenceError,
    build_agent_of_runner,
    build_core_case,
    build_invocations,
)
from evalgate.api.trpc.managers import LocalEvalSetManager
from evalgate.api.trpc.protocols import EvalResultManager, EvalSetManager
from evalgate.api.trpc.requests import EvaluateRequest, InferenceRequest, InferenceResult
from evalgate.api.trpc.results import EvalCaseResult, EvalSetResult
from evalgate.api.trpc.scoring import score_case_run
from evalgate.api.trpc.wire import FROM_FILE
from evalgate.config.schema.judge import JudgeConfig
from evalgate.config.schema.providers import parse_model_name
from evalgate.core.errors import InvalidInputError
from evalgate.llm.judge_resolver import JudgeResolver, LlmContext, ModelPool
from evalgate.llm.users.scripted import create_scripted_user
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.runner.case_runner import CaseRunner
from evalgate.runner.scheduler import never_stop
from evalgate.system.throttling.throttle import Throttle, ThrottleSettings

_kept_runner: ContextVar[tuple["LocalService", CaseRunner | None] | None] = ContextVar(
    "_kept_runner", default=None
)
"""The service of the current `keep_agent` block and the runner of its agent. None outside of such a block.

The runner is None if the service has no agent.
"""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class LocalService:
    """tRPC-Agent-Go's local service. It runs an agent on eval sets, scores the turns and stores results.

    Each inference starts and ends the agent, except within a block of `keep_agent`. Methods may be called at
    the same time.

    >>> from evalgate.api.trpc.managers import InMemoryEvalSetManager
    >>> sets = InMemoryEvalSetManager()
    >>> _ = sets.create("app", "empty")
    >>> service = LocalService(lambda text: "Hello", eval_set_manager=sets)
    >>> service.inference(InferenceRequest("app", "empty"))
    []
    """

    def __init__(
        self,
        runner: object = None,
        *,
        eval_set_manager: EvalSetManager | None = None,
        eval_result_manager: EvalResultManager | None = None,
        registry: Registry | None = None,
        callbacks: Callbacks | None = None,
        session_id_supplier: Callable[[], str] | None = None,
        eval_case_parallelism: int | None = None,
        eval_case_parallel_inference_enabled: bool = False,
        eval_case_parallel_evaluation_enabled: bool = False,
        timeout: float | None = None,
        judge: str | None = None,
    ) -> None:
        """Store the arguments. Nothing is started.

        Args:
            runner: An agent, as for `evalgate.evaluate`. It may be None if all cases have recorded replies.
            eval_set_manager: Storage for eval sets; default: files below the working folder.
            eval_result_manager: Storage for the results that `evaluate` returns; None: they are not stored.
            registry: The evaluators by name; default: the built-in evaluators.
            callbacks: Functions to call at eight points of the evaluation.
            session_id_supplier: Function that creates the session id of each case; default: a UUID. An agent
                of this process reads the id as `session.id`.
            eval_case_parallelism: Greatest number of cases at once, for phases that the next two arguments
                make parallel; default: the number of processors.
            eval_case_parallel_inference_enabled: True: the agent is run on several cases at once.
            eval_case_parallel_evaluation_enabled: True: several cases are scored at once.
            timeout: Seconds that one turn of the agent may take.
            judge: A judge model, as `PROVIDER/MODEL`, that replaces the judge model of every metric.

        Raises:
            InvalidInputError: an argument has a wrong type, `eval_case_parallelism` is less than 1, or
                `judge` does not have the form `PROVIDER/MODEL`.
        """
        given = {"eval_case_parallelism": eval_case_parallelism, "timeout": timeout, "judge": judge}
        check_arguments(given)
        at_once = (os.cpu_count() or 1) if eval_case_parallelism is None else eval_case_parallelism
        if at_once < 1:
            raise InvalidInputError("`eval_case_parallelism` must be at least 1")
        self._runner, self._timeout = runner, timeout
        self._eval_sets = LocalEvalSetManager() if eval_set_manager is None else eval_set_manager
        self._results = eval_result_manager
        self._registry = registry or Registry()
        self._callbacks = callbacks or Callbacks()
        self._create_session_id = session_id_supplier or (lambda: str(uuid.uuid4()))
        self._inferences_at_once = at_once if eval_case_parallel_inference_enabled else 1
        self._evaluations_at_once = at_once if eval_case_parallel_evaluation_enabled else 1
        self._judge = None if judge is None else _parse_judge(judge)

    @asynccontextmanager
    async def keep_agent(self) -> AsyncIterator[None]:
        """Keep the agent running within the `with` block, from one inference to the next.

        Raises:
            EvalgateError: the kind of agent is unknown, or the agent cannot be set up.
        """
        async with self._open_runner() as runner:
            token = _kept_runner.set((self, runner))
            try:
                yield
            finally:
                _kept_runner.reset(token)

    def inference(self, request: InferenceRequest) -> list[InferenceResult]:
        """Run the agent on the cases of an eval set. Return the results in the order of the set.

        This is the blocking form of `inference_async`.

        Raises:
            NotFoundError: the eval set or a case does not exist.
            EvalgateError: the input, a callback, the agent or the storage fails; `inference_async` lists the
                errors.
        """
        return run_blocking(lambda: self.inference_async(request))

    def evaluate(self, request: EvaluateRequest) -> EvalSetResult:
        """Score the results of an inference. Save the scores and return them.

        This is the blocking form of `evaluate_async`.

        Raises:
            NotFoundError: the eval set, a case or the evaluator of a metric does not exist.
            EvalgateError: the input, a callback or the storage fails; `evaluate_async` lists the errors.
        """
        return run_blocking(lambda: self.evaluate_async(request))

    async def inference_async(self, request: InferenceRequest) -> list[InferenceResult]:
        """Run the agent on the cases of an eval set. Return the results in the order of the set.

        If a case fails, it gets the status `failed` and an error message, and the other cases continue.

        Raises:
            NotFoundError: the eval set or a case does not exist.
            CallbackError: a callback of the set failed.
            InvalidInputError: the eval set is invalid, two cases have the same id, or `session_id_supplier`
                raised an exception or did not return a text.
            EvalgateError: the eval set cannot be read, the kind of agent is unknown, or the agent cannot be
                set up.
        """
        where = f"app={request.app_name}, evalSetID={request.eval_set_id}"
        run_point = self._callbacks.run_point
        context = await run_point("before_inference_set", {}, BeforeInferenceSetArgs(request), where)
        start, results, failure = time.time(), list[InferenceResult](), None
        try:
            results = await self._infer_cases(request, context)
        except Exception as error:  # noqa: BLE001  raised again once the callbacks know of it
            failure = error
        after = AfterInferenceSetArgs(request, results, failure, start)
        await run_point("after_inference_set", context, after, where)
        if failure is not None:
            raise failure
        return results

    async def _infer_cases(self, request: InferenceRequest, context: Context) -> list[InferenceResult]:
        cases = _select_cases(self._get_eval_set(request), request)
        async with self._open_runner() as runner:
            infer = partial(self._infer_case, request, context, runner)
            return await _map_in_order(infer, cases, self._inferences_at_once)

    def _get_eval_set(self, request: InferenceRequest | EvaluateRequest) -> EvalSet:
        """Return the eval set of a request.

        Raises:
            NotFoundError: the eval set does not exist.
            InvalidInputError: the eval set is invalid, or two cases have the same id.
            StorageError: the eval set cannot be read.
        """
        eval_set = self._eval_sets.get(request.app_name, request.eval_set_id)
        _refuse_repeats(request.eval_set_id, "cases", [case.eval_id for case in eval_set.eval_cases])
        return eval_set

    @asynccontextmanager
    async def _open_runner(self) -> AsyncIterator[CaseRunner | None]:
        """Start the agent, yield a `CaseRunner` for it, and end the agent after the block.

        Within a block of `keep_agent`, yield the runner of the agent that is already running. If the service
        has no agent, yield None.
        """
        kept, at_once = _kept_runner.get(), self._inferences_at_once
        if kept is not None and kept[0] is self:
            yield kept[1]
        elif self._runner is None:
            yield None
        else:
            async with build_agent_of_runner(
                self._runner, concurrency=at_once, timeout=self._timeout
            ) as agent:
                throttle = Throttle(ThrottleSettings(at_once))
                yield CaseRunner(agent, create_scripted_user, throttle, never_stop)

    def _build_session_id(self) -> str:
        try:
            session_id = self._create_session_id()
        except Exception as error:
            message = f"`session_id_supplier` raised {type(error).__name__}: {error}"
            raise InvalidInputError(message) from error
        require_text("session_id_supplier()", session_id)
        return session_id

    async def _infer_case(
        self, request: InferenceRequest, context: Context, runner: CaseRunner | None, case: EvalCase
    ) -> InferenceResult:
        session_id, start, run_point = self._build_session_id(), time.time(), self._callbacks.run_point
        result = InferenceResult(request.app_name, request.eval_set_id, case.eval_id, session_id=session_id)
        where = f"evalCaseID={case.eval_id}, sessionID={session_id}"
        whole = f"app={request.app_name}, evalSetID={request.eval_set_id}, {where}"
        try:
            before = BeforeInferenceCaseArgs(request, case.eval_id, session_id)
            context = await run_point("before_inference_case", context, before, whole)
            result.user_id = case.session_input.user_id if case.session_input else ""
            try:
                result.inferences = await _run_case(runner, case, request.app_name, session_id)
                result.status = "passed"
            except InferenceError as error:
                result.status = "failed"
                result.error_message = f"inference eval case ({where}): {error}"
            after = AfterInferenceCaseArgs(request, result, None, start)
            await run_point("after_inference_case", context, after, whole)
        except CallbackError as error:
            result.status, result.error_message, result.inferences = "failed", str(error), []
        return result

    async def evaluate_async(self, request: EvaluateRequest) -> EvalSetResult:
        """Score the results of an inference. Save the scores and return them.

        If the service has no manager of results, nothing is saved. If a case cannot be scored, it gets the
        status `failed` and an error message, and the other cases continue. Secrets of this process's
        environment are hidden in the result.

        Raises:
            NotFoundError: the eval set, a case or the evaluator of a metric does not exist. In tRPC-Agent-Go,
                a metric without an evaluator is left out.
            InvalidInputError: the eval set or a metric is invalid.
            StorageError: the eval set cannot be read, or the result cannot be saved.
            CallbackError: a callback failed; then nothing is saved.
        """
        where = f"app={request.app_name}, evalSetID={request.eval_set_id}"
        run_point = self._callbacks.run_point
        context = await run_point("before_evaluate_set", {}, BeforeEvaluateSetArgs(request), where)
        start, result, failure = time.time(), None, None
        try:
            cases = _redact_results(await self._evaluate_cases(request, context))
            result = EvalSetResult(eval_set_id=request.eval_set_id, eval_case_results=cases)
        except Exception as error:  # noqa: BLE001  raised again once the callbacks know of it
            failure = error
        after = AfterEvaluateSetArgs(request, result, failure, start)
        await run_point("after_evaluate_set", context, after, where)
        if failure is not None or result is None:
            raise failure or RuntimeError("there is neither a result nor an error")
        if self._results is not None:
            self._results.save(request.app_name, result)
        return result

    def check_metrics(self, request: EvaluateRequest) -> None:
        """Check that every metric of a request can be evaluated. Call this before an agent is run.

        Unknown keys of a metric cause a warning.

        Raises:
            NotFoundError: a metric has no evaluator.
            InvalidInputError: a threshold is not a finite number, two metrics have the same name, or the
                criterion of a built-in evaluator is invalid, is meant for another evaluator, or names no
                usable judge model.
        """
        metrics = request.evaluate_config.eval_metrics
        _refuse_repeats(request.eval_set_id, "metrics", [metric.metric_name for metric in metrics])
        with provide_judges(self._build_judges(ModelPool(_build_llm_context()))):
            for metric in metrics:
                require_threshold(metric)
                evaluator = self._registry.get(metric.evaluator_name or metric.metric_name)
                warn_of_unknown_keys(metric, evaluator)
                if isinstance(evaluator, BuiltInEvaluator):
                    evaluator.check_metric(metric)

    async def _evaluate_cases(self, request: EvaluateRequest, context: Context) -> list[EvalCaseResult]:
        cases = {case.eval_id: case for case in self._get_eval_set(request).eval_cases}
        for inference in request.inference_results:
            if inference.eval_case_id not in cases:
                raise NotFoundError(f"{request.eval_set_id} has no case {inference.eval_case_id!r}")
        self.check_metrics(request)
        evaluate = partial(self._evaluate_case, request, context, cases)
        async with ModelPool(_build_llm_context()) as pool:
            with provide_judges(self._build_judges(pool)):
                return await _map_in_order(evaluate, request.inference_results, self._evaluations_at_once)

    async def _evaluate_case(
        self,
        request: EvaluateRequest,
        context: Context,
        cases: dict[str, EvalCase],
        inference: InferenceResult,
    ) -> EvalCaseResult:
        start, eval_id = time.time(), inference.eval_case_id
        where = f"app={request.app_name}, evalSetID={request.eval_set_id}, evalCaseID={eval_id}"
        before = BeforeEvaluateCaseArgs(request, eval_id)
        context = await self._callbacks.run_point("before_evaluate_case", context, before, where)
        metrics = request.evaluate_config.eval_metrics
        result = await score_case_run(cases[eval_id], inference, metrics, self._registry)
        after = AfterEvaluateCaseArgs(request, inference, result, None, start)
        await self._callbacks.run_point("after_evaluate_case", context, after, where)
        return result

    def _build_judges(self, pool: ModelPool) -> JudgeResolver:
        return JudgeResolver(pool, self._judge, forced_by_cli=self._judge is not None)


async def _run_case(
    runner: CaseRunner | None, case: EvalCase, app_name: str, session_id: str
) -> list[Invocation]:
    """Return the recorded turns of a case. If no turns are recorded, run a new conversation.

    Raises:
        InferenceError: the case is invalid, the agent failed, or there is no agent.
    """
    core = build_core_case(case, app_name, session_id)
    if core.recorded is not None:
        return [turn.model_copy(deep=True) for turn in case.actual_conversation or case.conversation]
    if runner is None:
        raise InferenceError("there is no runner, and the case is not in trace mode")
    run = await runner.make_run(core, 1)
    if run.failure is not None:
        raise InferenceError(run.failure.message)
    return build_invocations(run)


def _select_cases(eval_set: EvalSet, request: InferenceRequest) -> list[EvalCase]:
    """Return the requested cases in the order of the eval set. If none is requested, return all cases.

    Raises:
        NotFoundError: the set lacks a requested case, which tRPC-Agent-Go would ignore.
    """
    known = {case.eval_id for case in eval_set.eval_cases}
    for name in request.eval_case_ids:
        if name not in known:
            raise NotFoundError(f"the eval set {eval_set.eval_set_id} has no case {name!r}")
    wanted = set(request.eval_case_ids) or known
    return [case for case in eval_set.eval_cases if case.eval_id in wanted]


def _refuse_repeats(eval_set_id: str, noun: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidInputError(
                f"the eval set {eval_set_id} has {count} {noun} {name!r}: give each a name of its own"
            )


async def _map_in_order(
    function: Callable[[_Item], Awaitable[_Result]], items: Sequence[_Item], at_once: int
) -> list[_Result]:
    """Call `function` on each item and return the results in order. At most `at_once` calls run at a time.

    The first error cancels all other calls, and is raised.
    """
    if at_once == 1:
        return [await function(item) for item in items]
    gate = asyncio.Semaphore(at_once)

    async def run_one(item: _Item) -> _Result:
        async with gate:
            return await function(item)

    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(run_one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def _build_llm_context() -> LlmContext:
    redactor = LiveRedactor.from_environment(os.environ)
    # As in tRPC-Agent-Go, every run asks the judge again: its answers are not cached.
    return LlmContext(Path.cwd(), os.environ, redactor=redactor, cache_mode="off")


@dataclass
class _RedactedCase:
    """Wrapper of one result's decoded JSON: secrets are found faster in a dataclass than in a dict."""

    value: dict[str, Any]


def _redact_results(results: list[EvalCaseResult]) -> list[EvalCaseResult]:
    redactor = LiveRedactor.from_environment(os.environ)
    cases = [_RedactedCase(result.to_wire()) for result in results]
    redacted = redactor.redact_tree(cases)
    return [
        result if case is clean else EvalCaseResult.model_validate(case.value, context=FROM_FILE)
        for result, case, clean in zip(results, redacted, cases, strict=True)
    ]


def _parse_judge(name: str) -> JudgeConfig:
    parsed = parse_model_name(name)
    if parsed is None:
        raise InvalidInputError(f"`judge` is {name!r}: it must be PROVIDER/MODEL")
    return JudgeConfig(provider=parsed[0], model=parsed[1])

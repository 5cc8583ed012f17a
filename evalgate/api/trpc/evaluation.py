"""tRPC-Agent-Go's `AgentEvaluator`: run an eval set several times, score it and summarize the runs."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Self

from evalgate.api.arguments import check_arguments, require_text
from evalgate.api.evaluation import run_blocking
from evalgate.api.trpc.callbacks import Callbacks
from evalgate.api.trpc.criteria import EvalMetric
from evalgate.api.trpc.errors import CallbackError
from evalgate.api.trpc.evaluators import Registry
from evalgate.api.trpc.managers import LocalEvalResultManager, LocalEvalSetManager, LocalMetricManager
from evalgate.api.trpc.protocols import EvalResultManager, EvalSetManager, MetricManager, Service
from evalgate.api.trpc.requests import EvaluateConfig, EvaluateRequest, InferenceRequest
from evalgate.api.trpc.results import EvalCaseResult, EvalSetResult, EvaluationResult
from evalgate.api.trpc.service import LocalService
from evalgate.api.trpc.summaries import aggregate_case, build_summary
from evalgate.core.errors import InvalidInputError


class AgentEvaluator:
    """Evaluator of an agent, created by `new`. A `with` block closes the evaluator at the end of the block.

    >>> from evalgate.api import trpc
    >>> sets, metrics = trpc.InMemoryEvalSetManager(), trpc.InMemoryMetricManager()
    >>> _ = sets.create("app", "greetings")
    >>> hi, hello = trpc.Message(role="user", content="Hi"), trpc.Message(role="assistant", content="Hello")
    >>> turn = trpc.Invocation(user_content=hi, final_response=hello)
    >>> case = trpc.EvalCase(eval_id="a", conversation=[turn], session_input=trpc.SessionInput())
    >>> sets.add_case("app", "greetings", case)
    >>> criterion = trpc.Criterion(final_response=trpc.FinalResponseCriterion(text=trpc.TextCriterion()))
    >>> metrics.add("app", "greetings", trpc.EvalMetric(
    ...     metric_name="final_response_avg_score", threshold=1.0, criterion=criterion))
    >>> results = trpc.InMemoryEvalResultManager()
    >>> with trpc.new("app", lambda text: "Hello", eval_set_manager=sets, metric_manager=metrics,
    ...               eval_result_manager=results) as evaluator:
    ...     evaluator.evaluate("greetings").overall_status
    'passed'
    """

    def __init__(
        self,
        app_name: str,
        service: Service,
        *,
        metric_manager: MetricManager,
        eval_result_manager: EvalResultManager,
        num_runs: int,
    ) -> None:
        self._app_name = app_name
        self._service = service
        self._metrics = metric_manager
        self._results = eval_result_manager
        self._num_runs = num_runs
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the evaluator. Later calls of `evaluate` raise InvalidInputError. Its managers stay open."""
        self._is_closed = True

    def evaluate(self, eval_set_id: str, *, eval_case_ids: Sequence[str] = ()) -> EvaluationResult:
        """Run the cases of an eval set and score them. Save the result of all runs and return it.

        This is the blocking form of `evaluate_async`, with the same arguments. It also works where an event
        loop already runs, such as in a notebook.

        Raises:
            NotFoundError: the eval set, a case or the evaluator of a metric does not exist.
            EvalgateError: the input, a callback, the agent or the storage fails; `evaluate_async` lists the
                errors.
        """
        return run_blocking(lambda: self.evaluate_async(eval_set_id, eval_case_ids=eval_case_ids))

    async def evaluate_async(
        self, eval_set_id: str, *, eval_case_ids: Sequence[str] = ()
    ) -> EvaluationResult:
        """Run the cases of an eval set and score them. Save the result of all runs and return it.

        Nothing is saved if an error is raised. A case that fails raises no error: its status is `failed`.

        Args:
            eval_set_id: Id of the eval set.
            eval_case_ids: Ids of the cases to evaluate; empty: all cases.

        Raises:
            NotFoundError: the eval set, a case or the evaluator of a metric does not exist. In tRPC-Agent-Go,
                a metric without an evaluator is left out.
            InvalidInputError: a file, a criterion or an argument is invalid, or the evaluator is closed.
            CallbackError: a callback failed. If a callback fails at the inference of a single case, only this
                case fails, and no error is raised.
            EvalgateError: the agent cannot be set up, or the result cannot be saved.
        """
        if self._is_closed:
            raise InvalidInputError("the evaluator is closed")
        require_text("eval_set_id", eval_set_id)
        if isinstance(eval_case_ids, str):  # a sequence, too: of ids with one character
            raise InvalidInputError(f"`eval_case_ids` must be a list of ids of cases, not {eval_case_ids!r}")
        start = time.monotonic_ns()
        metrics = self._load_metrics(eval_set_id)
        results: list[EvalCaseResult] = []
        service = self._service
        async with service.keep_agent() if isinstance(service, LocalService) else nullcontext():
            for run_id in range(1, self._num_runs + 1):
                # Callbacks may change a request, so each run gets its own.
                request = InferenceRequest(self._app_name, eval_set_id, list(eval_case_ids))
                results += await self._run_once(request, EvaluateConfig(list(metrics)), run_id)
        names = dict.fromkeys(result.eval_id for result in results)
        cases = [aggregate_case(name, [each for each in results if each.eval_id == name]) for name in names]
        summary = build_summary(cases, self._num_runs)
        kept = EvalSetResult(eval_set_id=eval_set_id, eval_case_results=results, summary=summary)
        self._results.save(self._app_name, kept)
        return EvaluationResult(
            app_name=self._app_name,
            eval_set_id=eval_set_id,
            overall_status=summary.overall_status,
            execution_time=time.monotonic_ns() - start,
            eval_cases=cases,
            eval_set_result=kept,
        )

    def _load_metrics(self, eval_set_id: str) -> list[EvalMetric]:
        names = self._metrics.list(self._app_name, eval_set_id)
        metrics = [self._metrics.get(self._app_name, eval_set_id, name) for name in names]
        if isinstance(self._service, LocalService):
            config = EvaluateConfig(metrics)
            self._service.check_metrics(EvaluateRequest(self._app_name, eval_set_id, [], config))
        return metrics

    async def _run_once(
        self, request: InferenceRequest, config: EvaluateConfig, run_id: int
    ) -> list[EvalCaseResult]:
        phase = "inference"
        try:
            inferences = await self._service.inference_async(request)
            phase = "evaluate"
            result = await self._service.evaluate_async(
                EvaluateRequest(self._app_name, request.eval_set_id, inferences, config)
            )
        except CallbackError as error:
            where = f"collect eval case results: run evaluation: run {run_id} {phase}"
            raise CallbackError(f"{where}: {error}") from error.__cause__
        for case in result.eval_case_results:
            case.run_id = run_id
        return result.eval_case_results


def new(
    app_name: str,
    runner: object = None,
    *,
    eval_set_manager: EvalSetManager | None = None,
    metric_manager: MetricManager | None = None,
    eval_result_manager: EvalResultManager | None = None,
    registry: Registry | None = None,
    num_runs: int = 1,
    callbacks: Callbacks | None = None,
    session_id_supplier: Callable[[], str] | None = None,
    eval_case_parallelism: int | None = None,
    eval_case_parallel_inference_enabled: bool = False,
    eval_case_parallel_evaluation_enabled: bool = False,
    timeout: float | None = None,
    judge: str | None = None,
    evaluation_service: Service | None = None,
) -> AgentEvaluator:
    """Create an evaluator, as `evaluation.New` of tRPC-Agent-Go does.

    Args:
        app_name: Name of the app; managers store its eval sets, metrics and results under this name.
        runner: An agent, as for `evalgate.evaluate`. It may be None if all cases have recorded replies.
        eval_set_manager: Storage for eval sets; default: files below the working folder.
        metric_manager: Storage for the metrics of eval sets; default: files below the working folder.
        eval_result_manager: Storage for results; default: files below the working folder.
        registry: The evaluators by name; default: the built-in evaluators.
        num_runs: Runs of each case.
        callbacks: Functions to call at eight points of the evaluation.
        session_id_supplier: Function that creates the session id of each case; default: a UUID. An agent of
            this process reads the id as `session.id`.
        eval_case_parallelism: Greatest number of cases at once, for phases that the next two arguments make
            parallel; default: the number of processors.
        eval_case_parallel_inference_enabled: True: the agent is run on several cases at once, not one by one.
        eval_case_parallel_evaluation_enabled: True: several cases are scored at once, not one by one.
        timeout: Seconds that one turn of the agent may take.
        judge: A judge model, as `PROVIDER/MODEL`, that replaces the judge model of every metric.
        evaluation_service: A service to use instead of a new one. Then only the arguments `app_name`,
            `metric_manager`, `eval_result_manager` and `num_runs` still have an effect.

    Raises:
        InvalidInputError: an argument is invalid.

    >>> new("app", lambda text: "Hello").close()
    """
    require_text("app_name", app_name)
    check_arguments({"num_runs": num_runs}, required=frozenset({"num_runs"}))
    if num_runs < 1:
        raise InvalidInputError("`num_runs` must be at least 1")
    service = evaluation_service or LocalService(
        runner,
        eval_set_manager=LocalEvalSetManager() if eval_set_manager is None else eval_set_manager,
        registry=registry,
        callbacks=callbacks,
        session_id_supplier=session_id_supplier,
        eval_case_parallelism=eval_case_parallelism,
        eval_case_parallel_inference_enabled=eval_case_parallel_inference_enabled,
        eval_case_parallel_evaluation_enabled=eval_case_parallel_evaluation_enabled,
        timeout=timeout,
        judge=judge,
    )
    return AgentEvaluator(
        app_name,
        service,
        metric_manager=LocalMetricManager() if metric_manager is None else metric_manager,
        eval_result_manager=LocalEvalResultManager() if eval_result_manager is None else eval_result_manager,
        num_runs=num_runs,
    )

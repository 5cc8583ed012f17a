"""Google ADK's `LocalEvalService` (release 2.3.0): inference and evaluation as two async iterators.

evalgate computes the scores and statuses; their values are the same as in ADK. Unlike in ADK, the
conversations take place in evalgate's own sessions. So `session_details` is always None.
"""

import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator
from pydantic.alias_generators import to_camel

from evalgate.api.adk_documents import NotFoundError
from evalgate.api.adk_managers import EvalSetsManager
from evalgate.api.adk_result_managers import EvalSetResultsManager
from evalgate.api.adk_results import InferenceResult, InferenceStatus, get_adk_type, read_adk_model
from evalgate.api.conversations import iter_conversations
from evalgate.api.evaluation import evaluate_plan
from evalgate.api.evaluation_plan import EvaluationOptions, build_evaluation_plan, load_sources
from evalgate.config.loader import parse_adk_config
from evalgate.core import types
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import join_quoted
from evalgate.core.types import CaseTurn, EvalSet, Reply, RunResult, UserMessage
from evalgate.integrations.adk.report import build_eval_set_results
from evalgate.integrations.adk.writer import build_invocation

EVAL_SESSION_ID_PREFIX = "___eval___session___"
_USER_ID = "test_user_id"
"""Default user id for a case without a user, as in Google ADK."""


class _RequestModel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class InferenceConfig(_RequestModel):
    """Options of the inference: the phase in which the agent is run on the cases.

    >>> InferenceConfig().parallelism
    4
    """

    labels: dict[str, str] | None = None
    """Accepted for compatibility, and ignored: evalgate adds no labels to the calls of models."""
    parallelism: int = 4
    """Greatest number of conversations at once."""


class InferenceRequest(_RequestModel):
    """The cases to run the agent on. If `eval_case_ids` is None or empty, all cases of the set are run.

    >>> InferenceRequest(app_name="a", eval_set_id="s", inference_config=InferenceConfig()).eval_case_ids
    """

    app_name: str
    eval_set_id: str
    eval_case_ids: list[str] | None = None
    inference_config: InferenceConfig = InferenceConfig()


class EvaluateConfig(_RequestModel):
    """The metrics to score, as `EvalMetric` objects or mappings.

    >>> EvaluateConfig(eval_metrics=[]).parallelism
    4
    """

    eval_metrics: list[Any]
    parallelism: int = 4
    """Greatest number of runs that are scored at once."""

    @field_validator("eval_metrics")
    @classmethod
    def _read_metrics(cls, value: list[Any]) -> list[Any]:
        return [read_adk_model("EvalMetric", each) for each in value]


class EvaluateRequest(_RequestModel):
    """Conversations to score, as `InferenceResult` objects or mappings, and the metrics.

    >>> EvaluateRequest(inference_results=[], evaluate_config={"eval_metrics": []}).inference_results
    []
    """

    inference_results: list[Any]
    evaluate_config: EvaluateConfig

    @field_validator("inference_results")
    @classmethod
    def _read_results(cls, value: list[Any]) -> list[Any]:
        return [read_adk_model("InferenceResult", each) for each in value]


def _create_session_id() -> str:
    return f"{EVAL_SESSION_ID_PREFIX}{uuid.uuid4()}"


class LocalEvalService:
    """Service that runs conversations (`perform_inference`) and scores them (`evaluate`), in separate steps.

    >>> import asyncio
    >>> from evalgate.api.adk_managers import InMemoryEvalSetsManager
    >>> from evalgate.api.adk_results import EvalMetric
    >>> from evalgate.api.adk_types import Content, EvalCase, Invocation, Part
    >>> said = Invocation(user_content=Content(role="user", parts=[Part(text="Hi")]),
    ...     final_response=Content(role="model", parts=[Part(text="Hello")]))
    >>> manager = InMemoryEvalSetsManager()
    >>> _ = manager.create_eval_set("my_app", "suite")
    >>> manager.add_eval_case("my_app", "suite", EvalCase(eval_id="greets", conversation=[said]))
    >>> service = LocalEvalService(lambda text: "Hello", manager)
    >>> async def evaluate():
    ...     request = InferenceRequest(app_name="my_app", eval_set_id="suite")
    ...     made = [each async for each in service.perform_inference(request)]
    ...     metric = EvalMetric(metric_name="response_match_score", threshold=0.8)
    ...     config = EvaluateConfig(eval_metrics=[metric])
    ...     return [each async for each in service.evaluate(
    ...         EvaluateRequest(inference_results=made, evaluate_config=config))]
    >>> [(result.eval_id, result.final_eval_status.name) for result in asyncio.run(evaluate())]
    [('greets', 'PASSED')]
    """

    def __init__(
        self,
        root_agent: Any,
        eval_sets_manager: EvalSetsManager | Any,
        *,
        eval_set_results_manager: EvalSetResultsManager | Any = None,
        session_id_supplier: Callable[[], str] = _create_session_id,
        user_simulator_config: Mapping[str, Any] | None = None,
    ) -> None:
        """Create a service.

        Args:
            root_agent: An agent of Google ADK, or any agent that `evalgate.evaluate` takes.
            eval_sets_manager: The eval sets, in a manager of this library or of Google ADK.
            eval_set_results_manager: Manager with which `evaluate` stores the results of each eval set; None:
                results are not stored.
            session_id_supplier: Function that makes a session id if the agent's framework makes none.
            user_simulator_config: Settings of the simulated user, as in `EvalConfig`. None: cases with a
                `conversation_scenario` get the status FAILURE.
        """
        self._agent = root_agent
        self._eval_sets = eval_sets_manager
        self._results = eval_set_results_manager
        self._create_session_id = session_id_supplier
        self._user = user_simulator_config

    async def perform_inference(self, inference_request: InferenceRequest) -> AsyncIterator[Any]:
        """Run the agent on each case. Yield an `InferenceResult` as soon as a conversation is over.

        If the agent does not answer, the result has the status FAILURE.

        Raises:
            NotFoundError: the eval set or a case does not exist.
            InvalidInputError: the eval set or `user_simulator_config` cannot be used.
            EvalgateError: the agent cannot be set up.
        """
        request = inference_request
        found = self._eval_sets.get_eval_set(request.app_name, request.eval_set_id)
        if found is None:
            raise NotFoundError(
                f"Eval set with id {request.eval_set_id} not found for app {request.app_name}"
            )
        wanted = set(request.eval_case_ids or ())
        missing = sorted(wanted - {case.eval_id for case in found.eval_cases})
        if missing:
            raise NotFoundError(
                f"Eval cases {join_quoted(missing)} not found in eval set {request.eval_set_id} for app "
                f"{request.app_name}"
            )
        cases = [case for case in found.eval_cases if not wanted or case.eval_id in wanted]
        eval_set = _load_cases(request.eval_set_id, cases)
        at_once = request.inference_config.parallelism
        # Without criteria: nothing is scored here.
        thresholds = parse_adk_config({"criteria": {}, "user_simulator_config": self._user}, Path.cwd())
        async for eval_id, run in iter_conversations(
            eval_set, self._agent, thresholds=thresholds, concurrency=at_once
        ):
            yield self._build_inference(request, eval_id, run)

    def _build_inference(self, request: InferenceRequest, eval_id: str, run: RunResult) -> Any:
        is_answered = run.outcome == "answered"
        status = InferenceStatus.SUCCESS if is_answered else InferenceStatus.FAILURE
        turns = [CaseTurn(UserMessage(turn.user), turn.actual or Reply()) for turn in run.turns]
        return get_adk_type("InferenceResult").model_validate(
            {
                "app_name": request.app_name,
                "eval_set_id": request.eval_set_id,
                "eval_case_id": eval_id,
                "inferences": [build_invocation(turn) for turn in turns] if is_answered else None,
                "session_id": run.session_id or self._create_session_id(),
                "status": status.value,
                "error_message": run.failure.message if run.failure else None,
            }
        )

    async def evaluate(self, evaluate_request: EvaluateRequest) -> AsyncIterator[Any]:
        """Score conversations, and yield an `EvalCaseResult` for each, in the order of the conversations.

        Several conversations of one case count as several runs of the case. If the service has a manager of
        results, it stores the results after it has yielded the last `EvalCaseResult`. So iterate to the end.

        Raises:
            NotFoundError: a case does not exist.
            InvalidInputError: no metric is given, or a metric is given twice, unknown or unusable.
        """
        config = evaluate_request.evaluate_config
        _check_metrics(config)
        stored: dict[tuple[str, str], list[Any]] = {}
        results = evaluate_request.inference_results
        for batch in _split_runs(results):
            scored = await self._score_batch(batch, config)
            for inference in batch:
                result = scored[inference.eval_set_id, inference.eval_case_id]
                stored.setdefault((inference.app_name, inference.eval_set_id), []).append(result)
                yield result
        if self._results is not None:
            for (app_name, eval_set_id), found in stored.items():
                self._results.save_eval_set_result(app_name, eval_set_id, found)

    async def _score_batch(
        self, batch: Sequence[InferenceResult], config: EvaluateConfig
    ) -> dict[tuple[str, str], Any]:
        """Score conversations and return the results by (eval set id, case id).

        `batch` has at most one conversation of each case.

        Raises:
            NotFoundError: a case does not exist.
            InvalidInputError: a metric is unknown or cannot be used.
        """
        found: dict[tuple[str, str], Any] = {}
        by_set: dict[tuple[str, str], list[InferenceResult]] = {}
        for inference in batch:
            by_set.setdefault((inference.app_name, inference.eval_set_id), []).append(inference)
        for (app_name, eval_set_id), inferences in by_set.items():
            cases = {each.eval_case_id: self._get_case(each) for each in inferences}
            answered = [each for each in inferences if each.inferences is not None]
            record = await _score_inferences(eval_set_id, answered, cases, config) if answered else None
            contents = {} if record is None else _index_results(record, app_name)
            for each in inferences:
                content = contents.get(each.eval_case_id, _build_failed(each))
                session = getattr(cases[each.eval_case_id], "session_input", None)
                content = content | {
                    "session_id": each.session_id or "",
                    "user_id": getattr(session, "user_id", "") or _USER_ID,
                }
                model = get_adk_type("EvalCaseResult")
                found[eval_set_id, each.eval_case_id] = model.model_validate(content)
        return found

    def _get_case(self, inference: InferenceResult) -> Any:
        names = inference.app_name, inference.eval_set_id, inference.eval_case_id
        case = self._eval_sets.get_eval_case(*names)
        if case is None:
            raise NotFoundError(
                f"Eval case with id {names[2]} not found for app {names[0]} and eval set {names[1]}."
            )
        return case


def _load_cases(eval_set_id: str, cases: Sequence[Any]) -> EvalSet:
    content = {
        "eval_set_id": eval_set_id,
        "eval_cases": [case.model_dump(mode="json", exclude_none=True) for case in cases],
    }
    (eval_set,) = load_sources(content, "adk", Path.cwd())
    return eval_set


def _split_runs(results: Sequence[InferenceResult]) -> Iterator[list[InferenceResult]]:
    """Split the results into batches, in order. No batch has two results of the same case."""
    batch: dict[tuple[str, str], InferenceResult] = {}
    for result in results:
        key = result.eval_set_id, result.eval_case_id
        if key in batch:
            yield list(batch.values())
            batch = {}
        batch[key] = result
    if batch:
        yield list(batch.values())


async def _score_inferences(
    eval_set_id: str,
    inferences: Sequence[InferenceResult],
    cases: dict[str, Any],
    config: EvaluateConfig,
) -> types.Record:
    thresholds = parse_adk_config(_build_config(config), Path.cwd())
    expected = _load_cases(eval_set_id, [cases[each.eval_case_id] for each in inferences])
    said = _load_replies(eval_set_id, inferences)
    recorded = [replace(case, recorded=said[case.eval_id]) for case in expected.cases]
    options = EvaluationOptions(built_thresholds=thresholds, runs=1, concurrency=config.parallelism)
    plan = build_evaluation_plan(replace(expected, cases=tuple(recorded)), _refuse_turn, options)
    return await evaluate_plan(plan)


def _refuse_turn(text: str) -> str:
    raise AssertionError(f"the conversation is recorded, and yet the agent was asked: {text}")


def _load_replies(eval_set_id: str, inferences: Sequence[InferenceResult]) -> dict[str, tuple[Reply, ...]]:
    content = [
        {
            "eval_id": each.eval_case_id,
            "conversation": [
                turn.model_dump(mode="json", exclude_none=True) for turn in each.inferences or ()
            ],
        }
        for each in inferences
    ]
    (said,) = load_sources({"eval_set_id": eval_set_id, "eval_cases": content}, "adk", Path.cwd())
    return {case.eval_id: tuple(turn.expected for turn in case.turns) for case in said.cases}


def _check_metrics(config: EvaluateConfig) -> None:
    counts = Counter(metric.metric_name for metric in config.eval_metrics)
    if not counts:
        raise InvalidInputError("`eval_metrics` is empty: nothing would be evaluated")
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise InvalidInputError(f"`eval_metrics` has {join_quoted(repeated)} twice: each metric counts once")


def _build_config(config: EvaluateConfig) -> dict[str, Any]:
    """Convert the metrics of a request to the content of a `test_config.json`."""
    criteria: dict[str, Any] = {}
    custom: dict[str, Any] = {}
    for metric in config.eval_metrics:
        criterion = metric.criterion
        criteria[metric.metric_name] = (
            metric.threshold if criterion is None else criterion.model_dump(mode="json", exclude_none=True)
        )
        if metric.custom_function_path:
            custom[metric.metric_name] = {"code_config": {"name": metric.custom_function_path}}
    return {"criteria": criteria, **({"custom_metrics": custom} if custom else {})}


def _index_results(record: types.Record, app_name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for result in build_eval_set_results(record, app_name):
        found |= {each["eval_id"]: each for each in result["eval_case_results"]}
    return found


def _build_failed(inference: InferenceResult) -> dict[str, Any]:
    """Build the fields of an `EvalCaseResult` for a conversation in which the agent did not answer."""
    return {
        "eval_set_file": inference.eval_set_id,
        "eval_set_id": inference.eval_set_id,
        "eval_id": inference.eval_case_id,
        "final_eval_status": 2,
        "overall_eval_metric_results": [],
        "eval_metric_result_per_invocation": [],
    }

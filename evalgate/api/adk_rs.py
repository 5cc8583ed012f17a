"""The evaluation API of adk-rs 0.6, with adk-rs' names: eval sets, evaluators and the runner.

Scores and statuses are the same as in adk-rs, except for two rules. If the agent does not answer a case,
adk-rs ends the whole set; here, only the case fails. A case without turns fails here, because nothing was
evaluated.
"""

import asyncio
import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, Self

from pydantic import BaseModel, model_validator

from evalgate.api.adk_rs_types import (
    Content,
    EvalCase,
    EvalSet,
    IntermediateData,
    Invocation,
    Part,
    SessionInput,
    ToolUse,
)
from evalgate.api.arguments import require_text
from evalgate.api.conversations import hold_conversations
from evalgate.core import types
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    CaseTurn,
    Event,
    Message,
    Reply,
    RunResult,
    ToolCall,
)
from evalgate.core.types import (
    SessionInput as CoreSession,
)
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.adk_rs.cases import AdkRsCase, build_adk_rs_case
from evalgate.integrations.adk_rs.evalset import AdkRsFormat
from evalgate.integrations.adk_rs.metrics import AdkRsResponseMatch, AdkRsToolTrajectory
from evalgate.system.files import read_input_text

__all__ = [
    "Content",
    "EvalCase",
    "EvalReport",
    "EvalResult",
    "EvalRunner",
    "EvalScore",
    "EvalSet",
    "EvalStatus",
    "Evaluator",
    "IntermediateData",
    "Invocation",
    "Part",
    "ResponseMatch",
    "SessionInput",
    "ToolUse",
    "TrajectoryMatch",
    "combine_scores",
    "load_eval_set_from_file",
    "load_eval_set_from_str",
]


def load_eval_set_from_str(text: str) -> EvalSet:
    """Parse an eval set from JSON.

    Args:
        text: The JSON. The id of a set has the key `id` or `eval_set_id`. The id of a case has the key `id`
            or `eval_id`.

    Raises:
        InvalidInputError: the text is not a valid eval set; the error lists every problem with its line and
            column.

    >>> load_eval_set_from_str('{"eval_set_id": "hello", "eval_cases": []}').id
    'hello'
    """
    require_text("text", text)
    return _load_eval_set(text.encode(), "eval set")


async def load_eval_set_from_file(path: str | Path) -> EvalSet:
    """Read an eval set from a JSON file.

    Args:
        path: The file. The id of a set has the key `id` or `eval_set_id`. The id of a case has the key `id`
            or `eval_id`.

    Raises:
        InvalidInputError: the file cannot be read or is invalid; the error lists every problem.

    >>> import asyncio, pathlib
    >>> _ = pathlib.Path("hello.evalset.json").write_text('{"eval_set_id": "hello", "eval_cases": []}')
    >>> asyncio.run(load_eval_set_from_file("hello.evalset.json")).id
    'hello'
    """
    text = await asyncio.to_thread(read_input_text, Path(path), str(path))
    return _load_eval_set(text.encode(), str(path))


def _load_eval_set(data: bytes, shown_as: str) -> EvalSet:
    document = parse_json(data, shown_as)
    AdkRsFormat().read_eval_set(document)  # raises every problem with its position
    return EvalSet.model_validate(document.value)


# --- evaluators ---------------------------------------------------------------------------------------------


class EvalStatus(StrEnum):
    """Status of a score, of a metric or of a case.

    >>> EvalStatus.PASSED.value
    'PASSED'
    """

    PASSED = "PASSED"
    FAILED = "FAILED"
    ERROR = "ERROR"


class EvalScore(BaseModel):
    """Score of one invocation, or of one metric over all invocations of a case.

    A score that is not finite becomes 0.0 with the status ERROR.

    >>> EvalScore(score=0.5, status=EvalStatus.FAILED).model_dump_json()
    '{"score":0.5,"status":"FAILED","details":null}'
    """

    score: float
    status: EvalStatus
    details: Any = None
    """Further data about the score, such as a reason, as any JSON value; None: no details."""

    @model_validator(mode="after")
    def _refuse_infinite_score(self) -> Self:
        if not math.isfinite(self.score):  # JSON cannot hold NaN or infinity, and NaN cannot be compared
            error = f"the score is {self.score}"
            self.details = {"error": error} if self.details is None else self.details
            self.score, self.status = 0.0, EvalStatus.ERROR
        return self

    @classmethod
    def from_threshold(cls, score: float, threshold: float, details: Any = None) -> Self:
        """Return `score` with the status PASSED if it reaches the threshold, otherwise with FAILED.

        As in adk-rs, a score that is up to 1e-9 below the threshold still passes. A score that is not finite
        becomes 0.0 with the status ERROR.

        >>> EvalScore.from_threshold(0.8, 0.8).status.value
        'PASSED'
        """
        status = EvalStatus.PASSED if score + 1e-9 >= threshold else EvalStatus.FAILED
        return cls(score=score, status=status, details=details)


class Evaluator(Protocol):
    """A custom metric: any object with a property `name` and an async method `evaluate`.

    >>> class Length:
    ...     name = "short"
    ...     async def evaluate(self, expected: Invocation, actual: Invocation) -> EvalScore:
    ...         words = actual.final_response.parts[0]["text"].split()
    ...         return EvalScore.from_threshold(1.0 if len(words) < 20 else 0.0, 1.0, {"words": len(words)})
    """

    @property
    def name(self) -> str:
        """Return the key of the metric in `EvalResult.scores`."""
        ...

    async def evaluate(self, expected: Invocation, actual: Invocation) -> EvalScore:
        """Score the actual invocation by comparison with the expected one.

        An exception ends the evaluation of the whole set, as an `Err` does in adk-rs.
        """
        ...


class TrajectoryMatch:
    """Evaluator of tool calls: the share of calls that equal the expected call at the same position.

    Two calls are equal if their names and arguments are equal.

    The number of equal calls is divided by the length of the longer list, expected or actual. If both lists
    are empty, the score is 0.0, as in adk-rs. The constructor raises InvalidInputError if `threshold` is
    negative or not finite.

    >>> TrajectoryMatch().threshold
    1.0
    """

    name = "tool_trajectory_avg_score"

    def __init__(self, threshold: float = 1.0) -> None:
        self.threshold = _check_threshold(threshold)
        self._metric = AdkRsToolTrajectory(threshold=threshold)

    async def evaluate(self, expected: Invocation, actual: Invocation) -> EvalScore:
        """Score the calls in `tool_uses` of the actual invocation."""
        return _score_with(self._metric, expected, actual)


class ResponseMatch:
    """Evaluator of the final response: the share of the expected words that the response contains.

    The order of the words and upper case do not matter. If no word is expected, the score is 1.0. The
    constructor raises InvalidInputError if `threshold` is negative or not finite.

    >>> ResponseMatch().threshold
    0.8
    """

    name = "final_response_match_v1"

    def __init__(self, threshold: float = 0.8) -> None:
        self.threshold = _check_threshold(threshold)
        self._metric = AdkRsResponseMatch(threshold=threshold)

    async def evaluate(self, expected: Invocation, actual: Invocation) -> EvalScore:
        """Score `final_response` of the actual invocation."""
        return _score_with(self._metric, expected, actual)


def _check_threshold(threshold: float) -> float:
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not (is_number and math.isfinite(threshold) and threshold >= 0.0):
        raise InvalidInputError(f"the threshold is {threshold!r}; it must be a number of at least 0")
    return threshold


def _score_with(
    metric: AdkRsToolTrajectory | AdkRsResponseMatch, expected: Invocation, actual: Invocation
) -> EvalScore:
    found = metric.score_turn(_build_turn(expected), _build_turn(actual).expected)
    status = EvalStatus.PASSED if found.passed else EvalStatus.FAILED
    return EvalScore(score=found.score or 0.0, status=status, details=found.details)


def _build_turn(invocation: Invocation) -> CaseTurn:
    raw = {"eval_id": "invocation", "conversation": [invocation.model_dump()]}
    return build_adk_rs_case(AdkRsCase.model_validate(raw), 0, raw).turns[0]


# --- the runner ---------------------------------------------------------------------------------------------


class EvalResult(BaseModel):
    """Result of one case: the score of each evaluator, and the status of the case.

    >>> result = EvalResult(eval_set_id="s", eval_case_id="c", scores={}, overall_status=EvalStatus.FAILED)
    >>> result.overall_status.value
    'FAILED'
    """

    eval_set_id: str
    eval_case_id: str
    scores: dict[str, EvalScore]
    """Mean score by evaluator name; `details["per_invocation"]` has the score of each invocation."""
    overall_status: EvalStatus
    """PASSED if the case has turns, the agent answered all of them and every metric passed, else FAILED."""


class EvalReport(BaseModel):
    """Results of all cases of a set, in the order of the cases.

    >>> EvalReport(results=[]).model_dump_json()
    '{"results":[]}'
    """

    results: list[EvalResult]


class EvalRunner:
    """Runner of eval sets: runs an agent on the cases, one after the other, and scores every invocation.

    >>> import asyncio
    >>> eval_set = load_eval_set_from_str('''{"eval_set_id": "hello", "eval_cases": [{"eval_id": "greets",
    ...     "conversation": [{"user_content": {"role": "user", "parts": [{"text": "Hi"}]},
    ...         "final_response": {"role": "model", "parts": [{"text": "Hello"}]}}]}]}''')
    >>> runner = EvalRunner(lambda text: "Hello there", "hello_world", "eval-user", [ResponseMatch(0.5)])
    >>> report = asyncio.run(runner.run_set(eval_set))
    >>> [(result.eval_case_id, result.overall_status.value) for result in report.results]
    [('greets', 'PASSED')]
    """

    def __init__(
        self,
        agent: object,
        app_name: str,
        user_id: str,
        evaluators: Sequence[Evaluator] | None = None,
    ) -> None:
        """Create a runner.

        Args:
            agent: A function, an object, a framework's agent, or a text such as `python:agent.py:answer`, as
                for `evalgate.evaluate`.
            app_name: Name of the app for every session; names in the cases are ignored.
            user_id: Id of the user for every session; ids in the cases are ignored.
            evaluators: The metrics. None: `TrajectoryMatch(1.0)` and `ResponseMatch(0.5)`, as in adk-rs'
                command.

        Raises:
            InvalidInputError: `evaluators` is empty, or two evaluators have the same name.
        """
        self._agent = agent
        self._app_name = app_name
        self._user_id = user_id
        self._evaluators: tuple[Evaluator, ...] = (
            (TrajectoryMatch(1.0), ResponseMatch(0.5)) if evaluators is None else tuple(evaluators)
        )
        names = [each.name for each in self._evaluators]
        if not names:
            raise InvalidInputError("`evaluators` is empty: nothing would be evaluated")
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if repeated:
            raise InvalidInputError(f"two evaluators have the name `{repeated[0]}`")

    async def run_set(self, eval_set: EvalSet) -> EvalReport:
        """Run and score the cases in order, each in a new session. Return the results.

        Raises:
            InvalidInputError: the agent or the set cannot be used, or an evaluator did not return an
                `EvalScore`.
            EvalgateError: the agent cannot be set up.
            Exception: an evaluator raised it.
        """
        return EvalReport(results=await self._run_cases(eval_set.eval_set_id, eval_set.eval_cases))

    async def run_case(self, set_id: str, case: EvalCase) -> EvalResult:
        """Run and score one case. `set_id` becomes the `eval_set_id` of the result.

        Raises:
            InvalidInputError: the agent or the case cannot be used, or an evaluator did not return an
                `EvalScore`.
            EvalgateError: the agent cannot be set up.
            Exception: an evaluator raised it.
        """
        [result] = await self._run_cases(set_id, [case])
        return result

    async def _run_cases(self, set_id: str, cases: Sequence[EvalCase]) -> list[EvalResult]:
        eval_set = types.EvalSet(
            set_id, tuple(self._build_case(set_id, case) for case in cases if case.conversation)
        )
        runs: dict[str, RunResult] = {}
        if eval_set.cases:
            record = await hold_conversations([eval_set], self._agent, concurrency=1)
            runs = {case.eval_id: case.runs[0] for case in record.cases}
        return [await self._score_case(set_id, case, runs.get(case.eval_id)) for case in cases]

    def _build_case(self, set_id: str, case: EvalCase) -> types.EvalCase:
        raw = case.model_dump()
        built = build_adk_rs_case(AdkRsCase.model_validate(raw), 0, raw)
        state = case.session_input.state if case.session_input else {}
        return replace(built, session=CoreSession(self._app_name, self._user_id, state), eval_set_id=set_id)

    async def _score_case(self, set_id: str, case: EvalCase, run: RunResult | None) -> EvalResult:
        scores: dict[str, list[EvalScore]] = {}
        for index, expected in enumerate(case.conversation):
            reply = run.turns[index].actual if run and index < len(run.turns) else None
            actual = None if reply is None else _build_invocation(expected, reply)
            for evaluator in self._evaluators:
                score = _UNANSWERED if actual is None else await _evaluate(evaluator, expected, actual)
                scores.setdefault(evaluator.name, []).append(score)
        failure = run.failure.message if run and run.failure else ""
        combined = {name: combine_scores(found, failure) for name, found in scores.items()}
        passed = bool(case.conversation) and not failure
        passed = passed and all(score.status is EvalStatus.PASSED for score in combined.values())
        return EvalResult(
            eval_set_id=set_id,
            eval_case_id=case.eval_id,
            scores=combined,
            overall_status=EvalStatus.PASSED if passed else EvalStatus.FAILED,
        )


async def _evaluate(evaluator: Evaluator, expected: Invocation, actual: Invocation) -> EvalScore:
    found: Any = evaluator.evaluate(expected, actual)
    score = await found if inspect.isawaitable(found) else found
    if not isinstance(score, EvalScore):
        raise InvalidInputError(
            f"the evaluator `{evaluator.name}` returned {type(score).__name__}; expected an `EvalScore`"
        )
    return score


_UNANSWERED = EvalScore(score=0.0, status=EvalStatus.FAILED)
"""Score of an invocation that the agent did not answer."""


def combine_scores(scores: Sequence[EvalScore], error: str = "") -> EvalScore:
    """Combine the scores of one metric for the invocations of a case. `scores` must not be empty.

    The score is the mean. The status is ERROR if any status is ERROR, PASSED if all are PASSED, and FAILED
    otherwise. If the agent did not answer, `error` is the reason, which is added to the details; otherwise
    `error` is "".

    >>> passed, failed = (EvalScore.from_threshold(score, 0.8) for score in (1.0, 0.7))
    >>> combine_scores([passed, failed]).model_dump_json()
    '{"score":0.85,"status":"FAILED","details":{"per_invocation":[1.0,0.7]}}'
    """
    statuses = {score.status for score in scores}
    status = EvalStatus.PASSED if statuses == {EvalStatus.PASSED} else EvalStatus.FAILED
    values = [score.score for score in scores]
    return EvalScore(
        score=sum(values) / len(values),
        status=EvalStatus.ERROR if EvalStatus.ERROR in statuses else status,
        details={"per_invocation": values, **({"error": error} if error else {})},
    )


def _build_invocation(expected: Invocation, reply: Reply) -> Invocation:
    response = None if reply.response is None else Content(role="model", parts=[{"text": reply.response}])
    calls = [ToolUse(name=call.name, args=call.arguments) for call in reply.tool_calls]
    responses = [(event.author or "", [_build_part(event)]) for event in reply.events]
    data = IntermediateData(tool_uses=calls, intermediate_responses=responses)
    return Invocation(
        user_content=expected.user_content,
        final_response=response,
        intermediate_data=data,
        invocation_id=expected.invocation_id,
    )


def _build_part(event: Event) -> Part:
    if isinstance(event, Message):
        return {"text": event.text}
    identity = {"id": event.id} if event.id else {}
    if isinstance(event, ToolCall):
        return {"functionCall": {**identity, "name": event.name, "args": event.arguments}}
    return {"functionResponse": {**identity, "name": event.name, "response": event.result}}

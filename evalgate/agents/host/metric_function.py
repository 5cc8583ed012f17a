"""A custom metric's function, served as an agent is: each request is a case and its run, each answer a score.

Three shapes of function, told apart by their parameters: ours `(case, run, **options)`; Google ADK's
`(eval_metric, actual_invocations, expected_invocations, conversation_scenario)`; and the one that its guide
shows, `(actual_invocation, expected_invocation, criterion)`, called turn by turn.
"""

from __future__ import annotations

import inspect
import json
import math
from typing import Any, Callable

from .adk_objects import (
    Named,
    actual_invocations,
    criterion_object,
    expected_invocations,
    metric_object,
    named,
    scenario_object,
)
from .failures import Refused, summary

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def as_agent(function: object) -> Callable[[str], Any]:
    """What answers the requests for `function`: asynchronous when it is.

    Raises:
        Refused: it cannot be called as a metric.
    """
    if not callable(function):
        raise Refused(f"it is of type {type(function).__name__}, not a function")
    call = _caller(function)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  asked of the object that is called
    ):

        async def answer_later(text: str) -> str:
            try:
                return json.dumps(await _finished(call(json.loads(text))))
            except BaseException as error:  # noqa: BLE001  SystemExit is the metric's fault too
                return json.dumps(_failed(error))

        return answer_later

    def answer(text: str) -> str:
        try:
            return json.dumps(_at_once(call(json.loads(text))))
        except BaseException as error:  # noqa: BLE001  SystemExit is the metric's fault too
            return json.dumps(_failed(error))

    return answer


class WrongResult(Exception):
    """The metric gave something that is no score; the message says what was expected."""


def _failed(error: BaseException) -> dict[str, str]:
    if isinstance(error, WrongResult):
        return {"failed": str(error)}
    if isinstance(error, SystemExit):
        code = "" if error.code is None else repr(error.code)
        return {"failed": f"the metric called sys.exit({code})"}
    return {"failed": f"the metric raised {summary(error)}"}


# --- calling ------------------------------------------------------------------------------------------------

# A call is a generator: it gives what the function returned, and is sent what that was worth waiting for.
_Call = Any


async def _finished(call: _Call) -> dict[str, Any]:
    result = next(call)
    while True:
        try:
            result = call.send(await result if inspect.isawaitable(result) else result)
        except StopIteration as end:
            answer: dict[str, Any] = end.value
            return answer


def _at_once(call: _Call) -> dict[str, Any]:
    result = next(call)
    while True:
        try:
            if inspect.iscoroutine(result):
                result.close()
                raise WrongResult("the metric gave a coroutine: define it with `async def`")
            result = call.send(result)
        except StopIteration as end:
            answer: dict[str, Any] = end.value
            return answer


def _caller(function: Callable[..., Any]) -> Callable[[dict[str, Any]], _Call]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise Refused("its parameters cannot be told") from None
    positional = [each for each in parameters if each.kind in _POSITIONAL]
    names = [each.name for each in positional if each.default is inspect.Parameter.empty]
    if "eval_metric" in names or len(names) >= 4:
        return lambda request: _of_conversation(function, request, len(positional))
    if len(names) == 3:
        return lambda request: _of_each_turn(function, request)
    if len(names) == 2:
        return lambda request: _ours(function, request)
    raise Refused(
        f"it takes {len(names)} parameters; a metric takes (case, run), (actual_invocation, "
        "expected_invocation, criterion), or Google ADK's (eval_metric, actual_invocations, "
        "expected_invocations, conversation_scenario)"
    )


def _ours(function: Callable[..., Any], request: dict[str, Any]) -> _Call:
    result = yield function(named(request["case"]), named(request["run"]), **request["options"])
    return _answer(result)


def _of_conversation(function: Callable[..., Any], request: dict[str, Any], count: int) -> _Call:
    case, run = request["case"], request["run"]
    actual, expected = actual_invocations(case, run), expected_invocations(case)
    scenario = scenario_object(case["scenario"])
    arguments = [metric_object(request), actual, None if scenario else expected, scenario]
    result = yield function(*arguments[:count])
    return _answer(result)


def _of_each_turn(function: Callable[..., Any], request: dict[str, Any]) -> _Call:
    case, replies = request["case"], request["run"]["replies"]
    wanted = [turn["expected"] for turn in case["turns"]]
    actual, expected = actual_invocations(case, request["run"]), expected_invocations(case)
    turns: list[dict[str, Any]] = []
    for index in range(max(len(wanted), len(replies))):
        if index >= len(wanted):
            turns.append({"score": 0.0, "reason": "the case does not ask for this turn"})
        elif index >= len(replies) or replies[index] is None:
            turns.append({"score": 0.0, "reason": "the agent gave no reply to this turn"})
        else:
            result = yield function(actual[index], expected[index], criterion_object(request))
            turns.append({"score": _number(result)})
    if not turns:
        return {"not_applicable": "the case has no written turns to compare with"}
    return {"score": math.fsum(turn["score"] for turn in turns) / len(turns), "turns": turns}


# --- what the function gave ---------------------------------------------------------------------------------

_LONGEST = 10_000
"""Characters of a reason: who writes more than that has put a document there."""

_EXPECTED = "expected a finite number or an object with `score` (as Google ADK's, with `overall_score`)"


def _answer(result: Any) -> dict[str, Any]:
    kind = type(result).__name__
    if isinstance(result, dict):
        result = Named(result)
    if kind == "NotApplicable":
        return {"not_applicable": _shortened(result.reason)}
    if kind == "MetricFailed":
        return {"failed": _shortened(result.reason)}
    if hasattr(result, "overall_score"):
        return _of_adk(result)
    if hasattr(result, "score"):
        answer: dict[str, Any] = {"score": _number(result.score)}
        if getattr(result, "reason", None):
            answer["reason"] = _shortened(result.reason)
        if isinstance(getattr(result, "passed", None), bool):
            answer["passed"] = result.passed
        return answer
    if kind == "dict":
        raise WrongResult(f"the metric gave a dict without `score`; {_EXPECTED}")
    return {"score": _number(result)}


def _shortened(reason: object) -> str:
    text = str(reason)
    left = len(text) - _LONGEST
    return f"{text[:_LONGEST]}… ({left:,} more characters)" if left > 0 else text


def _of_adk(result: Any) -> dict[str, Any]:
    status = getattr(result, "overall_eval_status", None)
    verdict = str(getattr(status, "name", status)).upper()
    if result.overall_score is None or verdict in ("NOT_EVALUATED", "3"):
        return {"not_applicable": "the metric says that it did not evaluate the case"}
    answer: dict[str, Any] = {"score": _number(result.overall_score)}
    if verdict in ("PASSED", "FAILED", "1", "2"):
        answer["passed"] = verdict in ("PASSED", "1")
    turns = [getattr(each, "score", None) for each in getattr(result, "per_invocation_results", None) or ()]
    answer["turns"] = [{"score": None if score is None else _number(score)} for score in turns]
    return answer


def _number(value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, (str, bytes)) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if value is None or not math.isfinite(number):
        shown = (
            repr(value) if isinstance(value, (str, float)) or value is None else f"a {type(value).__name__}"
        )
        raise WrongResult(f"the metric gave {shown[:80]}; {_EXPECTED}")
    return number

"""Adapter that lets the host run a custom metric: the metric's function is served like an agent.

The message of each turn is a request in JSON with a case and its run. The answer in JSON has a `score`. If
there is no score, the answer has the reason in the field `not_applicable` or `failed` instead.

The function has one of three signatures, recognised by the number and names of the parameters:

- evalgate's `(case, run, **options)`
- Google ADK's `(eval_metric, actual_invocations, expected_invocations, conversation_scenario)`
- the signature in ADK's guide, `(actual_invocation, expected_invocation, criterion)`: the function is called
  once per turn

A metric that imports Google ADK receives objects of ADK's classes. Other metrics receive objects with the
same fields.
"""

from __future__ import annotations

import inspect
import json
import math
from typing import Any, Callable, Optional

from .custom_metric_adk import use_google_invocation, use_google_metric
from .custom_metric_arguments import (
    build_actual_invocations,
    build_criterion,
    build_eval_metric,
    build_expected_invocations,
    build_scenario,
    to_namespace,
)
from .errors import UnusableEntryError, summarize_error

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def wrap_metric_as_agent(function: object) -> Callable[[str], Any]:
    """Wrap a metric's function as an agent that answers a JSON request with a JSON score.

    If `function` is a coroutine function, the returned function is one, too. The returned function raises
    nothing: if `function` raises or its result is invalid, the answer has the field `failed` instead of a
    score.

    Raises:
        UnusableEntryError: `function` cannot be called, or has none of the three signatures of a metric.
    """
    if not callable(function):
        raise UnusableEntryError(f"it is of type {type(function).__name__}, not a function")
    call = _choose_caller(function)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  asked of the object that is called
    ):

        async def serve_request_async(text: str) -> str:
            try:
                return json.dumps(await _run_async(call(json.loads(text))))
            except BaseException as error:  # noqa: BLE001  SystemExit is the metric's fault too
                return json.dumps(_describe_failure(error))

        return serve_request_async

    def serve_request(text: str) -> str:
        try:
            return json.dumps(_run_sync(call(json.loads(text))))
        except BaseException as error:  # noqa: BLE001  SystemExit is the metric's fault too
            return json.dumps(_describe_failure(error))

    return serve_request


class InvalidScoreError(Exception):
    """Error for a metric's result that is not a score; the message describes the expected result."""


def _describe_failure(error: BaseException) -> dict[str, str]:
    if isinstance(error, InvalidScoreError):
        return {"failed": str(error)}
    if isinstance(error, SystemExit):
        code = "" if error.code is None else repr(error.code)
        return {"failed": f"the metric called sys.exit({code})"}
    return {"failed": f"the metric raised {summarize_error(error)}"}


# --- calling ------------------------------------------------------------------------------------------------

# A generator that calls the metric's function and yields each result. The loop around it awaits the result if
# necessary, and sends it back. At its end, the generator returns the answer. So one generator serves
# synchronous and asynchronous functions: only the loop differs (`_run_sync`, `_run_async`).
_Call = Any


async def _run_async(call: _Call) -> dict[str, Any]:
    result = next(call)
    while True:
        try:
            result = call.send(await result if inspect.isawaitable(result) else result)
        except StopIteration as end:
            answer: dict[str, Any] = end.value
            return answer


def _run_sync(call: _Call) -> dict[str, Any]:
    result = next(call)
    while True:
        try:
            if inspect.iscoroutine(result):
                # Otherwise Python writes a warning to stderr that the coroutine was never awaited.
                result.close()
                raise InvalidScoreError("the metric gave a coroutine: define it with `async def`")
            result = call.send(result)
        except StopIteration as end:
            answer: dict[str, Any] = end.value
            return answer


def _choose_caller(function: Callable[..., Any]) -> Callable[[dict[str, Any]], _Call]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise UnusableEntryError("its parameters cannot be told") from None
    positional = [each for each in parameters if each.kind in _POSITIONAL]
    names = [each.name for each in positional if each.default is inspect.Parameter.empty]
    if "eval_metric" in names or len(names) >= 4:
        return lambda request: _call_with_conversation(function, request, len(positional))
    if len(names) == 3:
        return lambda request: _call_each_turn(function, request)
    if len(names) == 2:
        return lambda request: _call_with_case(function, request)
    raise UnusableEntryError(
        f"it takes {len(names)} parameters; a metric takes (case, run), (actual_invocation, "
        "expected_invocation, criterion), or Google ADK's (eval_metric, actual_invocations, "
        "expected_invocations, conversation_scenario)"
    )


def _call_with_case(function: Callable[..., Any], request: dict[str, Any]) -> _Call:
    result = yield function(to_namespace(request["case"]), to_namespace(request["run"]), **request["options"])
    return _convert_result(result)


def _call_with_conversation(function: Callable[..., Any], request: dict[str, Any], count: int) -> _Call:
    actual, expected = _build_invocations(request)
    scenario = build_scenario(request["case"]["scenario"])
    metric = use_google_metric(build_eval_metric(request))
    arguments = [metric, actual, None if scenario else expected, scenario]
    result = yield function(*arguments[:count])
    return _convert_result(result)


def _build_invocations(request: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the actual and the expected invocations, as Google's objects if Google ADK is imported."""
    actual = build_actual_invocations(request["case"], request["run"])
    expected = build_expected_invocations(request["case"])
    return [use_google_invocation(each) for each in actual], [
        use_google_invocation(each) for each in expected
    ]


def _call_each_turn(function: Callable[..., Any], request: dict[str, Any]) -> _Call:
    case, replies = request["case"], request["run"]["replies"]
    wanted = [turn["expected"] for turn in case["turns"]]
    actual, expected = _build_invocations(request)
    turns: list[dict[str, Any]] = []
    for index in range(max(len(wanted), len(replies))):
        if index >= len(wanted):
            turns.append({"score": 0.0, "reason": "the case does not ask for this turn"})
        elif index >= len(replies) or replies[index] is None:
            turns.append({"score": 0.0, "reason": "the agent gave no reply to this turn"})
        else:
            result = yield function(actual[index], expected[index], build_criterion(request))
            turns.append(_convert_turn(result))
    if not turns:
        return {"not_applicable": "the case has no written turns to compare with"}
    return _average_turns(turns)


# --- results ------------------------------------------------------------------------------------------------

_MAX_REASON = 10_000
"""Number of characters after which a reason is cut."""

_EXPECTED = "expected a finite number or an object with `score` (as Google ADK's, with `overall_score`)"

# The values of `EvalStatus` in Google ADK are 1 to 3; tRPC-Agent-Go has `unknown`, and adk-rs `Error`.
_STATUSES = {
    "PASSED": "passed",
    "1": "passed",
    "FAILED": "failed",
    "2": "failed",
    "NOT_EVALUATED": "not_evaluated",
    "3": "not_evaluated",
    "ERROR": "error",
    "ERRORED": "error",
    "UNKNOWN": "",
}
_UNSCORED = ("not_evaluated", "error")
"""Statuses of a result that needs no score."""


def _convert_result(result: Any) -> dict[str, Any]:
    """Convert a metric's result for a whole run to the fields of the answer.

    The result is a number, an object with a score, or evalgate's `NotApplicable` or `MetricFailure`.

    Raises:
        InvalidScoreError: the result is anything else, or a part of the object is invalid.
    """
    kind = type(result).__name__
    # By name, because the metric may run in an environment without evalgate, or with another release of it.
    if kind == "NotApplicable":
        return {"not_applicable": _shorten_reason(result.reason)}
    if kind == "MetricFailure":
        return {"failed": _shorten_reason(result.reason)}
    return _convert_object(result) if _is_object(result) else {"score": _require_number(result)}


def _convert_object(result: Any) -> dict[str, Any]:
    score, status = _get_field(result, "overall_score", "score"), _get_status(result)
    reason, turns = _get_reason(result), _get_turns(result)
    if status == "error":
        return {"failed": reason or "the metric says that it broke"}
    is_unscored = score is None and not turns and _has_field(result, "overall_score")
    if status == "not_evaluated" or is_unscored:
        return {"not_applicable": reason or "the metric says that it did not evaluate the case"}
    if score is None and not any(turn["score"] is not None for turn in turns or ()):
        return {"score": _require_number(score)}
    answer = _average_turns(turns or []) if score is None else {"score": _require_number(score)}
    return {**answer, **({} if turns is None else {"turns": turns}), **_convert_explanation(result, status)}


def _convert_turn(result: Any) -> dict[str, Any]:
    """Convert a metric's result for one turn to an item of the list `turns` in the answer.

    The result is a number or an object with a score.

    Raises:
        InvalidScoreError: the result is anything else, a part of it is invalid, or its status is `error`.
    """
    if not _is_object(result):
        return {"score": _require_number(result)}
    status, score = _get_status(result), _get_field(result, "score")
    if status == "error":
        raise InvalidScoreError(_get_reason(result) or "the metric says that it broke")
    if status == "not_evaluated" or (score is None and _has_field(result, "score")):
        return {"score": None, **_convert_explanation(result, "")}
    return {"score": _require_number(score), **_convert_explanation(result, status)}


def _average_turns(turns: list[dict[str, Any]]) -> dict[str, Any]:
    scores = [turn["score"] for turn in turns if turn["score"] is not None]
    if not scores:
        return {"not_applicable": turns[0].get("reason") or "the metric evaluated no turn"}
    # Within the scores: six times 0.8 are 0.8, and no rounding error less.
    mean = min(max(math.fsum(scores) / len(scores), min(scores)), max(scores))
    return {"score": mean, "turns": turns}


def _convert_explanation(result: Any, status: str) -> dict[str, Any]:
    """Return the `reason`, `details` and `passed` of a score. Fields that the score lacks are left out.

    `status` is the score's status, as `_get_status` returns it. If the status is "", `passed` is left out.
    """
    answer: dict[str, Any] = {}
    if reason := _get_reason(result):
        answer["reason"] = reason
    if details := _get_details(result):
        answer["details"] = details
    if status:
        answer["passed"] = status == "passed"
    return answer


def _is_object(result: Any) -> bool:
    if isinstance(result, dict):
        if not {"score", "overall_score", "turns"} & result.keys() and _get_status(result) not in _UNSCORED:
            raise InvalidScoreError(f"the metric gave a dict without `score`; {_EXPECTED}")
        return True
    return (
        hasattr(result, "overall_score")
        or hasattr(result, "score")
        or (hasattr(result, "status") and _get_status(result) in _UNSCORED)
    )


def _has_field(result: Any, name: str) -> bool:
    return name in result if isinstance(result, dict) else hasattr(result, name)


def _get_field(result: Any, *names: str) -> Any:
    """Return the value of the first of the named fields that is present and not None; else None."""
    for name in names:
        value = result.get(name) if isinstance(result, dict) else getattr(result, name, None)
        if value is not None:
            return value
    return None


def _get_status(result: Any) -> str:
    """Return "passed", "failed", "not_evaluated" or "error"; "" for no status or the status `unknown`.

    Raises:
        InvalidScoreError: `passed` is no boolean, or contradicts the status; or there is no `passed`, and
            the status is not a known name or number.
    """
    passed = _get_field(result, "passed")
    flag = "" if passed is None else "passed" if _require_flag(passed) else "failed"
    status = _get_field(result, "overall_eval_status", "overall_status", "eval_status", "status")
    if status is None:
        return flag
    status = getattr(status, "name", status)
    found = _STATUSES.get(str(status).upper())
    if found is None and flag:
        return flag  # a status of the user's own, next to evalgate's `passed`
    if found is None:
        raise InvalidScoreError(
            f"the metric gave the status {str(status)[:80]!r}; expected `passed`, `failed`, `not_evaluated` "
            "or `error`"
        )
    # Many metrics set `passed` to False whenever there is no score.
    if flag == "failed" and found in _UNSCORED:
        return found
    if flag and found and flag != found:
        said = "true" if flag == "passed" else "false"
        raise InvalidScoreError(
            f"the metric gave `passed` as {said}, but the status {found!r}: leave one of them out"
        )
    return flag or found


def _require_flag(value: Any) -> bool:
    flag = value
    if not isinstance(value, bool) and callable(getattr(value, "item", None)):
        flag = value.item()  # comparisons of numpy and torch give objects of their own
    if not isinstance(flag, bool):
        raise InvalidScoreError(f"the metric gave `passed` as {repr(value)[:80]}; expected true or false")
    return flag


def _get_reason(result: Any) -> str:
    reason = _get_field(result, "reason")
    details = _get_field(result, "details")
    if reason is None and details is not None:  # as in `PerInvocationDetails` of tRPC-Agent-Go
        reason = _get_field(details, "reason")
    return "" if reason is None else _shorten_reason(reason)


def _get_turns(result: Any) -> Optional[list[dict[str, Any]]]:
    turns = _get_field(result, "turns", "per_invocation_results")
    if turns is None:
        return [] if _has_field(result, "overall_score") else None
    if not isinstance(turns, (list, tuple)):
        raise InvalidScoreError(f"the metric gave `turns` of type {type(turns).__name__}; expected a list")
    return [_convert_turn(each) for each in turns]


def _get_details(result: Any) -> dict[str, Any]:
    """Return the details of a score as a JSON object, with the scores of rubrics as `rubric_scores`.

    If the details are no object, return `{"details": details}`. A `reason` in the details is left out.

    Raises:
        InvalidScoreError: JSON cannot hold the details, or the score of a rubric is not a number.
    """
    details = _get_field(result, "details")
    plain = _convert_to_json(details)
    if not isinstance(plain, dict):
        plain = {} if plain is None else {"details": plain}
    rubrics = _get_field(result, "rubric_scores")
    if rubrics is None and details is not None:
        rubrics = _get_field(details, "rubric_scores")
    if rubrics is not None:
        plain["rubric_scores"] = [_convert_rubric(each) for each in rubrics]
    return {name: value for name, value in plain.items() if name != "reason"}


def _convert_rubric(rubric: Any) -> dict[str, Any]:
    score = _get_field(rubric, "score")
    return {
        "id": str(_get_field(rubric, "id", "rubric_id") or ""),
        "score": None if score is None else _require_number(score),
        "reason": _shorten_reason(_get_field(rubric, "reason", "rationale") or ""),
    }


def _convert_to_json(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=vars))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidScoreError(f"the metric gave `details` that JSON cannot hold: {error}") from None


def _shorten_reason(reason: object) -> str:
    text = str(reason)
    left = len(text) - _MAX_REASON
    return f"{text[:_MAX_REASON]}… ({left:,} more characters)" if left > 0 else text


def _require_number(value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, (str, bytes)) else math.nan
    except OverflowError:
        raise InvalidScoreError(f"the metric gave a number that is too large; {_EXPECTED}") from None
    except (TypeError, ValueError):
        number = math.nan
    if value is None or not math.isfinite(number):
        shown = (
            repr(value) if isinstance(value, (str, float)) or value is None else f"a {type(value).__name__}"
        )
        raise InvalidScoreError(f"the metric gave {shown[:80]}; {_EXPECTED}")
    return number

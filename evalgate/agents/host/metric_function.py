"""Adapter that serves a custom metric's function as an agent.

Each request is a case with its run, and each answer is a score. There are three signatures, recognised by
their parameters: evalgate's `(case, run, **options)`; Google ADK's `(eval_metric, actual_invocations,
expected_invocations, conversation_scenario)`; and the signature in ADK's guide, `(actual_invocation,
expected_invocation, criterion)`, with which a function is called once per turn.

Metrics written for ADK receive objects with the fields of ADK's classes; ADK itself is not needed.
"""

from __future__ import annotations

import inspect
import json
import math
from typing import Any, Callable, Optional

from .errors import UnusableEntryError, summarize_error

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def as_agent(function: object) -> Callable[[str], Any]:
    """Return a function that answers a request in JSON with the score of `function` in JSON.

    The returned function is a coroutine function if `function` is.

    Raises:
        UnusableEntryError: `function` has none of the three signatures.
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
    """Result of a metric that is not a score; the message says what was expected."""


def _describe_failure(error: BaseException) -> dict[str, str]:
    if isinstance(error, InvalidScoreError):
        return {"failed": str(error)}
    if isinstance(error, SystemExit):
        code = "" if error.code is None else repr(error.code)
        return {"failed": f"the metric called sys.exit({code})"}
    return {"failed": f"the metric raised {summarize_error(error)}"}


# --- calling ------------------------------------------------------------------------------------------------

# A generator that yields what the function returned, receives it awaited, and returns the answer. So one
# implementation serves functions of both kinds: only the loop around the generator awaits or does not.
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
    case, run = request["case"], request["run"]
    actual, expected = build_actual_invocations(case, run), build_expected_invocations(case)
    scenario = build_scenario(case["scenario"])
    arguments = [build_eval_metric(request), actual, None if scenario else expected, scenario]
    result = yield function(*arguments[:count])
    return _convert_result(result)


def _call_each_turn(function: Callable[..., Any], request: dict[str, Any]) -> _Call:
    case, replies = request["case"], request["run"]["replies"]
    wanted = [turn["expected"] for turn in case["turns"]]
    actual, expected = build_actual_invocations(case, request["run"]), build_expected_invocations(case)
    turns: list[dict[str, Any]] = []
    for index in range(max(len(wanted), len(replies))):
        if index >= len(wanted):
            turns.append({"score": 0.0, "reason": "the case does not ask for this turn"})
        elif index >= len(replies) or replies[index] is None:
            turns.append({"score": 0.0, "reason": "the agent gave no reply to this turn"})
        else:
            result = yield function(actual[index], expected[index], build_criterion(request))
            turns.append({"score": _require_number(result)})
    if not turns:
        return {"not_applicable": "the case has no written turns to compare with"}
    return {"score": math.fsum(turn["score"] for turn in turns) / len(turns), "turns": turns}


# --- results ------------------------------------------------------------------------------------------------

_MAX_REASON = 10_000
"""Number of characters of a reason that are shown."""

_EXPECTED = "expected a finite number or an object with `score` (as Google ADK's, with `overall_score`)"


def _convert_result(result: Any) -> dict[str, Any]:
    kind = type(result).__name__
    if isinstance(result, dict):
        result = JsonNamespace(result)
    # By name, because the metric may run in an environment without evalgate, or with another release of it.
    if kind == "NotApplicable":
        return {"not_applicable": _shorten_reason(result.reason)}
    if kind == "MetricFailure":
        return {"failed": _shorten_reason(result.reason)}
    if hasattr(result, "overall_score"):
        return _convert_adk_result(result)
    if hasattr(result, "score"):
        answer: dict[str, Any] = {"score": _require_number(result.score)}
        if getattr(result, "reason", None):
            answer["reason"] = _shorten_reason(result.reason)
        if isinstance(getattr(result, "passed", None), bool):
            answer["passed"] = result.passed
        return answer
    if kind == "dict":
        raise InvalidScoreError(f"the metric gave a dict without `score`; {_EXPECTED}")
    return {"score": _require_number(result)}


def _shorten_reason(reason: object) -> str:
    text = str(reason)
    left = len(text) - _MAX_REASON
    return f"{text[:_MAX_REASON]}… ({left:,} more characters)" if left > 0 else text


def _convert_adk_result(result: Any) -> dict[str, Any]:
    status = getattr(result, "overall_eval_status", None)
    verdict = str(getattr(status, "name", status)).upper()
    # `EvalStatus` of ADK has the values 1 (passed), 2 (failed) and 3 (not evaluated).
    if result.overall_score is None or verdict in ("NOT_EVALUATED", "3"):
        return {"not_applicable": "the metric says that it did not evaluate the case"}
    answer: dict[str, Any] = {"score": _require_number(result.overall_score)}
    if verdict in ("PASSED", "FAILED", "1", "2"):
        answer["passed"] = verdict in ("PASSED", "1")
    turns = [getattr(each, "score", None) for each in getattr(result, "per_invocation_results", None) or ()]
    answer["turns"] = [{"score": None if score is None else _require_number(score)} for score in turns]
    return answer


def _require_number(value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, (str, bytes)) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if value is None or not math.isfinite(number):
        shown = (
            repr(value) if isinstance(value, (str, float)) or value is None else f"a {type(value).__name__}"
        )
        raise InvalidScoreError(f"the metric gave {shown[:80]}; {_EXPECTED}")
    return number


# --- objects with the fields of Google ADK's classes --------------------------------------------------------


class JsonNamespace:
    """Namespace with the fields of a JSON object as attributes, to any depth."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update((name, to_namespace(value)) for name, value in fields.items())

    def __repr__(self) -> str:
        return "(" + ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items()) + ")"


# Fields with data of the agent or the user: dicts in them stay dicts.
_DATA = ("args", "result", "state", "final_state", "attachments", "response")


def to_namespace(value: Any) -> Any:
    """Return `value` with dicts as `JsonNamespace`, except data such as arguments, results and states."""
    if isinstance(value, list):
        return [to_namespace(each) for each in value]
    if isinstance(value, dict):
        namespace = JsonNamespace({})
        for name, each in value.items():
            setattr(namespace, name, each if name in _DATA else to_namespace(each))
        return namespace
    return value


def _build_object(**fields: Any) -> JsonNamespace:
    namespace = JsonNamespace({})
    namespace.__dict__.update(fields)  # as they are: the constructor would convert dicts too
    return namespace


def _build_part(**fields: Any) -> JsonNamespace:
    empty = dict.fromkeys(
        (
            *("text", "thought", "function_call", "function_response", "inline_data", "file_data"),
            *("executable_code", "code_execution_result"),
        )
    )
    return _build_object(**{**empty, **fields})


def _build_content(text: Optional[str], role: str) -> Optional[JsonNamespace]:
    if text is None:
        return None
    return _build_object(role=role, parts=[_build_part(text=text)])


def build_expected_invocations(case: dict[str, Any]) -> list[JsonNamespace]:
    """Return one `Invocation` per turn of the case, with the rubrics of that turn."""
    return [
        _build_invocation(turn["user"]["text"], turn["expected"], turn["rubrics"]) for turn in case["turns"]
    ]


def build_actual_invocations(case: dict[str, Any], run: dict[str, Any]) -> list[JsonNamespace]:
    """Return one `Invocation` per reply, with the user's message and the rubrics of the case and the turn."""
    turns, sent = case["turns"], run["said"]
    texts = sent + [turn["user"]["text"] for turn in turns[len(sent) :]]
    invocations = []
    for index, reply in enumerate(run["replies"]):
        own = turns[index]["rubrics"] if index < len(turns) else []
        invocations.append(
            _build_invocation(texts[index] if index < len(texts) else "", reply, case["rubrics"] + own)
        )
    return invocations


def _build_rubric(rubric: dict[str, Any]) -> JsonNamespace:
    return _build_object(
        rubric_id=rubric["rubric_id"],
        rubric_content=_build_object(text_property=rubric["text"]),
        description=rubric["description"],
        type=rubric["type"],
    )


def _build_invocation(
    user: str, reply: Optional[dict[str, Any]], rubrics: list[dict[str, Any]]
) -> JsonNamespace:
    reply = reply or {"response": None, "events": []}
    return _build_object(
        invocation_id="",
        user_content=_build_content(user, "user"),
        final_response=_build_content(reply["response"], "model"),
        intermediate_data=_build_intermediate_data(reply["events"]),
        creation_timestamp=0.0,
        rubrics=[_build_rubric(each) for each in rubrics] or None,
        app_details=None,
    )


def _build_intermediate_data(events: list[dict[str, Any]]) -> JsonNamespace:
    calls = [_build_call(each) for each in events if each["type"] == "tool_call"]
    answers = [_build_result(each) for each in events if each["type"] == "tool_result"]
    messages = [
        (each["author"], [_build_part(text=each["text"])]) for each in events if each["type"] == "message"
    ]
    return _build_object(
        tool_uses=calls,
        tool_responses=answers,
        intermediate_responses=messages,
        invocation_events=[_build_event(each) for each in events],
    )


def _build_call(event: dict[str, Any]) -> JsonNamespace:
    return _build_object(id=event["id"], name=event["name"], args=event["args"])


def _build_result(event: dict[str, Any]) -> JsonNamespace:
    return _build_object(id=event["id"], name=event["name"], response=event["result"])


def _build_event(event: dict[str, Any]) -> JsonNamespace:
    if event["type"] == "tool_call":
        part = _build_part(function_call=_build_call(event))
    elif event["type"] == "tool_result":
        part = _build_part(function_response=_build_result(event))
    else:
        part = _build_part(text=event["text"])
    return _build_object(author=event["author"], content=_build_object(role="model", parts=[part]))


def build_scenario(scenario: Optional[dict[str, Any]]) -> Optional[JsonNamespace]:
    """Return the `ConversationScenario`, or None if the case has no scenario."""
    return _build_object(**scenario) if scenario else None


def build_criterion(request: dict[str, Any]) -> JsonNamespace:
    """Return the criterion: `threshold`, and each option of the metric as an attribute."""
    return _build_object(**{**request["options"], "threshold": request["threshold"]})


def build_eval_metric(request: dict[str, Any]) -> JsonNamespace:
    """Return the `EvalMetric`. As in Google ADK, its `threshold` is None: the criterion has the threshold."""
    return _build_object(
        metric_name=request["metric"],
        threshold=None,
        criterion=build_criterion(request),
        custom_function_path=request["entry"],
    )

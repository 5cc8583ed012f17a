"""Objects with the names of Google ADK's, for metrics that were written for it; the package is not needed."""

from __future__ import annotations

from typing import Any, Optional


class Named:
    """The fields of a JSON object as attributes, to any depth."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update((name, named(value)) for name, value in fields.items())

    def __repr__(self) -> str:
        return "(" + ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items()) + ")"


# What these hold is the agent's or the user's own data, which stays as it is.
_DATA = ("args", "result", "state", "final_state", "attachments", "response")


def named(value: Any) -> Any:
    """`value` with its objects as `Named`, except where they are data: arguments, results, states."""
    if isinstance(value, list):
        return [named(each) for each in value]
    if isinstance(value, dict):
        found = Named({})
        for name, each in value.items():
            setattr(found, name, each if name in _DATA else named(each))
        return found
    return value


def _object(**fields: Any) -> Named:
    found = Named({})
    found.__dict__.update(fields)
    return found


def _part(**fields: Any) -> Named:
    empty = dict.fromkeys(
        (
            *("text", "thought", "function_call", "function_response", "inline_data", "file_data"),
            *("executable_code", "code_execution_result"),
        )
    )
    return _object(**{**empty, **fields})


def _content(text: Optional[str], role: str) -> Optional[Named]:
    if text is None:
        return None
    return _object(role=role, parts=[_part(text=text)])


def expected_invocations(case: dict[str, Any]) -> list[Named]:
    """One `Invocation` per written turn, with the rubrics of that turn."""
    return [_invocation(turn["user"]["text"], turn["expected"], turn["rubrics"]) for turn in case["turns"]]


def actual_invocations(case: dict[str, Any], run: dict[str, Any]) -> list[Named]:
    """One `Invocation` per reply, to what the user said, with the rubrics of case and turn, as in ADK."""
    turns, said = case["turns"], run["said"]
    texts = said + [turn["user"]["text"] for turn in turns[len(said) :]]
    found = []
    for index, reply in enumerate(run["replies"]):
        own = turns[index]["rubrics"] if index < len(turns) else []
        found.append(_invocation(texts[index] if index < len(texts) else "", reply, case["rubrics"] + own))
    return found


def _rubric(rubric: dict[str, Any]) -> Named:
    return _object(
        rubric_id=rubric["rubric_id"],
        rubric_content=_object(text_property=rubric["text"]),
        description=rubric["description"],
        type=rubric["type"],
    )


def _invocation(user: str, reply: Optional[dict[str, Any]], rubrics: list[dict[str, Any]]) -> Named:
    reply = reply or {"response": None, "events": []}
    return _object(
        invocation_id="",
        user_content=_content(user, "user"),
        final_response=_content(reply["response"], "model"),
        intermediate_data=_intermediate_data(reply["events"]),
        creation_timestamp=0.0,
        rubrics=[_rubric(each) for each in rubrics] or None,
        app_details=None,
    )


def _intermediate_data(events: list[dict[str, Any]]) -> Named:
    calls = [_call(each) for each in events if each["type"] == "tool_call"]
    answers = [_result(each) for each in events if each["type"] == "tool_result"]
    said = [(each["author"], [_part(text=each["text"])]) for each in events if each["type"] == "message"]
    return _object(
        tool_uses=calls,
        tool_responses=answers,
        intermediate_responses=said,
        invocation_events=[_event(each) for each in events],
    )


def _call(event: dict[str, Any]) -> Named:
    return _object(id=event["id"], name=event["name"], args=event["args"])


def _result(event: dict[str, Any]) -> Named:
    return _object(id=event["id"], name=event["name"], response=event["result"])


def _event(event: dict[str, Any]) -> Named:
    if event["type"] == "tool_call":
        part = _part(function_call=_call(event))
    elif event["type"] == "tool_result":
        part = _part(function_response=_result(event))
    else:
        part = _part(text=event["text"])
    return _object(author=event["author"], content=_object(role="model", parts=[part]))


def scenario_object(scenario: Optional[dict[str, Any]]) -> Optional[Named]:
    """The `ConversationScenario`, if there is one."""
    return _object(**scenario) if scenario else None


def criterion_object(request: dict[str, Any]) -> Named:
    """The criterion: `threshold`, and each option as an attribute."""
    return _object(**{**request["options"], "threshold": request["threshold"]})


def metric_object(request: dict[str, Any]) -> Named:
    """The `EvalMetric`. As in Google ADK, its own `threshold` is None: the criterion has it."""
    return _object(
        metric_name=request["metric"],
        threshold=None,
        criterion=criterion_object(request),
        custom_function_path=request["entry"],
    )

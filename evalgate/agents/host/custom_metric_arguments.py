"""Arguments of custom metrics: JSON objects with their fields as attributes, and imitations of ADK's objects.

The imitations have the fields of Google ADK's classes, such as `Invocation`. ADK itself is not needed.
"""

from __future__ import annotations

from typing import Any, Optional


class JsonNamespace:
    """Namespace with the fields of a JSON object as attributes; `to_namespace` converts each value."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update((name, to_namespace(value)) for name, value in fields.items())

    def __repr__(self) -> str:
        return "(" + ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items()) + ")"


# Fields with data of the agent or the user: dicts in them stay dicts.
_DATA = ("args", "result", "state", "final_state", "attachments", "response")


def to_namespace(value: Any) -> Any:
    """Return `value` with each dict in it, at any depth, as a `JsonNamespace`.

    The values of the fields `args`, `result`, `state`, `final_state`, `attachments` and `response` are data
    of the agent or the user, and stay dicts.
    """
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
    """Return an imitated `Invocation` per turn, with the user's message, expected reply and rubrics."""
    return [
        _build_invocation(turn["user"]["text"], turn["expected"], turn["rubrics"]) for turn in case["turns"]
    ]


def build_actual_invocations(case: dict[str, Any], run: dict[str, Any]) -> list[JsonNamespace]:
    """Return an imitated `Invocation` per reply, with the rubrics of the case and of the turn.

    Each invocation also has the user's message of the turn: the message that was sent in the run, or else the
    message in the case, or else "".
    """
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
    """Return an imitation of ADK's `ConversationScenario`; None if the case has no scenario."""
    return _build_object(**scenario) if scenario else None


def build_criterion(request: dict[str, Any]) -> JsonNamespace:
    """Return an imitation of ADK's criterion: its attributes are `threshold` and the metric's options."""
    return _build_object(**{**request["options"], "threshold": request["threshold"]})


def build_eval_metric(request: dict[str, Any]) -> JsonNamespace:
    """Return an imitation of ADK's `EvalMetric`. As in ADK, the threshold is only in its `criterion`."""
    return _build_object(
        metric_name=request["metric"],
        threshold=None,
        criterion=build_criterion(request),
        custom_function_path=request["entry"],
    )

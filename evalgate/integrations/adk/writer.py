"""Writer of Google ADK's eval sets: snake_case, two blanks of indentation, no empty or default values."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evalgate.core.protocols import WriteResult
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Event,
    JsonObject,
    Message,
    Rubric,
    Scenario,
    SessionInput,
    ToolCall,
    ToolResult,
)
from evalgate.datasets.adk_turns import DURATIONS, get_part_role, is_known_part
from evalgate.datasets.conversion_losses import build_write_result, describe_losses, omit_empty, to_adk_part

_HOLDS = frozenset(
    {
        *("persona", "final_state", "rubrics", "user_id", "session_id", "creation_timestamp"),
        *("app_details", "invocation_id", "messages", "message_authors", "answers", "call_authors"),
        *("call_ids", "order", "turn_rubrics"),
    }
)


class AdkWriter:
    """Writer of eval sets for `adk eval`, in the style in which ADK itself converts older files."""

    def write_eval_set(self, eval_set: EvalSet) -> WriteResult:
        """Return the file's text, and a list of the data that the format cannot hold."""
        value = {
            "eval_set_id": eval_set.eval_set_id,
            **omit_empty(name=eval_set.name, description=eval_set.description),
            "eval_cases": [_build_case(case) for case in eval_set.cases],
            **omit_empty(creation_timestamp=eval_set.creation_timestamp),
        }
        cases = [
            replace(case, turns=tuple(map(_move_refused_contents, case.turns))) for case in eval_set.cases
        ]
        reported = replace(eval_set, cases=cases)
        lost = describe_losses(reported, format_name="adk", holds=_HOLDS, attachment=to_adk_part)
        return build_write_result(value, lost)


def _move_refused_contents(turn: CaseTurn) -> CaseTurn:
    """Return the turn with native data that Google ADK refuses moved from the key `adk` to `adk-rs`.

    The keys of `native` are the names of formats. This writer omits the data under `adk-rs`, and lists them
    as lost.
    """
    kept = turn.native.get("adk", {})
    refused = {key: value for key, value in kept.items() if not _is_known_content(value)}
    if not refused:
        return turn
    left = {key: value for key, value in kept.items() if key not in refused}
    return replace(turn, native={**turn.native, "adk": left, "adk-rs": refused})


def _is_known_content(value: object) -> bool:
    """Return False if the value is a `Content` with a part that Google ADK refuses, else True."""
    parts = value.get("parts") if isinstance(value, dict) else None
    return not isinstance(parts, list) or all(map(is_known_part, parts))


def _build_case(case: EvalCase) -> JsonObject:
    # A case needs either a conversation or a scenario, so an empty conversation is written, too.
    asked: JsonObject = (
        {"conversation_scenario": _build_scenario(case.scenario)}
        if case.scenario is not None
        else {"conversation": [build_invocation(turn) for turn in case.turns]}
    )
    more = omit_empty(
        session_input=_build_session(case.session),
        creation_timestamp=case.creation_timestamp,
        rubrics=[build_rubric(rubric) for rubric in case.rubrics],
        final_session_state=case.final_state,
    )
    return {"eval_id": case.eval_id, **asked, **more}


def build_rubric(rubric: Rubric) -> JsonObject:
    """Return the JSON of a rubric as Google ADK writes it, without points."""
    return {
        "rubric_id": rubric.rubric_id,
        "rubric_content": {"text_property": rubric.text},
        **omit_empty(description=rubric.description, type=rubric.type),
    }


def _build_scenario(scenario: Scenario) -> JsonObject:
    return {
        "starting_prompt": scenario.starting_prompt,
        "conversation_plan": scenario.conversation_plan,
        **omit_empty(user_persona=scenario.user_persona),
    }


def _build_session(session: SessionInput) -> JsonObject | None:
    if session == SessionInput():
        return None
    return {
        "app_name": session.app_name,
        "user_id": session.user_id,
        **omit_empty(state=session.state, session_id=session.session_id),
    }


def build_invocation(turn: CaseTurn) -> JsonObject:
    """Return the JSON of a turn with its expected reply, as Google ADK writes it."""
    kept = _move_refused_contents(turn).native.get("adk", {})
    attached = [part for each in turn.user.attachments if (part := to_adk_part(each)) is not None]
    text: list[JsonObject] = [{"text": turn.user.text}] if turn.user.text or not attached else []
    built: dict[str, object] = {"user_content": {"parts": [*text, *attached], "role": "user"}}
    if turn.expected.response is not None:
        built["final_response"] = {"parts": [{"text": turn.expected.response}], "role": "model"}
    if data := build_intermediate_data(turn.expected.events):
        built["intermediate_data"] = data
    return {
        **omit_empty(invocation_id=turn.invocation_id),
        **built,
        **{key: value for key, value in kept.items() if key not in DURATIONS},
        **omit_empty(
            creation_timestamp=turn.creation_timestamp,
            rubrics=[build_rubric(rubric) for rubric in turn.rubrics],
            app_details=turn.app_details,
        ),
        **{key: value for key, value in kept.items() if key in DURATIONS},
    }


def build_intermediate_data(events: Sequence[Event]) -> dict[str, Any]:
    """Return the JSON of the events before a turn's final response; {} if there are none.

    If the lists `tool_uses`, `tool_responses` and `intermediate_responses` of older files can hold the events
    without loss, the JSON has these lists. Otherwise it has the list `invocation_events`.
    """
    if not _fits_older_lists(events):
        return {"invocation_events": [build_invocation_event(event) for event in events]}
    return omit_empty(
        tool_uses=[_build_function_call(event) for event in events if isinstance(event, ToolCall)],
        tool_responses=[_build_function_response(event) for event in events if isinstance(event, ToolResult)],
        intermediate_responses=[
            [event.author or "", [{"text": event.text}]] for event in events if isinstance(event, Message)
        ],
    )


_ORDER = (ToolCall, ToolResult, Message)


def _fits_older_lists(events: Sequence[Event]) -> bool:
    """Return True if the three lists of older files can hold the events without loss.

    The lists do not keep the order of calls, results and messages among each other, or the author of a call
    or result.
    """
    kinds = [_ORDER.index(type(event)) for event in events]
    authored = any(event.author is not None for event in events if not isinstance(event, Message))
    return kinds == sorted(kinds) and not authored


def build_invocation_event(event: Event) -> JsonObject:
    """Return the JSON of one event of a turn, as an item of `invocation_events`."""
    kind, content = _build_part(event)
    return {
        "author": event.author or "",
        "content": {"parts": [{kind: content}], "role": get_part_role(kind)},
    }


def _build_part(event: Event) -> tuple[str, object]:
    if isinstance(event, ToolCall):
        return "function_call", _build_function_call(event)
    if isinstance(event, ToolResult):
        return "function_response", _build_function_response(event)
    return "text", event.text


def _build_function_call(call: ToolCall) -> JsonObject:
    # Empty arguments are written, because they differ from missing arguments.
    args = {} if call.args is None else {"args": call.args}
    return {**omit_empty(id=call.id), **args, "name": call.name}


def _build_function_response(result: ToolResult) -> JsonObject:
    response: object = result.result
    if response is not None and not isinstance(response, dict):
        # Google ADK accepts only objects here, and wraps other values like this itself.
        response = {"result": response}
    return {**omit_empty(id=result.id, response=response), "name": result.name}

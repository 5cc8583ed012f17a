"""Writes eval sets as Google ADK does: snake_case, two blanks, what is empty or default left out."""

import json
from collections.abc import Iterator, Sequence

from evalgate.model import (
    EvalCase,
    EvalSet,
    Event,
    JsonObject,
    Message,
    Reply,
    Scenario,
    SessionInput,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from evalgate.protocols import Written


class AdkWriter:
    """The file that `adk eval` reads, and that its migration makes of old lists."""

    def write(self, eval_set: EvalSet) -> Written:
        """The file's text, and what it has no place for."""
        value = {
            "eval_set_id": eval_set.eval_set_id,
            **_given(name=eval_set.name, description=eval_set.description),
            "eval_cases": [_case(case) for case in eval_set.cases],
        }
        lost = tuple(sentence for case in eval_set.cases for sentence in _lost(case))
        return Written(json.dumps(value, indent=2, ensure_ascii=False) + "\n", lost)


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _case(case: EvalCase) -> JsonObject:
    # A case has one of the two, and an empty conversation counts.
    asked: JsonObject = (
        {"conversation_scenario": _scenario(case.scenario)}
        if case.scenario is not None
        else {"conversation": [_invocation(turn) for turn in case.turns]}
    )
    more = _given(session_input=_session(case.session), final_session_state=case.final_state)
    return {"eval_id": case.eval_id, **asked, **more}


def _scenario(scenario: Scenario) -> JsonObject:
    return {
        "starting_prompt": scenario.starting_prompt,
        "conversation_plan": scenario.conversation_plan,
        **_given(user_persona=scenario.user_persona),
    }


def _session(session: SessionInput) -> JsonObject | None:
    if session == SessionInput():
        return None
    return {
        "app_name": session.app_name,
        "user_id": session.user_id,
        **_given(state=session.state),
    }


def _invocation(turn: Turn) -> JsonObject:
    found: dict[str, object] = {"user_content": {"parts": _user_parts(turn.user), "role": "user"}}
    if turn.expected.response is not None:
        found["final_response"] = {"parts": [{"text": turn.expected.response}], "role": "model"}
    return {**found, **_given(intermediate_data=_intermediate_data(turn.expected))}


def _user_parts(user: UserMessage) -> list[JsonObject]:
    text: list[JsonObject] = [{"text": user.text}] if user.text or not user.attachments else []
    return [*text, *user.attachments]


def _intermediate_data(reply: Reply) -> JsonObject:
    if not _is_sorted(reply.events):
        return {"invocation_events": [_invocation_event(event) for event in reply.events]}
    return _given(
        tool_uses=[_call(event) for event in reply.events if isinstance(event, ToolCall)],
        tool_responses=[_response(event) for event in reply.events if isinstance(event, ToolResult)],
        intermediate_responses=[
            [event.author, [{"text": event.text}]] for event in reply.events if isinstance(event, Message)
        ],
    )


_ORDER = (ToolCall, ToolResult, Message)


def _is_sorted(events: Sequence[Event]) -> bool:
    """Whether the older shape, which has no order between kinds and no author of a call, says it all."""
    kinds = [_ORDER.index(type(event)) for event in events]
    authored = any(event.author is not None for event in events if not isinstance(event, Message))
    return kinds == sorted(kinds) and not authored


def _invocation_event(event: Event) -> JsonObject:
    if isinstance(event, ToolCall):
        part: JsonObject = {"function_call": _call(event)}
    elif isinstance(event, ToolResult):
        part = {"function_response": _response(event)}
    else:
        part = {"text": event.text}
    return {"author": event.author or "", "content": {"parts": [part], "role": "model"}}


def _call(call: ToolCall) -> JsonObject:
    # Empty arguments stay: they are not the same as none.
    args = {} if call.args is None else {"args": call.args}
    return {**_given(id=call.id), **args, "name": call.name}


def _response(result: ToolResult) -> JsonObject:
    return {**_given(id=result.id, response=_object(result.result)), "name": result.name}


def _object(result: object) -> object:
    # Google ADK holds objects alone here, and wraps everything else like this itself.
    return result if result is None or isinstance(result, dict) else {"result": result}


def _lost(case: EvalCase) -> Iterator[str]:
    if case.journey is not None:
        yield f"{case.eval_id}: the goals and their order"
    if case.context_messages:
        yield f"{case.eval_id}: the context messages"
    if case.recorded is not None:
        yield f"{case.eval_id}: the recorded conversation"
    for number, turn in enumerate(case.turns, start=1):
        for event in turn.expected.events:
            if isinstance(event, ToolCall) and event.other_args is not None:
                yield f"{case.eval_id}: turn {number}: the arguments of `{event.name}`, which are no object"
            if isinstance(event, Message) and event.payload is not None:
                yield f"{case.eval_id}: turn {number}: the widget of a message"

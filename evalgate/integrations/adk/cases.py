"""Cases of Google ADK's eval sets, built from the models of their files.

`fast_cases.py` builds the cases that have only the usual keys, because this is faster. All other cases, and
all errors, go through the models.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Event,
    JsonObject,
    Message,
    Reply,
    Rubric,
    Scenario,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.adk_turns import extract_native_data
from evalgate.documents.key_spelling import find_snake_or_camel_key, get_member
from evalgate.integrations.adk.case_models import (
    AdkAgentDetails,
    AdkAppDetails,
    AdkCase,
    AdkFunctionCall,
    AdkFunctionResponse,
    AdkIntermediateData,
    AdkInvocation,
    AdkInvocationEvent,
    AdkPart,
    AdkRubric,
    AdkUserContent,
)

_NO_SESSION = SessionInput()
"""The session of every case without a `session_input`; one shared object saves memory in large sets."""


def build_adk_case(wire: AdkCase, line: int, raw: object) -> EvalCase:
    """Convert `wire`, the validated model of a case, to evalgate's type.

    `line` is the first line of the case in its file. `raw` is the decoded JSON of the case: it also has the
    data for which the model has no field.
    """
    conversation, plan, own = (
        get_member(raw, "conversation", find_snake_or_camel_key),
        wire.conversation_scenario,
        wire.session_input,
    )
    invocations = zip(
        wire.conversation or (), conversation if isinstance(conversation, list) else (), strict=True
    )
    return EvalCase(
        eval_id=wire.eval_id,
        turns=tuple([_build_turn(*invocation) for invocation in invocations]),
        scenario=None
        if plan is None
        else Scenario(plan.starting_prompt, plan.conversation_plan, plan.user_persona),
        session=_NO_SESSION
        if own is None
        else SessionInput(own.app_name or "", own.user_id or "", own.state or {}, own.session_id or ""),
        # In Google ADK, an empty state means that no state is expected.
        final_state=wire.final_session_state or None,
        line=line,
        rubrics=_build_rubrics(wire.rubrics, "rubric") if wire.rubrics else (),
        creation_timestamp=wire.creation_timestamp or 0.0,
        native={"adk-rs": {"name": wire.name}} if wire.name else {},
    )


def _build_rubrics(wires: Sequence[AdkRubric], prefix: str) -> tuple[Rubric, ...]:
    rubrics = []
    for number, wire in enumerate(wires, start=1):
        text = wire.rubric_content.text_property if wire.rubric_content else wire.criterion
        name = wire.rubric_id or f"{prefix}_{number}"
        points = 1.0 if wire.points is None and wire.criterion is not None else wire.points
        rubrics.append(Rubric(name, text or "", wire.type, wire.description, points=points))
    return tuple(rubrics)


def _build_turn(wire: AdkInvocation, raw: Mapping[str, Any]) -> CaseTurn:
    response = wire.final_response
    text = None if response is None else _join_text(response.parts or ())
    beyond = extract_native_data(raw)
    return CaseTurn(
        _build_user_message(wire.user_content),
        Reply(text, _build_events(wire.intermediate_data)),
        rubrics=_build_rubrics(wire.rubrics, "turn_rubric") if wire.rubrics else (),
        app_details=None if wire.app_details is None else _build_app_details(wire.app_details),
        invocation_id=wire.invocation_id or "",
        creation_timestamp=wire.creation_timestamp or 0.0,
        native={"adk": beyond} if beyond else {},
    )


def _build_app_details(wire: AdkAppDetails) -> JsonObject:
    """Return the JSON of app details, with only the keys that Google ADK reads.

    Google ADK refuses a file with other keys, such as `app_name`.
    """
    if wire.agent_details is None:
        return {}
    return {"agent_details": {name: _build_agent(agent) for name, agent in wire.agent_details.items()}}


def _build_agent(wire: AdkAgentDetails) -> JsonObject:
    fields = (
        ("name", wire.name),
        ("instructions", wire.instructions),
        ("tool_declarations", wire.tool_declarations),
    )
    return {key: value for key, value in fields if value is not None}


def _join_text(parts: Sequence[AdkPart]) -> str:
    """Join the texts of all parts, thoughts included, as Google ADK does."""
    return "\n".join([part.text for part in parts if part.text])


def _build_user_message(content: AdkUserContent) -> UserMessage:
    parts = content.parts or ()
    texts = [part["text"] for part in parts if part.get("text")]
    attachments: tuple[JsonObject, ...] = ()
    if len(texts) < len(parts):
        attachments = tuple([part for part in parts if not part.get("text") and part.keys() != {"text"}])
    return UserMessage("\n".join(texts), attachments)


def _build_events(data: AdkIntermediateData | None) -> tuple[Event, ...]:
    if data is None:
        return ()
    if data.invocation_events:
        return tuple(_iter_ordered_events(data.invocation_events))
    return (
        *[_build_tool_call(call) for call in data.tool_uses or ()],
        *[_build_tool_result(response) for response in data.tool_responses or ()],
        *[Message(_join_text(parts), author or None) for author, parts in data.intermediate_responses or ()],
    )


def _iter_ordered_events(events: Sequence[AdkInvocationEvent]) -> Iterator[Event]:
    for event in events:
        author = event.author or None
        for part in (event.content and event.content.parts) or ():
            if part.text:
                yield Message(part.text, author)
            if part.function_call:
                yield _build_tool_call(part.function_call, author)
            if part.function_response:
                yield _build_tool_result(part.function_response, author)


def _build_tool_call(wire: AdkFunctionCall, author: str | None = None) -> ToolCall:
    return ToolCall(wire.name or "", wire.args, wire.id, author)


def _build_tool_result(wire: AdkFunctionResponse, author: str | None = None) -> ToolResult:
    return ToolResult(wire.name or "", wire.response, wire.id, author)

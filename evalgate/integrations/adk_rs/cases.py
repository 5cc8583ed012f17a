"""Pydantic models of adk-rs' cases, and their conversion to evalgate's types."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Event,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.adk_turns import PART_KEYS, extract_native_data
from evalgate.documents.strict_json import get_items
from evalgate.documents.validation_errors import Id


def _drop_nulls(value: object) -> object:
    """Return an object without its null values, and any other value unchanged.

    Python writes null values, and adk-rs refuses most of them.
    """
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if item is not None}
    return value


class _AdkRsModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _treat_null_as_absent(cls, value: object) -> object:
        return _drop_nulls(value)


class _FunctionCall(_AdkRsModel):
    @classmethod
    def kept_unread_keys(cls) -> tuple[str, ...]:
        return ("partial_args", "will_continue")

    name: str
    args: Any = None
    id: str | None = None


class _FunctionResponse(_AdkRsModel):
    @classmethod
    def kept_unread_keys(cls) -> tuple[str, ...]:
        return ("parts", "scheduling", "will_continue")

    name: str = ""
    response: Any = None
    id: str | None = None


_CONTENT_KEYS = (
    ("text",),
    ("redactedThought", "redacted_thought"),
    ("inlineData", "inline_data"),
    ("fileData", "file_data"),
    ("functionCall", "function_call"),
    ("functionResponse", "function_response"),
    ("executableCode", "executable_code"),
    ("codeExecutionResult", "code_execution_result"),
)
"""Both spellings of the key for each kind of content of a part.

If a part has several kinds of content, the one that is first in this list counts.
"""


def _select_content(part: object) -> object:
    """Return a part of a message with only one content: the kind that comes first in `_CONTENT_KEYS`.

    adk-rs reads no other content of the part. The result also has the part's `thought` and, under `raw`, the
    whole part. A `part` that is no object is returned unchanged.

    Raises:
        ValueError: the part has no content.
    """
    if not isinstance(part, dict):
        return part
    for spellings in _CONTENT_KEYS:
        for key in spellings:
            if part.get(key) is not None:
                return {key: part[key], "thought": part.get("thought"), "raw": part}
    known = ", ".join(spellings[0] for spellings in _CONTENT_KEYS)
    raise ValueError(f"must hold one of {known}")


class _AdkRsPart(_AdkRsModel):
    @classmethod
    def kept_unread_keys(cls) -> tuple[str, ...]:
        return ("redacted_thought", *PART_KEYS)

    raw: dict[str, Any]
    text: str | None = None
    thought: Annotated[bool, Field(strict=True)] | None = None
    function_call: _FunctionCall | None = Field(None, alias="functionCall")
    function_response: _FunctionResponse | None = Field(None, alias="functionResponse")


_AnyPart = Annotated[_AdkRsPart, BeforeValidator(_select_content)]


class _Content(_AdkRsModel):
    # adk-rs requires a role and accepts only these four, unlike Google ADK.
    role: Literal["user", "model", "system", "tool"]
    parts: list[_AnyPart] = []


class _Event(_AdkRsModel):
    author: str | None = None
    content: _Content | None = None


class _IntermediateData(_AdkRsModel):
    tool_uses: list[_FunctionCall] = []
    tool_responses: list[_FunctionResponse] = []
    intermediate_responses: list[tuple[str, list[_AnyPart]]] = []
    # adk-rs silently drops the calls of these events. They are kept here, as part of the trajectory.
    invocation_events: list[_Event] = []


class _Invocation(_AdkRsModel):
    user_content: _Content
    final_response: _Content | None = None
    intermediate_data: _IntermediateData = _IntermediateData()
    invocation_id: str = ""
    creation_timestamp: Annotated[float, Field(strict=True)] = 0.0


class _Session(_AdkRsModel):
    app_name: str = ""
    user_id: str = ""
    state: dict[str, Any] = {}


def _reject_both_ids(value: object, canonical: str) -> object:
    if isinstance(value, dict) and canonical in value and "id" in value:
        raise ValueError(f"must hold `{canonical}` or `id`, not both")
    return value


class AdkRsCase(_AdkRsModel):
    """One eval case, with its conversation."""

    eval_id: Annotated[Id, Field(validation_alias=AliasChoices("eval_id", "id"))]
    conversation: list[_Invocation]
    session_input: _Session = _Session()
    name: str | None = None
    creation_timestamp: Annotated[float, Field(strict=True)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _check_id_keys(cls, value: object) -> object:
        return _reject_both_ids(value, "eval_id")


class AdkRsEvalSetFile(_AdkRsModel):
    """An eval set; `CaseListReader` reads its cases one by one."""

    eval_set_id: Annotated[Id, Field(validation_alias=AliasChoices("eval_set_id", "id"))]
    name: str = ""
    description: str | None = None
    eval_cases: list[AdkRsCase]
    creation_timestamp: Annotated[float, Field(strict=True)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _check_id_keys(cls, value: object) -> object:
        return _reject_both_ids(value, "eval_set_id")


# --- conversion to evalgate's types -------------------------------------------------------------------------


def build_adk_rs_case(wire: AdkRsCase, line: int, raw: object) -> EvalCase:
    """Convert `wire`, the validated model of a case, to evalgate's type.

    `line` is the first line of the case in its file. `raw` is the decoded JSON of the case: it also has the
    data for which the model has no field.
    """
    session = wire.session_input
    # The models drop unknown data, so `native` of each turn is taken from `raw`.
    invocations = zip(wire.conversation, get_items(raw, "conversation"), strict=True)
    return EvalCase(
        wire.eval_id,
        tuple(_build_turn(*invocation) for invocation in invocations),
        session=SessionInput(session.app_name, session.user_id, session.state),
        line=line,
        creation_timestamp=wire.creation_timestamp,
        native={"adk-rs": {"name": wire.name}} if wire.name else {},
    )


def _build_turn(wire: _Invocation, raw: Mapping[str, Any]) -> CaseTurn:
    user_parts = wire.user_content.parts
    attachments = tuple(part.raw for part in user_parts if part.text is None)
    response = None if wire.final_response is None else _join_text(wire.final_response.parts)
    events = tuple(_iter_events(wire.intermediate_data))
    # Native data of Google ADK must not hold arguments or results that are not objects.
    kept = extract_native_data(raw)
    return CaseTurn(
        UserMessage(_join_text(user_parts), attachments),
        Reply(response, events),
        invocation_id=wire.invocation_id,
        creation_timestamp=wire.creation_timestamp,
        native={"adk": kept} if kept and not any(map(_has_non_object_payload, events)) else {},
    )


def _has_non_object_payload(event: Event) -> bool:
    if isinstance(event, ToolResult):
        return not isinstance(event.result, dict | None)
    return isinstance(event, ToolCall) and event.other_args is not None


def _join_text(parts: Sequence[_AdkRsPart]) -> str:
    """Join the texts of all parts, thoughts included, as adk-rs does."""
    return "\n".join(part.text for part in parts if part.text)


def _iter_events(data: _IntermediateData) -> Iterator[Event]:
    for event in data.invocation_events:
        for part in event.content.parts if event.content else ():
            yield from _iter_part_events(part, event.author)
    for use in data.tool_uses:
        yield _build_tool_call(use)
    for response in data.tool_responses:
        yield ToolResult(response.name, response.response, response.id)
    for author, parts in data.intermediate_responses:
        if text := _join_text(parts):
            yield Message(text, author or None)


def _build_tool_call(wire: _FunctionCall, author: str | None = None) -> ToolCall:
    if isinstance(wire.args, dict):
        return ToolCall(wire.name, wire.args, wire.id, author)
    return ToolCall(wire.name, None, wire.id, author, other_args=wire.args)


def _iter_part_events(part: _AdkRsPart, author: str | None) -> Iterator[Event]:
    author = author or None
    if part.text:
        yield Message(part.text, author)
    if call := part.function_call:
        yield _build_tool_call(call, author)
    if response := part.function_response:
        yield ToolResult(response.name, response.response, response.id, author)

"""Cases of adk-rs as pydantic reads them, and as they become ours."""

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
    EvalCase,
    Event,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from evalgate.datasets.turn_shapes import PART_KEYS, beyond_turn
from evalgate.documents.strict_json import items_under
from evalgate.documents.validation import Id


def _without_nulls(value: object) -> object:
    """adk-rs itself stops at most nulls, which Python writes."""
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if item is not None}
    return value


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _reads_null_as_absent(cls, value: object) -> object:
        return _without_nulls(value)


class _FunctionCall(_Wire):
    @classmethod
    def kept_keys(cls) -> tuple[str, ...]:
        return ("partial_args", "will_continue")

    name: str
    args: Any = None
    id: str | None = None


class _FunctionResponse(_Wire):
    @classmethod
    def kept_keys(cls) -> tuple[str, ...]:
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
"""What a part can be. The first that it has decides."""


def _of_one_kind(part: object) -> object:
    """The part with the content that adk-rs takes when it has several."""
    if not isinstance(part, dict):
        return part
    for spellings in _CONTENT_KEYS:
        for key in spellings:
            if part.get(key) is not None:
                return {key: part[key], "thought": part.get("thought"), "raw": part}
    known = ", ".join(spellings[0] for spellings in _CONTENT_KEYS)
    raise ValueError(f"must hold one of {known}")


class _Part(_Wire):
    @classmethod
    def kept_keys(cls) -> tuple[str, ...]:
        return ("redacted_thought", *PART_KEYS)

    raw: dict[str, Any]
    text: str | None = None
    thought: Annotated[bool, Field(strict=True)] | None = None
    function_call: _FunctionCall | None = Field(None, alias="functionCall")
    function_response: _FunctionResponse | None = Field(None, alias="functionResponse")


_AnyPart = Annotated[_Part, BeforeValidator(_of_one_kind)]


class _Content(_Wire):
    role: Literal["user", "model", "system", "tool"]
    parts: list[_AnyPart] = []


class _Event(_Wire):
    author: str | None = None
    content: _Content | None = None


class _IntermediateData(_Wire):
    tool_uses: list[_FunctionCall] = []
    tool_responses: list[_FunctionResponse] = []
    intermediate_responses: list[tuple[str, list[_AnyPart]]] = []
    invocation_events: list[_Event] = []


class _Invocation(_Wire):
    user_content: _Content
    final_response: _Content | None = None
    intermediate_data: _IntermediateData = _IntermediateData()
    invocation_id: str = ""
    creation_timestamp: Annotated[float, Field(strict=True)] = 0.0


class _Session(_Wire):
    app_name: str = ""
    user_id: str = ""
    state: dict[str, Any] = {}


def _named_once(value: object, canonical: str) -> object:
    if isinstance(value, dict) and canonical in value and "id" in value:
        raise ValueError(f"must hold `{canonical}` or `id`, not both")
    return value


class WireCase(_Wire):
    """A case."""

    eval_id: Annotated[Id, Field(validation_alias=AliasChoices("eval_id", "id"))]
    conversation: list[_Invocation]
    session_input: _Session = _Session()
    name: str | None = None
    creation_timestamp: Annotated[float, Field(strict=True)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _has_one_id(cls, value: object) -> object:
        return _named_once(value, "eval_id")


class WireSet(_Wire):
    """An eval set, whose cases may be read one by one."""

    eval_set_id: Annotated[Id, Field(validation_alias=AliasChoices("eval_set_id", "id"))]
    name: str = ""
    description: str | None = None
    eval_cases: list[WireCase]
    creation_timestamp: Annotated[float, Field(strict=True)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _has_one_id(cls, value: object) -> object:
        return _named_once(value, "eval_set_id")


# --- to our own ---------------------------------------------------------------------------------------------


def case_of(wire: WireCase, line: int, raw: object) -> EvalCase:
    """The case that stands in that line, as ours; `raw` is what was read."""
    session = wire.session_input
    invocations = zip(wire.conversation, items_under(raw, "conversation"), strict=True)
    return EvalCase(
        wire.eval_id,
        tuple(_turn(*invocation) for invocation in invocations),
        session=SessionInput(session.app_name, session.user_id, session.state),
        line=line,
        creation_timestamp=wire.creation_timestamp,
        native={"adk-rs": {"name": wire.name}} if wire.name else {},
    )


def _turn(wire: _Invocation, raw: Mapping[str, Any]) -> Turn:
    said = wire.user_content.parts
    attachments = tuple(part.raw for part in said if part.text is None)
    response = None if wire.final_response is None else _text(wire.final_response.parts)
    events = tuple(_events(wire.intermediate_data))
    # The contents are Google ADK's own, but for arguments that are no object.
    kept = beyond_turn(raw)
    return Turn(
        UserMessage(_text(said), attachments),
        Reply(response, events),
        invocation_id=wire.invocation_id,
        creation_timestamp=wire.creation_timestamp,
        native={"adk": kept} if kept and not any(map(_is_odd, events)) else {},
    )


def _is_odd(event: Event) -> bool:
    if isinstance(event, ToolResult):
        return not isinstance(event.result, dict | None)
    return isinstance(event, ToolCall) and event.other_args is not None


def _text(parts: Sequence[_Part]) -> str:
    """Thoughts included, as adk-rs does."""
    return "\n".join(part.text for part in parts if part.text)


def _events(data: _IntermediateData) -> Iterator[Event]:
    for event in data.invocation_events:
        for part in event.content.parts if event.content else ():
            yield from _event(part, event.author)
    for use in data.tool_uses:
        yield _call(use)
    for response in data.tool_responses:
        yield ToolResult(response.name, response.response, response.id)
    for author, parts in data.intermediate_responses:
        if text := _text(parts):
            yield Message(text, author or None)


def _call(wire: _FunctionCall, author: str | None = None) -> ToolCall:
    if isinstance(wire.args, dict):
        return ToolCall(wire.name, wire.args, wire.id, author)
    return ToolCall(wire.name, None, wire.id, author, other_args=wire.args)


def _event(part: _Part, author: str | None) -> Iterator[Event]:
    author = author or None
    if part.text:
        yield Message(part.text, author)
    if call := part.function_call:
        yield _call(call, author)
    if response := part.function_response:
        yield ToolResult(response.name, response.response, response.id, author)

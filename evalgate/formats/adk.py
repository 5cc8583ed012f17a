"""Eval sets of Google ADK: an object with `eval_cases`, in snake_case or camelCase, mixed at will.

Every field of releases 2.3 to 2.13 is tolerated, as are fields that nobody knows; null counts as absent. What
is not evaluated here (rubrics, app_details, time stamps, …) is passed over.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from evalgate.errors import InvalidInput, Problem
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
from evalgate.protocols import Document
from evalgate.reading.caseids import Id, repeated_ids
from evalgate.reading.unreadkeys import unread_keys
from evalgate.reading.validation import Location, problems_of

_W = TypeVar("_W", bound="_Wire")


class AdkEvalSet:
    """Reads Google ADK's `.evalset.json` and the `.test.json` files that hold the same."""

    def recognises(self, document: Document) -> bool:
        """An object with eval cases, or at least an eval set's id and no results."""
        keys = document.value.keys() if isinstance(document.value, dict) else set()
        has_id = bool(keys & {"eval_set_id", "evalSetId"})
        is_result = bool(keys & {"eval_case_results", "evalCaseResults"})
        return bool(keys & {"eval_cases", "evalCases"}) or (has_id and not is_result)

    def read(self, document: Document) -> EvalSet:
        """The eval set, with the line of each case.

        Raises:
            InvalidInput: with every problem of the file, each at its line and column.
        """
        problems: list[Problem] = []
        head = _checked(_Head, document, document.value, (), problems)
        cases = tuple(_cases(document, problems))
        if problems or len({case.eval_id for case in cases}) < len(cases):
            problems += _repeated_ids(document)
        if head is None or problems:
            raise InvalidInput(sorted(problems))
        return EvalSet(head.eval_set_id, cases, document.path, head.name, head.description)

    def unread(self, document: Document) -> Iterator[Location]:
        """See `TellsUnread`."""
        yield from unread_keys(_Head, document.value)
        key = _spelling(document.value, "eval_cases")
        for index, case in enumerate(_raw_cases(document)):
            yield from unread_keys(_Case, case, (key, index))


def _cases(document: Document, problems: list[Problem]) -> Iterator[EvalCase]:
    # One at a time, so that a big file never stands in memory as pydantic models too.
    key = _spelling(document.value, "eval_cases")
    for index, raw in enumerate(_raw_cases(document)):
        wire = _checked(_Case, document, raw, ("eval_cases", index), problems)
        if wire is not None:
            line, _ = document.position((key, index))
            yield _case(wire, line)


def _raw_cases(document: Document) -> list[object]:
    cases = _member(document.value, "eval_cases")
    return cases if isinstance(cases, list) else []


def _checked(
    model: type[_W], document: Document, value: object, place: Location, problems: list[Problem]
) -> _W | None:
    """`value` in its shape; None, and its problems added, if it has another."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems += problems_of(
            error, file=document.path, position=partial(_position, document), prefix=place
        )
        return None


def _repeated_ids(document: Document) -> Iterator[Problem]:
    ids = (
        (_member(case, "eval_id"), ("eval_cases", index, "eval_id"))
        for index, case in enumerate(_raw_cases(document))
    )
    return repeated_ids(ids, file=document.path, position=partial(_position, document))


def _position(document: Document, location: Location) -> tuple[int, int]:
    """The place of a snake_case path, however the file spells it."""
    value, spelled = document.value, list[str | int]()
    for part in location:
        spelled.append(_spelling(value, part) if isinstance(part, str) else part)
        value = _inner(value, spelled[-1])
    return document.position(tuple(spelled))


def _inner(value: object, part: str | int) -> object:
    if isinstance(value, dict):
        return value.get(part)
    return value[part] if isinstance(value, list) and isinstance(part, int) and part < len(value) else None


def _spelling(value: object, name: str) -> str:
    camel = to_camel(name)
    return camel if isinstance(value, dict) and camel in value else name


def _member(value: object, name: str) -> object:
    return _inner(value, _spelling(value, name))


# --- the file's shapes --------------------------------------------------------------------------------------


class _Wire(BaseModel):
    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=to_camel),
        populate_by_name=True,
        loc_by_alias=False,
        extra="ignore",
        frozen=True,
        defer_build=True,
    )


class _FunctionCall(_Wire):
    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None


class _FunctionResponse(_Wire):
    id: str | None = None
    name: str | None = None
    response: Any = None


class _Part(_Wire):
    text: str | None = None
    function_call: _FunctionCall | None = None
    function_response: _FunctionResponse | None = None


class _Content(_Wire):
    parts: list[_Part] | None = None


def _with_text(part: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(part.get("text"), (str, type(None))):
        raise ValueError(f"must hold its `text` as text, not as {part['text']!r}")  # noqa: TRY004  pydantic's contract
    return part


class _UserContent(_Wire):
    # Parts stay as they are: those without text become the message's attachments.
    parts: list[Annotated[dict[str, Any], AfterValidator(_with_text)]] | None = None


class _InvocationEvent(_Wire):
    author: str | None = None
    content: _Content | None = None


class _IntermediateData(_Wire):
    tool_uses: list[_FunctionCall] | None = None
    tool_responses: list[_FunctionResponse] | None = None
    intermediate_responses: list[tuple[str | None, list[_Part]]] | None = None
    invocation_events: list[_InvocationEvent] | None = None

    @model_validator(mode="after")
    def _is_one_shape(self) -> Self:
        if self.invocation_events and (self.tool_uses or self.tool_responses or self.intermediate_responses):
            raise ValueError("must hold invocation_events or tool_uses with responses, not both")
        return self


class _Invocation(_Wire):
    user_content: _UserContent
    final_response: _Content | None = None
    intermediate_data: _IntermediateData | None = None


def _checked_persona(persona: object) -> object:
    if persona is not None and not isinstance(persona, (str, dict)):
        raise ValueError("must be the name of a persona or an object")
    return persona


class _Scenario(_Wire):
    starting_prompt: str
    conversation_plan: str
    user_persona: Annotated[Any, BeforeValidator(_checked_persona)] = None


class _Session(_Wire):
    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Any] | None = None


class _Case(_Wire):
    eval_id: Id
    conversation: list[_Invocation] | None = None
    conversation_scenario: _Scenario | None = None
    session_input: _Session | None = None
    final_session_state: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if (self.conversation is None) == (self.conversation_scenario is None):
            both = "not both" if self.conversation_scenario else "but holds neither"
            raise ValueError(f"must hold a conversation or a conversation_scenario, {both}")
        return self


class _Head(_Wire):
    eval_set_id: Id
    name: str | None = None
    description: str | None = None
    eval_cases: list[Any]

    @model_validator(mode="before")
    @classmethod
    def _is_spelt_once(cls, value: object) -> object:
        """Of two spellings, one would be dropped in silence."""
        keys = value if isinstance(value, dict) else {}
        for snake, camel in (("eval_cases", "evalCases"), ("eval_set_id", "evalSetId")):
            if snake in keys and camel in keys:
                raise ValueError(f"holds both `{snake}` and `{camel}`: keep one")
        return value


# --- to our own ---------------------------------------------------------------------------------------------


def _case(wire: _Case, line: int) -> EvalCase:
    return EvalCase(
        eval_id=wire.eval_id,
        turns=tuple([_turn(invocation) for invocation in wire.conversation or ()]),
        scenario=_scenario(wire.conversation_scenario),
        session=_session(wire.session_input),
        # An empty state is Google ADK's way of expecting none.
        final_state=wire.final_session_state or None,
        line=line,
    )


def _scenario(wire: _Scenario | None) -> Scenario | None:
    if wire is None:
        return None
    return Scenario(wire.starting_prompt, wire.conversation_plan, wire.user_persona)


def _session(wire: _Session | None) -> SessionInput:
    return SessionInput(wire.app_name or "", wire.user_id or "", wire.state or {}) if wire else _NO_SESSION


_NO_SESSION = SessionInput()


def _turn(wire: _Invocation) -> Turn:
    response = wire.final_response
    text = None if response is None else _text(response.parts or ())
    return Turn(_user_message(wire.user_content), Reply(text, _events(wire.intermediate_data)))


def _text(parts: Sequence[_Part]) -> str:
    """Thoughts included, as Google ADK does."""
    return "\n".join([part.text for part in parts if part.text])


def _user_message(content: _UserContent) -> UserMessage:
    parts = content.parts or ()
    texts = [part["text"] for part in parts if part.get("text")]
    attachments: tuple[JsonObject, ...] = ()
    if len(texts) < len(parts):
        attachments = tuple([part for part in parts if not part.get("text") and part.keys() != {"text"}])
    return UserMessage("\n".join(texts), attachments)


def _events(data: _IntermediateData | None) -> tuple[Event, ...]:
    if data is None:
        return ()
    if data.invocation_events:
        return tuple(_in_order(data.invocation_events))
    return (
        *[_call(call) for call in data.tool_uses or ()],
        *[_result(response) for response in data.tool_responses or ()],
        *[_said(parts, author) for author, parts in data.intermediate_responses or ()],
    )


def _in_order(events: Sequence[_InvocationEvent]) -> Iterator[Event]:
    for event in events:
        for part in (event.content and event.content.parts) or ():
            if part.text:
                yield Message(part.text, event.author)
            if part.function_call:
                yield _call(part.function_call, event.author)
            if part.function_response:
                yield _result(part.function_response, event.author)


def _call(wire: _FunctionCall, author: str | None = None) -> ToolCall:
    return ToolCall(wire.name or "", wire.args, wire.id, author)


def _result(wire: _FunctionResponse, author: str | None = None) -> ToolResult:
    return ToolResult(wire.name or "", wire.response, wire.id, author)


def _said(parts: Sequence[_Part], author: str | None) -> Message:
    return Message(_text(parts), author)

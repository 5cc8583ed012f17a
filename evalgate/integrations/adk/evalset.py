"""Eval sets of Google ADK: an object with `eval_cases`, in snake_case or camelCase, mixed at will.

Every field of releases 2.3 to 2.13 is read, and fields that nobody knows are tolerated; null counts as
absent. What our model has no field for is kept as `native`, for the way back.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from pydantic.alias_generators import to_camel

from evalgate.core.errors import Problem
from evalgate.core.protocols import Document
from evalgate.core.types import (
    EvalCase,
    EvalSet,
    Event,
    JsonObject,
    Message,
    Reply,
    Rubric,
    Scenario,
    SessionInput,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from evalgate.datasets.discovery import build_eval_set
from evalgate.datasets.ignored_keys import KeyCheck, unread_keys
from evalgate.datasets.large.lazy_cases import cases_of
from evalgate.datasets.turn_shapes import CONTENTS, beyond_turn, respelled
from evalgate.documents.strict_json import items_of, without_items
from evalgate.documents.validation import Location, repeated_ids, shaped
from evalgate.integrations.adk.file_models import (
    WireAnswer,
    WireCall,
    WireCase,
    WireData,
    WireEvent,
    WireHead,
    WireInvocation,
    WirePart,
    WireRubric,
    WireScenario,
    WireSession,
    WireUserContent,
)

_IN_CONTENTS = frozenset({*CONTENTS, *map(to_camel, CONTENTS)})
"""What is kept whole where it says more than is read."""


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
        position = partial(_position, document)
        keys = KeyCheck(document.path, document.position, problems, elsewhere=_OF_OLD_LISTS)
        keys.look(WireHead, _head(document.value))
        head = shaped(WireHead, _head(document.value), problems, file=document.path, position=position)
        cases = _cases(document, problems, keys)
        return build_eval_set(document.path, head, cases, keys, partial(_repeated_ids, document))

    def unread(self, document: Document) -> Iterator[Location]:
        """See `TellsUnread`."""
        for found in unread_keys(WireHead, _head(document.value)):
            yield found.location
        key = _spelling(document.value, "eval_cases")
        for index, case in enumerate(_raw_cases(document)):
            for found in unread_keys(WireCase, case, (key, index)):
                if not _IN_CONTENTS.intersection(found.location[:-1]):
                    yield found.location


_OF_OLD_LISTS = {
    "query": "user_content",
    "reference": "final_response",
    "expected_tool_use": "intermediate_data",
    "tool_name": "name",
    "tool_input": "args",
}
"""Keys of the lists that Google ADK read before, and what says the same in an eval set."""


def _cases(document: Document, problems: list[Problem], keys: KeyCheck) -> Sequence[EvalCase]:
    # One at a time, so that a big file never stands in memory as pydantic models too.
    key, position = _spelling(document.value, "eval_cases"), partial(_position, document)

    def make(index: int, raw: object) -> EvalCase | None:
        place = ("eval_cases", index)
        wire = shaped(WireCase, raw, problems, file=document.path, position=position, prefix=place)
        case = None if wire is None else _case(wire, document.position((key, index))[0], raw)
        if keys.is_open and not _has_plain_keys(raw, case):
            keys.look(WireCase, raw, (key, index))
        return case

    return cases_of(_raw_cases(document), make)


_CASE_KEYS = {"eval_id", "conversation", "session_input", "final_session_state", "creation_timestamp"}
_TURN_KEYS = {*CONTENTS, "invocation_id", "creation_timestamp"}
_SESSION_KEYS = {"app_name", "user_id", "state"}


def _has_plain_keys(raw: Any, case: EvalCase | None) -> bool:
    """Return True if the case holds the most common keys alone; False when in doubt.

    Nearly every case does, and `beyond_turn` has looked through its contents already: what is said there
    beyond a turn is kept in `native`, and parts without text are attachments.
    """
    return (
        case is not None
        and raw.keys() <= _CASE_KEYS
        and (raw.get("session_input") or {}).keys() <= _SESSION_KEYS
        and all(each.keys() <= _TURN_KEYS for each in raw.get("conversation") or ())
        and not any(turn.native or turn.user.attachments for turn in case.turns)
    )


def _raw_cases(document: Document) -> Sequence[object]:
    return items_of(_member(document.value, "eval_cases")) or ()


def _head(value: object) -> object:
    """What the file says beside its cases."""
    return without_items(value, _spelling(value, "eval_cases"))


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
    items = items_of(value)
    return items[part] if items and isinstance(part, int) and part < len(items) else None


def _spelling(value: object, name: str) -> str:
    camel = _camel(name)
    return camel if isinstance(value, dict) and camel in value else name


_camel = cache(to_camel)


def _member(value: object, name: str) -> object:
    return _inner(value, _spelling(value, name))


# --- to our own ---------------------------------------------------------------------------------------------


def _case(wire: WireCase, line: int, raw: object) -> EvalCase:
    asked = _member(raw, "conversation")
    invocations = zip(wire.conversation or (), asked if isinstance(asked, list) else (), strict=True)
    return EvalCase(
        eval_id=wire.eval_id,
        turns=tuple([_turn(*invocation) for invocation in invocations]),
        scenario=_scenario(wire.conversation_scenario),
        session=_session(wire.session_input),
        # An empty state is Google ADK's way of expecting none.
        final_state=wire.final_session_state or None,
        line=line,
        rubrics=_rubrics(wire.rubrics, "rubric") if wire.rubrics else (),
        creation_timestamp=wire.creation_timestamp or 0.0,
        native={"adk-rs": {"name": wire.name}} if wire.name else {},
    )


def _rubrics(wires: Sequence[WireRubric], named: str) -> tuple[Rubric, ...]:
    return tuple(_rubric(f"{named}_{number}", wire) for number, wire in enumerate(wires, start=1))


def _rubric(name: str, wire: WireRubric) -> Rubric:
    text = wire.rubric_content.text_property if wire.rubric_content else wire.criterion
    return Rubric(wire.rubric_id or name, text or "", wire.type, wire.description)


def _scenario(wire: WireScenario | None) -> Scenario | None:
    if wire is None:
        return None
    return Scenario(wire.starting_prompt, wire.conversation_plan, wire.user_persona)


def _session(wire: WireSession | None) -> SessionInput:
    if wire is None:
        return _NO_SESSION
    return SessionInput(wire.app_name or "", wire.user_id or "", wire.state or {}, wire.session_id or "")


_NO_SESSION = SessionInput()


def _turn(wire: WireInvocation, raw: Mapping[str, Any]) -> Turn:
    response = wire.final_response
    text = None if response is None else _text(response.parts or ())
    beyond = beyond_turn(raw)
    return Turn(
        _user_message(wire.user_content),
        Reply(text, _events(wire.intermediate_data)),
        rubrics=_rubrics(wire.rubrics, "turn_rubric") if wire.rubrics else (),
        app_details=respelled(_member(raw, "app_details")) if wire.app_details else None,
        invocation_id=wire.invocation_id or "",
        creation_timestamp=wire.creation_timestamp or 0.0,
        native={"adk": beyond} if beyond else {},
    )


def _text(parts: Sequence[WirePart]) -> str:
    """Thoughts included, as Google ADK does."""
    return "\n".join([part.text for part in parts if part.text])


def _user_message(content: WireUserContent) -> UserMessage:
    parts = content.parts or ()
    texts = [part["text"] for part in parts if part.get("text")]
    attachments: tuple[JsonObject, ...] = ()
    if len(texts) < len(parts):
        attachments = tuple([part for part in parts if not part.get("text") and part.keys() != {"text"}])
    return UserMessage("\n".join(texts), attachments)


def _events(data: WireData | None) -> tuple[Event, ...]:
    if data is None:
        return ()
    if data.invocation_events:
        return tuple(_in_order(data.invocation_events))
    return (
        *[_call(call) for call in data.tool_uses or ()],
        *[_result(response) for response in data.tool_responses or ()],
        *[_said(parts, author or None) for author, parts in data.intermediate_responses or ()],
    )


def _in_order(events: Sequence[WireEvent]) -> Iterator[Event]:
    for event in events:
        author = event.author or None
        for part in (event.content and event.content.parts) or ():
            if part.text:
                yield Message(part.text, author)
            if part.function_call:
                yield _call(part.function_call, author)
            if part.function_response:
                yield _result(part.function_response, author)


def _call(wire: WireCall, author: str | None = None) -> ToolCall:
    return ToolCall(wire.name or "", wire.args, wire.id, author)


def _result(wire: WireAnswer, author: str | None = None) -> ToolResult:
    return ToolResult(wire.name or "", wire.response, wire.id, author)


def _said(parts: Sequence[WirePart], author: str | None) -> Message:
    return Message(_text(parts), author)

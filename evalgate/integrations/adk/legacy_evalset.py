"""The two lists that Google ADK read before it had eval sets, and its `initial_session_file`.

A *turn list* (`[{query, expected_tool_use, reference, …}, …]`) is one case; a *case list*
(`[{name, data: [turns], initial_session}, …]`) is several. Neither says what it is called: the file's path is
the id of the set, and of a turn list's only case.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from evalgate.core.errors import InvalidInput, Problem
from evalgate.core.protocols import Document
from evalgate.core.types import (
    EvalCase,
    EvalSet,
    JsonObject,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    Turn,
    UserMessage,
)
from evalgate.datasets.ignored_keys import KeyCheck, unread_keys
from evalgate.datasets.large.lazy_cases import cases_of, has_twice
from evalgate.documents.strict_json import Unusual, items, items_of, members, read_json, text
from evalgate.documents.validation import Id, checked_id, problems_of, repeated_ids


class AdkLegacy:
    """Reads the lists in old `.test.json` and `.evalset.json` files."""

    def recognises(self, document: Document) -> bool:
        """A list of turns or of cases. An empty list holds no case, but nobody else would take it."""
        listed = items_of(document.value)
        return listed is not None and (not listed or any(map(_is_turn_or_case, listed)))

    def read(self, document: Document) -> EvalSet:
        """The eval set, with the line of each case.

        Raises:
            InvalidInput: with every problem of the file, each at its line and column.
        """
        listed = items_of(document.value) or ()
        is_case_list = any(isinstance(item, dict) and "data" in item for item in listed)
        problems: list[Problem] = []
        keys = KeyCheck(document.path, document.position, problems, elsewhere={"mock_tool_output": ""})
        if is_case_list:
            cases = _cases(document, listed, problems, keys)
        else:
            cases = _turn_list(document, problems, keys)
        notices = keys.notices()
        if problems or has_twice(cases):
            problems += _repeated_names(document, listed)
        if problems:
            raise InvalidInput(sorted(problems))
        return EvalSet(document.path, cases, document.path, notices=notices)

    def unread(self, document: Document) -> Iterator[tuple[str | int, ...]]:
        """See `TellsUnread`."""
        listed = items_of(document.value) or ()
        is_case_list = any(isinstance(item, dict) and "data" in item for item in listed)
        for index, item in enumerate(listed):
            for found in unread_keys(_Case if is_case_list else _Turn, item, (index,)):
                yield found.location


def _repeated_names(document: Document, items: Sequence[Any]) -> list[Problem]:
    names = [
        (item.get("name"), (index, "name")) for index, item in enumerate(items) if isinstance(item, dict)
    ]
    return list(repeated_ids(names, file=document.path, position=document.position))


def _is_turn_or_case(item: object) -> bool:
    return isinstance(item, dict) and ("query" in item or "data" in item)


# --- the file's shapes --------------------------------------------------------------------------------------


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class _ToolUse(_Wire):
    tool_name: str
    tool_input: dict[str, Any] | None


class _Said(_Wire):
    author: str | None = None
    text: str | None = None


def _from_bare_text(value: object) -> object:
    return {"text": value} if isinstance(value, str) else value


class _Turn(_Wire):
    query: str
    expected_tool_use: list[_ToolUse] | None = None
    # Real files hold plain texts here, although no release of Google ADK reads them.
    expected_intermediate_agent_responses: list[Annotated[_Said, BeforeValidator(_from_bare_text)]] | None = (
        None
    )
    reference: str | None = None


class _Session(_Wire):
    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Any] | None = None


class _Case(_Wire):
    name: Id
    data: list[_Turn]
    initial_session: _Session | None = None


@cache
def _turns_adapter() -> TypeAdapter[list[_Turn]]:
    return TypeAdapter(list[_Turn])


# --- to our own ---------------------------------------------------------------------------------------------


def _turn_list(document: Document, problems: list[Problem], keys: KeyCheck) -> tuple[EvalCase, ...]:
    listed = items_of(document.value)
    for index, turn in enumerate(listed or ()):
        keys.look(_Turn, turn, (index,))
    try:
        turns = _turns_adapter().validate_python(document.value if listed is None else list(listed))
    except ValidationError as error:
        problems += problems_of(error, file=document.path, position=document.position)
        return ()
    return (EvalCase(document.path, _turns(turns), line=document.position(())[0]),) if turns else ()


def _cases(
    document: Document, listed: Sequence[Any], problems: list[Problem], keys: KeyCheck
) -> Sequence[EvalCase]:
    def make(index: int, raw: object) -> EvalCase | None:
        line, _ = document.position((index,))
        if (case := _plain_case(raw, line)) is not None:
            return case
        if keys.is_open:
            keys.look(_Case, raw, (index,))
        try:
            return _any_case(raw, line)
        except ValidationError as error:
            problems.extend(
                problems_of(error, file=document.path, position=document.position, prefix=(index,))
            )
            return None

    return cases_of(listed, make)


def _any_case(raw: object, line: int) -> EvalCase:
    wire = _Case.model_validate(raw)
    return EvalCase(wire.name, _turns(wire.data), session=_session(wire.initial_session), line=line)


def _turns(turns: Sequence[_Turn]) -> tuple[Turn, ...]:
    return tuple([Turn(UserMessage(turn.query), _reply(turn)) for turn in turns])


def _reply(turn: _Turn) -> Reply:
    calls = [ToolCall(use.tool_name, use.tool_input) for use in turn.expected_tool_use or ()]
    said = [
        Message(response.text or "", response.author)
        for response in turn.expected_intermediate_agent_responses or ()
    ]
    return Reply(turn.reference or None, (*calls, *said))


def _session(wire: _Session | None) -> SessionInput:
    if wire is None:
        return SessionInput()
    return SessionInput(wire.app_name or "", wire.user_id or "", wire.state or {})


# --- the short way to our own -------------------------------------------------------------------------------

_CASE_KEYS = frozenset({"name", "data", "initial_session"})
_TURN_KEYS = frozenset(_Turn.model_fields)
_USE_KEYS = frozenset({"tool_name", "tool_input"})
_SESSION_KEYS = frozenset({"app_name", "user_id", "state"})


def _plain_case(raw: object, line: int) -> EvalCase | None:
    """What `_any_case` gives, in half the time; None when the case is unusual, or wrong."""
    try:
        case = members(raw, _CASE_KEYS)
        turns = tuple([_plain_turn(each) for each in items(case.get("data"))])
        session = _plain_session(case["initial_session"]) if "initial_session" in case else SessionInput()
        return EvalCase(checked_id(text(case.get("name"))), turns, session=session, line=line)
    except (Unusual, ValueError):
        return None


def _plain_turn(raw: object) -> Turn:
    turn = members(raw, _TURN_KEYS)
    if turn.get("expected_intermediate_agent_responses"):
        raise Unusual
    calls = tuple([_plain_call(each) for each in items(turn.get("expected_tool_use", []))])
    return Turn(UserMessage(text(turn.get("query"))), Reply(text(turn.get("reference", "")) or None, calls))


def _plain_call(raw: object) -> ToolCall:
    use = members(raw, _USE_KEYS)
    return ToolCall(text(use.get("tool_name")), _plain_object(use.get("tool_input")))


def _plain_session(raw: object) -> SessionInput:
    session = members(raw, _SESSION_KEYS)
    state = _plain_object(session.get("state", {}))
    return SessionInput(text(session.get("app_name", "")), text(session.get("user_id", "")), state)


def _plain_object(value: object) -> JsonObject:
    if isinstance(value, dict):
        return value
    raise Unusual


class _SessionFile(BaseModel):
    """A whole stored session will do: its events, id and times are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Any] | None = None


def read_session(path: Path, shown_as: str) -> SessionInput:
    """The session in the file.

    Raises:
        InvalidInput: it cannot be read, or is no session; with every problem at its line.
    """
    document = read_json(path, shown_as)
    try:
        wire = _SessionFile.model_validate(document.value)
    except ValidationError as error:
        found = problems_of(error, file=shown_as, position=document.position)
        raise InvalidInput(found) from None
    return SessionInput(wire.app_name or "", wire.user_id or "", wire.state or {})

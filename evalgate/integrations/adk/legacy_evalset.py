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

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import Document
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    JsonObject,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    UserMessage,
)
from evalgate.datasets.ignored_keys import KeyChecker, collect_ignored_keys
from evalgate.datasets.large.lazy_cases import build_cases, has_repeated_ids
from evalgate.documents.strict_json import (
    UnexpectedShapeError,
    as_sequence,
    read_json,
    require_list,
    require_members,
    require_text,
)
from evalgate.documents.validation import Id, find_repeated_ids, translate_validation_error, validate_id


class AdkLegacyFormat:
    """Reads the lists in old `.test.json` and `.evalset.json` files."""

    def matches_document(self, document: Document) -> bool:
        """A list of turns or of cases. An empty list holds no case, but nobody else would take it."""
        listed = as_sequence(document.value)
        return listed is not None and (not listed or any(map(_is_turn_or_case, listed)))

    def read_eval_set(self, document: Document) -> EvalSet:
        """The eval set, with the line of each case.

        Raises:
            InvalidInputError: with every problem of the file, each at its line and column.
        """
        listed = as_sequence(document.value) or ()
        is_case_list = any(isinstance(item, dict) and "data" in item for item in listed)
        problems: list[Problem] = []
        keys = KeyChecker(document.path, document.find_position, problems, elsewhere={"mock_tool_output": ""})
        if is_case_list:
            cases = _build_cases(document, listed, problems, keys)
        else:
            cases = _build_turn_list_case(document, problems, keys)
        notices = keys.build_notices()
        if problems or has_repeated_ids(cases):
            problems += _find_repeated_names(document, listed)
        if problems:
            raise InvalidInputError(sorted(problems))
        return EvalSet(document.path, cases, document.path, notices=notices)

    def find_ignored_keys(self, document: Document) -> Iterator[tuple[str | int, ...]]:
        """See `ReportsIgnoredKeys`."""
        listed = as_sequence(document.value) or ()
        is_case_list = any(isinstance(item, dict) and "data" in item for item in listed)
        for index, item in enumerate(listed):
            for found in collect_ignored_keys(_LegacyCase if is_case_list else _LegacyTurn, item, (index,)):
                yield found.location


def _find_repeated_names(document: Document, items: Sequence[Any]) -> list[Problem]:
    names = [
        (item.get("name"), (index, "name")) for index, item in enumerate(items) if isinstance(item, dict)
    ]
    return list(find_repeated_ids(names, file=document.path, position=document.find_position))


def _is_turn_or_case(item: object) -> bool:
    return isinstance(item, dict) and ("query" in item or "data" in item)


# --- the file's shapes --------------------------------------------------------------------------------------


class _LegacyModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class _LegacyToolUse(_LegacyModel):
    tool_name: str
    tool_input: dict[str, Any] | None


class _LegacyMessage(_LegacyModel):
    author: str | None = None
    text: str | None = None


def _wrap_bare_text(value: object) -> object:
    return {"text": value} if isinstance(value, str) else value


class _LegacyTurn(_LegacyModel):
    query: str
    expected_tool_use: list[_LegacyToolUse] | None = None
    # Real files hold plain texts here, although no release of Google ADK reads them.
    expected_intermediate_agent_responses: (
        list[Annotated[_LegacyMessage, BeforeValidator(_wrap_bare_text)]] | None
    ) = None
    reference: str | None = None


class _LegacySession(_LegacyModel):
    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Any] | None = None


class _LegacyCase(_LegacyModel):
    name: Id
    data: list[_LegacyTurn]
    initial_session: _LegacySession | None = None


@cache
def _get_turns_adapter() -> TypeAdapter[list[_LegacyTurn]]:
    return TypeAdapter(list[_LegacyTurn])


# --- to our own ---------------------------------------------------------------------------------------------


def _build_turn_list_case(
    document: Document, problems: list[Problem], keys: KeyChecker
) -> tuple[EvalCase, ...]:
    listed = as_sequence(document.value)
    for index, turn in enumerate(listed or ()):
        keys.check_value(_LegacyTurn, turn, (index,))
    try:
        turns = _get_turns_adapter().validate_python(document.value if listed is None else list(listed))
    except ValidationError as error:
        problems += translate_validation_error(error, file=document.path, position=document.find_position)
        return ()
    return (
        (EvalCase(document.path, _build_turns(turns), line=document.find_position(())[0]),) if turns else ()
    )


def _build_cases(
    document: Document, listed: Sequence[Any], problems: list[Problem], keys: KeyChecker
) -> Sequence[EvalCase]:
    def make_case(index: int, raw: object) -> EvalCase | None:
        line, _ = document.find_position((index,))
        if (case := _parse_common_case(raw, line)) is not None:
            return case
        if keys.is_open:
            keys.check_value(_LegacyCase, raw, (index,))
        try:
            return _build_case(raw, line)
        except ValidationError as error:
            problems.extend(
                translate_validation_error(
                    error, file=document.path, position=document.find_position, prefix=(index,)
                )
            )
            return None

    return build_cases(listed, make_case)


def _build_case(raw: object, line: int) -> EvalCase:
    wire = _LegacyCase.model_validate(raw)
    return EvalCase(
        wire.name, _build_turns(wire.data), session=_build_session(wire.initial_session), line=line
    )


def _build_turns(turns: Sequence[_LegacyTurn]) -> tuple[CaseTurn, ...]:
    return tuple([CaseTurn(UserMessage(turn.query), _build_reply(turn)) for turn in turns])


def _build_reply(turn: _LegacyTurn) -> Reply:
    calls = [ToolCall(use.tool_name, use.tool_input) for use in turn.expected_tool_use or ()]
    said = [
        Message(response.text or "", response.author)
        for response in turn.expected_intermediate_agent_responses or ()
    ]
    return Reply(turn.reference or None, (*calls, *said))


def _build_session(wire: _LegacySession | None) -> SessionInput:
    if wire is None:
        return SessionInput()
    return SessionInput(wire.app_name or "", wire.user_id or "", wire.state or {})


# --- the short way to our own -------------------------------------------------------------------------------

_CASE_KEYS = frozenset({"name", "data", "initial_session"})
_TURN_KEYS = frozenset(_LegacyTurn.model_fields)
_USE_KEYS = frozenset({"tool_name", "tool_input"})
_SESSION_KEYS = frozenset({"app_name", "user_id", "state"})


def _parse_common_case(raw: object, line: int) -> EvalCase | None:
    """What `_build_case` gives, in half the time; None when the case is unusual, or wrong."""
    try:
        case = require_members(raw, _CASE_KEYS)
        turns = tuple([_parse_common_turn(each) for each in require_list(case.get("data"))])
        session = (
            _parse_common_session(case["initial_session"]) if "initial_session" in case else SessionInput()
        )
        return EvalCase(validate_id(require_text(case.get("name"))), turns, session=session, line=line)
    except (UnexpectedShapeError, ValueError):
        return None


def _parse_common_turn(raw: object) -> CaseTurn:
    turn = require_members(raw, _TURN_KEYS)
    if turn.get("expected_intermediate_agent_responses"):
        raise UnexpectedShapeError
    calls = tuple([_parse_common_call(each) for each in require_list(turn.get("expected_tool_use", []))])
    return CaseTurn(
        UserMessage(require_text(turn.get("query"))),
        Reply(require_text(turn.get("reference", "")) or None, calls),
    )


def _parse_common_call(raw: object) -> ToolCall:
    use = require_members(raw, _USE_KEYS)
    return ToolCall(require_text(use.get("tool_name")), _require_object(use.get("tool_input")))


def _parse_common_session(raw: object) -> SessionInput:
    session = require_members(raw, _SESSION_KEYS)
    state = _require_object(session.get("state", {}))
    return SessionInput(
        require_text(session.get("app_name", "")), require_text(session.get("user_id", "")), state
    )


def _require_object(value: object) -> JsonObject:
    if isinstance(value, dict):
        return value
    raise UnexpectedShapeError


class _SessionFile(BaseModel):
    """A whole stored session will do: its events, id and times are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Any] | None = None


def read_session_file(path: Path, shown_as: str) -> SessionInput:
    """The session in the file.

    Raises:
        InvalidInputError: it cannot be read, or is no session; with every problem at its line.
    """
    document = read_json(path, shown_as)
    try:
        wire = _SessionFile.model_validate(document.value)
    except ValidationError as error:
        found = translate_validation_error(error, file=shown_as, position=document.find_position)
        raise InvalidInputError(found) from None
    return SessionInput(wire.app_name or "", wire.user_id or "", wire.state or {})

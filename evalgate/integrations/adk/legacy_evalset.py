"""The two list formats that Google ADK read before eval sets, and its `initial_session_file`.

A *turn list* (`[{query, expected_tool_use, reference, …}, …]`) is one case. A *case list*
(`[{name, data: [turns], initial_session}, …]`) is several. Neither list names the eval set. The set's id is
the file's path, which is also the id of a turn list's only case.

`fast_legacy_cases.py` builds the cases that have only the usual keys, because this is faster. All other
cases, and all errors, go through the models below.
"""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import Document
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    UserMessage,
)
from evalgate.datasets.case_list_reader import finish_reading
from evalgate.datasets.cases import build_cases
from evalgate.datasets.ignored_keys import KeyChecker, collect_ignored_keys
from evalgate.documents.strict_json import as_sequence, read_json
from evalgate.documents.validation_errors import Id, find_repeated_ids, translate_validation_error

_MOST_COMPARED = 100
"""Most items that are inspected to distinguish a list of turns from a data set; items of a list are alike."""


class AdkLegacyFormat:
    """The list formats of old `.test.json` and `.evalset.json` files."""

    def matches_document(self, document: Document) -> bool:
        """Return True for a list of turns or a list of cases.

        Return False for another tool's list of questions and answers, although its items may also have the
        key `query`. Return True for an empty list: it holds no case, and no other format accepts it.
        """
        listed = as_sequence(document.value)
        if not listed:
            return listed is not None
        found = next(
            (item for item in listed if isinstance(item, dict) and ("query" in item or "data" in item)), None
        )
        if found is None or "data" in found:
            return found is not None
        from evalgate.datasets.foreign_rows import is_question_list

        return not is_question_list(islice(listed, _MOST_COMPARED))

    def read_eval_set(self, document: Document) -> EvalSet:
        """Build the eval set, with the line number of each case.

        Raises:
            InvalidInputError: the file is invalid. The error lists every problem with its line and column.
        """
        listed = as_sequence(document.value) or ()
        is_case_list = any(isinstance(item, dict) and "data" in item for item in listed)
        problems: list[Problem] = []
        # No release of Google ADK reads `mock_tool_output`; named here, so that no other key is suggested
        # for it.
        keys = KeyChecker(
            document.path, document.find_position, problems, equivalent_keys={"mock_tool_output": ""}
        )
        if is_case_list:
            cases = _build_cases(document, listed, problems, keys)
        else:
            cases = _build_turn_list_case(document, problems, keys)
        notices = finish_reading(keys, cases, partial(_find_repeated_names, document, listed))
        return EvalSet(document.path, cases, document.path, notices=notices)

    def find_ignored_keys(self, document: Document) -> Iterator[tuple[str | int, ...]]:
        """Yield the paths of keys that are ignored when the eval set is read."""
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


# --- the file's shapes --------------------------------------------------------------------------------------


class _LegacyModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class _LegacyToolUse(_LegacyModel):
    tool_name: str
    tool_input: dict[str, Any] | None


class _LegacyMessage(_LegacyModel):
    author: str | None = None
    text: str | None = None


# Real files hold plain texts here, although no release of Google ADK reads them.
_MessageOrText: TypeAlias = Annotated[
    _LegacyMessage, BeforeValidator(lambda value: {"text": value} if isinstance(value, str) else value)
]


class _LegacyTurn(_LegacyModel):
    query: str
    expected_tool_use: list[_LegacyToolUse] | None = None
    expected_intermediate_agent_responses: list[_MessageOrText] | None = None
    reference: str | None = None


class _LegacySession(_LegacyModel):
    # A whole stored session has more keys, such as events, an id and times; none of them is read.
    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Any] | None = None

    def to_session_input(self) -> SessionInput:
        """Convert to evalgate's session input; null counts as absent."""
        return SessionInput(self.app_name or "", self.user_id or "", self.state or {})


class _LegacyCase(_LegacyModel):
    name: Id
    data: list[_LegacyTurn]
    initial_session: _LegacySession | None = None


@cache
def _get_turns_adapter() -> TypeAdapter[list[_LegacyTurn]]:
    return TypeAdapter(list[_LegacyTurn])


# --- conversion to evalgate's types -------------------------------------------------------------------------


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
    # Imported here, because files of every format are tried with `matches_document`.
    from evalgate.integrations.adk.fast_legacy_cases import parse_common_legacy_case

    def make_case(index: int, raw: object) -> EvalCase | None:
        line, _ = document.find_position((index,))
        if (case := parse_common_legacy_case(raw, line)) is not None:
            return case
        if keys.is_open:
            keys.check_value(_LegacyCase, raw, (index,))
        try:
            wire = _LegacyCase.model_validate(raw)
        except ValidationError as error:
            problems.extend(
                translate_validation_error(
                    error, file=document.path, position=document.find_position, prefix=(index,)
                )
            )
            return None
        session = wire.initial_session.to_session_input() if wire.initial_session else SessionInput()
        return EvalCase(wire.name, _build_turns(wire.data), session=session, line=line)

    return build_cases(listed, make_case)


def _build_turns(turns: Sequence[_LegacyTurn]) -> tuple[CaseTurn, ...]:
    return tuple([CaseTurn(UserMessage(turn.query), _build_reply(turn)) for turn in turns])


def _build_reply(turn: _LegacyTurn) -> Reply:
    calls = [ToolCall(use.tool_name, use.tool_input) for use in turn.expected_tool_use or ()]
    messages = [
        Message(response.text or "", response.author)
        for response in turn.expected_intermediate_agent_responses or ()
    ]
    # Google ADK makes an empty text of a missing reference, which `response_match_score` never matches.
    return Reply(turn.reference or None, (*calls, *messages))


def is_turn_list(eval_set: EvalSet) -> bool:
    """Return True if a list of turns was read as `eval_set`: its one case has the file's path as its id."""
    return len(eval_set.cases) == 1 and eval_set.cases[0].eval_id == eval_set.path


def read_session_file(path: Path, shown_as: str) -> SessionInput:
    """Read the session in an `initial_session_file`.

    Raises:
        InvalidInputError: the file cannot be read, or is not a session. Lists every problem.
    """
    document = read_json(path, shown_as)
    try:
        return _LegacySession.model_validate(document.value).to_session_input()
    except ValidationError as error:
        found = translate_validation_error(error, file=shown_as, position=document.find_position)
        raise InvalidInputError(found) from None

"""Simple cases of Google ADK's old case lists, built without pydantic.

A simple case has only the usual keys, as nearly all cases have. To build it here takes half of the time that
the models in `legacy_evalset.py` take. All other cases, and all errors, go through the models.
"""

from evalgate.core.types import CaseTurn, EvalCase, Reply, SessionInput, ToolCall, UserMessage
from evalgate.documents.strict_json import (
    UnexpectedShapeError,
    require_list,
    require_members,
    require_object,
    require_text,
)
from evalgate.documents.validation_errors import validate_id

_CASE_KEYS = frozenset({"name", "data", "initial_session"})
_TURN_KEYS = frozenset({"query", "expected_tool_use", "expected_intermediate_agent_responses", "reference"})
_USE_KEYS = frozenset({"tool_name", "tool_input"})
_SESSION_KEYS = frozenset({"app_name", "user_id", "state"})


def parse_common_legacy_case(raw: object, line: int) -> EvalCase | None:
    """Build a simple case from its decoded JSON `raw`, as the models would; return None for any other case.

    `line` is the first line of the case in its file.
    """
    try:
        case = require_members(raw, _CASE_KEYS)
        turns = tuple([_parse_simple_turn(each) for each in require_list(case.get("data"))])
        session = (
            _parse_simple_session(case["initial_session"]) if "initial_session" in case else SessionInput()
        )
        return EvalCase(validate_id(require_text(case.get("name"))), turns, session=session, line=line)
    except (UnexpectedShapeError, ValueError):
        return None


def _parse_simple_turn(raw: object) -> CaseTurn:
    turn = require_members(raw, _TURN_KEYS)
    if require_list(turn.get("expected_intermediate_agent_responses", [])):
        raise UnexpectedShapeError
    calls = []
    for each in require_list(turn.get("expected_tool_use", [])):
        use = require_members(each, _USE_KEYS)
        calls.append(ToolCall(require_text(use.get("tool_name")), require_object(use.get("tool_input"))))
    return CaseTurn(
        UserMessage(require_text(turn.get("query"))),
        Reply(require_text(turn.get("reference", "")) or None, tuple(calls)),
    )


def _parse_simple_session(raw: object) -> SessionInput:
    session = require_members(raw, _SESSION_KEYS)
    state = require_object(session.get("state", {}))
    return SessionInput(
        require_text(session.get("app_name", "")), require_text(session.get("user_id", "")), state
    )

"""Simple cases of Google ADK's eval sets, built without pydantic.

A simple case has only the usual keys, as nearly all cases have. To build it here takes a third of the time
that the models (`cases.py`, `case_models.py`) take. All other cases, and all errors, go through the models.
"""

from collections.abc import Mapping
from typing import Any

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Event,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.documents.strict_json import (
    UnexpectedShapeError,
    require_list,
    require_members,
    require_object,
    require_text,
)
from evalgate.documents.validation_errors import validate_id

_NO_SESSION = SessionInput()
"""The session of every case without a `session_input`; one shared object saves memory in large sets."""

_CASE_KEYS = frozenset({"eval_id", "conversation", "session_input", "creation_timestamp"})
_SESSION_KEYS = frozenset({"app_name", "user_id", "state"})
_TURN_KEYS = frozenset(
    {"user_content", "final_response", "intermediate_data", "invocation_id", "creation_timestamp"}
)
_CONTENT_KEYS = frozenset({"parts", "role"})
_TEXT_KEYS = frozenset({"text"})
_DATA_KEYS = frozenset({"tool_uses", "tool_responses", "intermediate_responses"})
_CALL_KEYS = frozenset({"id", "name", "args"})
_RESULT_KEYS = frozenset({"id", "name", "response"})


def parse_simple_case(raw: object, line: int, eval_set_id: str = "") -> EvalCase | None:
    """Build a simple case from its decoded JSON `raw`; return None for any other case.

    `line` is the first line of the case in its file, and `eval_set_id` the id of its set.

    A simple case is in snake_case and has no `invocation_events`. Each message consists of a single text.
    Besides messages, the case holds only tool calls, tool results and a session.
    """
    try:
        case = require_members(raw, _CASE_KEYS)
        return EvalCase(
            validate_id(require_text(case.get("eval_id"))),
            tuple([_parse_simple_turn(each) for each in require_list(case.get("conversation"))]),
            session=_parse_simple_session(case.get("session_input")),
            line=line,
            eval_set_id=eval_set_id,
            creation_timestamp=_parse_simple_time(case.get("creation_timestamp")),
        )
    except (UnexpectedShapeError, ValueError):
        return None


def has_simple_keys(raw: Any, case: EvalCase | None) -> bool:
    """Return True if the decoded case `raw` has only keys of simple cases, and so no ignored key.

    `case` is built from `raw`. If `case` is None, because `raw` is invalid, return False. The result is True
    for nearly every case, and saves the slower search for ignored keys.
    """
    return (
        case is not None
        and raw.keys() <= _CASE_KEYS
        and (raw.get("session_input") or {}).keys() <= _SESSION_KEYS
        and all(each.keys() <= _TURN_KEYS for each in raw.get("conversation") or ())
        # Keys within messages are not compared with a list: data that a `CaseTurn` cannot hold would be in
        # `native`, and parts without text would be attachments.
        and not any(turn.native or turn.user.attachments for turn in case.turns)
    )


def _parse_simple_session(raw: object) -> SessionInput:
    if raw is None:
        return _NO_SESSION
    session = require_members(raw, _SESSION_KEYS)
    state = require_object(session.get("state", {}))
    return SessionInput(
        require_text(session.get("app_name", "")), require_text(session.get("user_id", "")), state
    )


def _parse_simple_turn(raw: object) -> CaseTurn:
    turn = require_members(raw, _TURN_KEYS)
    data, response, invocation_id = map(turn.get, ("intermediate_data", "final_response", "invocation_id"))
    return CaseTurn(
        UserMessage(_parse_simple_content(turn.get("user_content"), "user")),
        Reply(
            None if response is None else _parse_simple_content(response, "model"),
            () if data is None else _parse_simple_events(require_members(data, _DATA_KEYS)),
        ),
        invocation_id="" if invocation_id is None else require_text(invocation_id),
        creation_timestamp=_parse_simple_time(turn.get("creation_timestamp")),
    )


def _parse_simple_content(raw: object, role: str) -> str:
    content = require_members(raw, _CONTENT_KEYS)
    parts = content.get("parts")
    if not isinstance(parts, list) or len(parts) != 1 or content.get("role", role) != role:
        raise UnexpectedShapeError
    return require_text(require_members(parts[0], _TEXT_KEYS).get("text"))


def _parse_simple_events(data: Mapping[str, object]) -> tuple[Event, ...]:
    events: list[Event] = []
    for each in require_list(data.get("tool_uses", [])):
        call = require_members(each, _CALL_KEYS)
        args, id_ = call.get("args"), call.get("id")
        events.append(
            ToolCall(
                require_text(call.get("name", "")),
                None if args is None else require_object(args),
                None if id_ is None else require_text(id_),
            )
        )
    for each in require_list(data.get("tool_responses", [])):
        result = require_members(each, _RESULT_KEYS)
        name, id_ = require_text(result.get("name", "")), result.get("id")
        events.append(ToolResult(name, result.get("response"), None if id_ is None else require_text(id_)))
    if require_list(data.get("intermediate_responses", [])):
        raise UnexpectedShapeError
    return tuple(events)


def _parse_simple_time(raw: object) -> float:
    if raw is not None and not isinstance(raw, float):
        raise UnexpectedShapeError
    return raw or 0.0

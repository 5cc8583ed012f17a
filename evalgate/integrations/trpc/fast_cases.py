"""Simple cases of tRPC-Agent-Go's eval sets, built without pydantic.

A simple case has only the usual keys, as nearly all cases have. To build it here takes a third of the time
that the models in `cases.py` take. All other cases, and all errors, go through the models.
"""

from evalgate.core.types import CaseTurn, EvalCase, Reply, SessionInput, UserMessage
from evalgate.documents.strict_json import (
    UnexpectedShapeError,
    require_list,
    require_members,
    require_object,
    require_text,
)
from evalgate.documents.validation_errors import validate_id
from evalgate.integrations.trpc.file_models import AGENT_ROLES, ToolEntry, build_tool_events

_CASE_KEYS = frozenset({"evalId", "conversation", "sessionInput"})
_SESSION_KEYS = frozenset({"appName", "userId", "state"})
_TURN_KEYS = frozenset({"invocationId", "userContent", "finalResponse", "tools", "creationTimestamp"})
_MESSAGE_KEYS = frozenset({"role", "content"})
_TOOL_KEYS = frozenset({"id", "name", "arguments", "result"})

_USER_ROLES = frozenset({"", "user"})


def parse_simple_case(raw: object, line: int) -> EvalCase | None:
    """Build a simple case from its decoded JSON `raw`; return None for any other case.

    A simple case holds only texts, tool calls, tool results and a session. `line` is the first line of the
    case in its file.
    """
    try:
        case = require_members(raw, _CASE_KEYS)
        turns = tuple([_parse_simple_turn(each) for each in require_list(case.get("conversation"))])
        eval_id = validate_id(require_text(case.get("evalId")))
        session = _parse_simple_session(require_members(case.get("sessionInput"), _SESSION_KEYS))
    except (UnexpectedShapeError, ValueError):
        return None
    return EvalCase(eval_id, turns, session=session, line=line) if turns else None


def _parse_simple_session(session: dict[str, object]) -> SessionInput:
    state = require_object(session.get("state", {}))
    return SessionInput(
        require_text(session.get("appName", "")), require_text(session.get("userId", "")), state
    )


def _parse_simple_turn(raw: object) -> CaseTurn:
    turn = require_members(raw, _TURN_KEYS)
    created = turn.get("creationTimestamp", 0.0)
    if not isinstance(created, float):
        raise UnexpectedShapeError
    entries: list[ToolEntry] = []
    for each in require_list(turn.get("tools", [])):
        tool = require_members(each, _TOOL_KEYS)
        name, own_id = require_text(tool.get("name", "")), require_text(tool.get("id", ""))
        entries.append((own_id, name, tool.get("arguments"), tool.get("result")))
    reply = Reply(
        _parse_simple_content(turn.get("finalResponse"), AGENT_ROLES), tuple(build_tool_events(entries))
    )
    user = UserMessage(_parse_simple_content(turn.get("userContent"), _USER_ROLES))
    return CaseTurn(
        user, reply, invocation_id=require_text(turn.get("invocationId", "")), creation_timestamp=created
    )


def _parse_simple_content(raw: object, roles: frozenset[str]) -> str:
    message = require_members(raw, _MESSAGE_KEYS)
    if require_text(message.get("role", "")) not in roles:
        raise UnexpectedShapeError
    return require_text(message.get("content", ""))

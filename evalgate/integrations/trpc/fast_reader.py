"""Fast reader of common tRPC-Agent-Go cases: those with today's keys, texts, calls and a session only.

It builds the same case as pydantic's models in a third of the time. Nearly every file holds only such cases.
Any other content and any error is left to the models.
"""

from evalgate.core.types import CaseTurn, EvalCase, Reply, SessionInput, UserMessage
from evalgate.documents.strict_json import UnexpectedShapeError, require_list, require_members, require_text
from evalgate.documents.validation import validate_id
from evalgate.integrations.trpc.file_models import AGENT_ROLES, ToolEntry, build_tool_events

_CASE = frozenset({"evalId", "conversation", "sessionInput"})
_SESSION = frozenset({"appName", "userId", "state"})
_TURN = frozenset({"invocationId", "userContent", "finalResponse", "tools", "creationTimestamp"})
_MESSAGE = frozenset({"role", "content"})
_TOOL = frozenset({"id", "name", "arguments", "result"})

_USER_ROLES = frozenset({"", "user"})


def parse_common_case(raw: object, line: int) -> EvalCase | None:
    """Build the case that begins in that line, or return None if the models have to read it."""
    try:
        case = require_members(raw, _CASE)
        turns = tuple([_parse_turn(each) for each in require_list(case.get("conversation"))])
        eval_id = validate_id(require_text(case.get("evalId")))
        session = _parse_session(require_members(case.get("sessionInput"), _SESSION))
    except (UnexpectedShapeError, ValueError):
        return None
    return EvalCase(eval_id, turns, session=session, line=line) if turns else None


def _parse_session(session: dict[str, object]) -> SessionInput:
    state = session.get("state", {})
    if not isinstance(state, dict):
        raise UnexpectedShapeError
    return SessionInput(
        require_text(session.get("appName", "")), require_text(session.get("userId", "")), state
    )


def _parse_turn(raw: object) -> CaseTurn:
    turn = require_members(raw, _TURN)
    created = turn.get("creationTimestamp", 0.0)
    if not isinstance(created, float):
        raise UnexpectedShapeError
    entries: list[ToolEntry] = []
    for each in require_list(turn.get("tools", [])):
        tool = require_members(each, _TOOL)
        name, own_id = require_text(tool.get("name", "")), require_text(tool.get("id", ""))
        entries.append((own_id, name, tool.get("arguments"), tool.get("result")))
    reply = Reply(_parse_content(turn.get("finalResponse"), AGENT_ROLES), tuple(build_tool_events(entries)))
    user = UserMessage(_parse_content(turn.get("userContent"), _USER_ROLES))
    return CaseTurn(
        user, reply, invocation_id=require_text(turn.get("invocationId", "")), creation_timestamp=created
    )


def _parse_content(raw: object, roles: frozenset[str]) -> str:
    message = require_members(raw, _MESSAGE)
    if require_text(message.get("role", "")) not in roles:
        raise UnexpectedShapeError
    return require_text(message.get("content", ""))

"""The short way for what nearly every file of tRPC-Agent-Go holds: today's keys, texts, calls and a session.

It gives a case exactly as the long way, through pydantic's models, gives it, in a third of the time; whatever
else a case holds, and whatever is wrong with it, is left to the long way.
"""

from evalgate.core.types import EvalCase, Reply, SessionInput, Turn, UserMessage
from evalgate.documents.strict_json import Unusual, items, members, text
from evalgate.documents.validation import checked_id
from evalgate.integrations.trpc.file_models import AGENT_ROLES, ToolEntry, tool_events

_CASE = frozenset({"evalId", "conversation", "sessionInput"})
_SESSION = frozenset({"appName", "userId", "state"})
_TURN = frozenset({"invocationId", "userContent", "finalResponse", "tools", "creationTimestamp"})
_MESSAGE = frozenset({"role", "content"})
_TOOL = frozenset({"id", "name", "arguments", "result"})

_USER_ROLES = frozenset({"", "user"})


def plain_case(raw: object, line: int) -> EvalCase | None:
    """The case that stands in that line, or None when only the long way can tell."""
    try:
        case = members(raw, _CASE)
        turns = tuple([_turn(each) for each in items(case.get("conversation"))])
        eval_id = checked_id(text(case.get("evalId")))
        session = _session(members(case.get("sessionInput"), _SESSION))
    except (Unusual, ValueError):
        return None
    return EvalCase(eval_id, turns, session=session, line=line) if turns else None


def _session(session: dict[str, object]) -> SessionInput:
    state = session.get("state", {})
    if not isinstance(state, dict):
        raise Unusual
    return SessionInput(text(session.get("appName", "")), text(session.get("userId", "")), state)


def _turn(raw: object) -> Turn:
    turn = members(raw, _TURN)
    created = turn.get("creationTimestamp", 0.0)
    if not isinstance(created, float):
        raise Unusual
    entries = [_entry(each) for each in items(turn.get("tools", []))]
    reply = Reply(_content(turn.get("finalResponse"), AGENT_ROLES), tuple(tool_events(entries)))
    user = UserMessage(_content(turn.get("userContent"), _USER_ROLES))
    return Turn(user, reply, invocation_id=text(turn.get("invocationId", "")), creation_timestamp=created)


def _content(raw: object, roles: frozenset[str]) -> str:
    message = members(raw, _MESSAGE)
    if text(message.get("role", "")) not in roles:
        raise Unusual
    return text(message.get("content", ""))


def _entry(raw: object) -> ToolEntry:
    tool = members(raw, _TOOL)
    name = text(tool.get("name", ""))
    return text(tool.get("id", "")), name, tool.get("arguments"), tool.get("result")

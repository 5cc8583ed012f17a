"""The short way for what nearly every file of tRPC-Agent-Go holds: today's keys, texts, calls and a session.

It gives a case exactly as the long way, through pydantic's models, gives it, in a third of the time; whatever
else a case holds, and whatever is wrong with it, is left to the long way.
"""

from evalgate.model import EvalCase, Reply, SessionInput, Turn, UserMessage
from evalgate.reading.caseids import checked_id
from evalgate.reading.trpcfiles import AGENT_ROLES, ToolEntry, tool_events

_CASE = frozenset({"evalId", "conversation", "sessionInput"})
_SESSION = frozenset({"appName", "userId", "state"})
_TURN = frozenset({"invocationId", "userContent", "finalResponse", "tools", "creationTimestamp"})
_MESSAGE = frozenset({"role", "content"})
_TOOL = frozenset({"id", "name", "arguments", "result"})

_USER_ROLES = frozenset({"", "user"})


class _Unusual(Exception):
    """This is for the long way."""


def plain_case(raw: object, line: int) -> EvalCase | None:
    """The case that stands in that line, or None when only the long way can tell."""
    try:
        case = _members(raw, _CASE)
        turns = tuple([_turn(each) for each in _items(case.get("conversation"))])
        eval_id = checked_id(_text(case.get("evalId")))
        session = _session(_members(case.get("sessionInput"), _SESSION))
    except (_Unusual, ValueError):
        return None
    return EvalCase(eval_id, turns, session=session, line=line) if turns else None


def _members(value: object, known: frozenset[str]) -> dict[str, object]:
    if isinstance(value, dict) and value.keys() <= known:
        return value
    raise _Unusual


def _items(value: object) -> list[object]:
    if isinstance(value, list):
        return value
    raise _Unusual


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise _Unusual


def _session(session: dict[str, object]) -> SessionInput:
    state = session.get("state", {})
    if not isinstance(state, dict):
        raise _Unusual
    return SessionInput(_text(session.get("appName", "")), _text(session.get("userId", "")), state)


def _turn(raw: object) -> Turn:
    turn = _members(raw, _TURN)
    created = turn.get("creationTimestamp", 0.0)
    if not isinstance(created, float):
        raise _Unusual
    entries = [_entry(each) for each in _items(turn.get("tools", []))]
    reply = Reply(_content(turn.get("finalResponse"), AGENT_ROLES), tuple(tool_events(entries)))
    user = UserMessage(_content(turn.get("userContent"), _USER_ROLES))
    return Turn(user, reply, invocation_id=_text(turn.get("invocationId", "")), creation_timestamp=created)


def _content(raw: object, roles: frozenset[str]) -> str:
    message = _members(raw, _MESSAGE)
    if message.get("role", "") not in roles:
        raise _Unusual
    return _text(message.get("content", ""))


def _entry(raw: object) -> ToolEntry:
    tool = _members(raw, _TOOL)
    name = _text(tool.get("name", ""))
    return _text(tool.get("id", "")), name, tool.get("arguments"), tool.get("result")

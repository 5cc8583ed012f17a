"""What the messages of a worker mean, in the words of the model. Pure; refuses what the model cannot hold."""

import math
import re

from evalgate.hostile import end_of, shortened
from evalgate.model import (
    PASSING_FAULTS,
    Failure,
    JsonObject,
    Message,
    Outcome,
    ToolCall,
    ToolMock,
    ToolResult,
    Usage,
)

_MAX_TOKENS = 2**53
_MAX_SENTENCE = 2_000
_MAX_TRACEBACK = 16 * 1024
_KIND = re.compile(r"[a-z][a-z_]{0,39}")
_NOBODYS_FAULT = PASSING_FAULTS | {"unsupported", "no_mock"}


class BadMessage(Exception):
    """A message lacks a field or has one of a wrong type; the text says which."""


def tool_call(message: JsonObject) -> ToolCall:
    """Raises BadMessage."""
    args = message.get("args")
    if args is not None and not isinstance(args, dict):
        raise _bad(message, "args", "an object")
    name, id_, author = _text(message, "name"), _label(message, "id"), _label(message, "author")
    return ToolCall(name, args, id_, author)


def tool_result(message: JsonObject) -> ToolResult:
    """Raises BadMessage."""
    name, id_, author = _text(message, "name"), _label(message, "id"), _label(message, "author")
    return ToolResult(name, message.get("result"), id_, author)


def said(message: JsonObject) -> Message:
    """Raises BadMessage."""
    return Message(_text(message, "text"), _label(message, "author"))


_UNSAID = object()


def usage(message: JsonObject) -> Usage:
    """Raises BadMessage."""
    cost = message.get("cost_usd", _UNSAID)
    if cost is _UNSAID:
        return Usage.of_tokens(*_tokens(message), None, _models(message))
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not _is_amount(cost):
        raise _bad(message, "cost_usd", "a number, 0 or more")
    return Usage.of_tokens(*_tokens(message), float(cost), _models(message))


def _tokens(message: JsonObject) -> tuple[int, int]:
    return _count(message, "input_tokens"), _count(message, "output_tokens")


def response(message: JsonObject) -> str | None:
    """The response that a `done` names. Raises BadMessage."""
    return _label(message, "response")


def state(message: JsonObject) -> JsonObject | None:
    """The state that a `done` names. Raises BadMessage."""
    found = message.get("state")
    if found is not None and not isinstance(found, dict):
        raise _bad(message, "state", "an object")
    return found


def retry_after(message: JsonObject) -> float | None:
    """Seconds that an `error` asks to wait; None when it asks for none that can be understood."""
    seconds = message.get("retry_after_s")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not _is_amount(seconds):
        return None
    return float(seconds)


def failure(message: JsonObject, *, kind: str) -> Failure:
    """What an `error` or `fatal` says; `kind` when it names none that is a plain word."""
    given, sentence, trace = message.get("kind"), message.get("message"), message.get("traceback")
    if isinstance(given, str) and _KIND.fullmatch(given):
        kind = given
    text = shortened(sentence.strip(), _MAX_SENTENCE) if isinstance(sentence, str) else ""
    detail = end_of(trace, _MAX_TRACEBACK) if isinstance(trace, str) else ""
    return Failure(kind, text or "the agent reported an error without a message", detail)


def outcome_of(failure: Failure) -> Outcome:
    """A busy provider, or what cannot be asked here, says nothing about the agent."""
    return "faulted" if failure.kind in _NOBODYS_FAULT else "crashed"


def told_mock(mock: ToolMock) -> dict[str, object]:
    """A mock as the worker reads it; absent is any."""
    found = {"name": mock.tool, "args": mock.args, "turn": mock.turn, "exact": mock.exact or None}
    return {**{key: value for key, value in found.items() if value is not None}, "result": mock.result}


def _bad(message: JsonObject, field: str, expected: str) -> BadMessage:
    return BadMessage(f"the agent sent a {message['type']} whose `{field}` is not {expected}")


def _text(message: JsonObject, field: str) -> str:
    value = message.get(field)
    if not isinstance(value, str):
        raise _bad(message, field, "a string")
    return value


def _label(message: JsonObject, field: str) -> str | None:
    return None if message.get(field) is None else _text(message, field)


def _count(message: JsonObject, field: str) -> int:
    value = message.get(field, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_TOKENS:
        raise _bad(message, field, "a whole number, 0 or more")
    return value


def _models(message: JsonObject) -> tuple[str, ...]:
    models = message.get("models", [])
    if not isinstance(models, list) or not all(isinstance(each, str) for each in models):
        raise _bad(message, "models", "a list of strings")
    return tuple(sorted(set(models)))


def _is_amount(cost: float) -> bool:
    return 0 <= cost <= _MAX_TOKENS and math.isfinite(cost)

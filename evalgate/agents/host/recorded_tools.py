"""Recorded results of tool calls, found by the tool's name and the arguments of the call."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Optional

from .errors import NoMatchingMockError

FEATURE = "tool_recordings"
"""Protocol feature of hosts that answer every tool call from a recording."""

_MAX_VALUE = 80
_ABSENT = object()
_EXACT_FLOATS = 2.0**53
_ADVICE = "Record again with `--live-tools`, or give this call a fixed result in `tool_mocks`."


class RecordedToolError(Exception):
    """Error that a tool raised in the recorded call; `type_name` is the error's class, "" if not recorded."""

    def __init__(self, message: str, type_name: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name


class _RecordedCall:
    def __init__(self, args: Optional[dict[str, Any]], answers: list[dict[str, Any]]) -> None:
        self.args = args
        self.answers = answers
        self.used = 0
        """Number of answers that were returned so far."""


class CallRecording:
    """Recorded tool calls of one case.

    Each recorded call answers one call of the same tool with equal arguments, in the recorded order.
    """

    def __init__(self, message: dict[str, Any]) -> None:
        """Read the `tool_recording` of a `start` message."""
        self._source: str = message.get("source", "the recording")
        self._live: list[str] = message.get("live") or []
        self._calls: dict[str, dict[str, _RecordedCall]] = {}
        for each in message.get("calls") or []:
            found = _RecordedCall(each.get("args"), each["answers"])
            self._calls.setdefault(each["name"], {})[format_canonical(found.args)] = found
        # Frameworks call the tools of one answer of the model at the same time, in threads.
        self._lock = threading.Lock()

    def is_live(self, name: str) -> bool:
        """Return True if the tool is called for real, because a pattern in `live` matches its name."""
        return any(fnmatchcase(name, pattern) for pattern in self._live)

    @property
    def tool_names(self) -> list[str]:
        """Return the names of the recorded tools, without live tools, which are called for real."""
        return [name for name in self._calls if not self.is_live(name)]

    def take_result(self, name: str, args: Optional[dict[str, Any]]) -> Any:
        """Return a copy of the result of the next recorded call with this tool and these arguments.

        Each recorded call is used once, even if an error was recorded instead of a result.

        Raises:
            RecordedToolError: the tool raised an error in the recorded call.
            NoMatchingMockError: the recording has no further call with these arguments, or the result of the
                call was not recorded.
        """
        with self._lock:
            call = self._calls.get(name, {}).get(format_canonical(args))
            if call is None or call.used >= len(call.answers):
                raise NoMatchingMockError(self._describe_miss(name, args, call))
            answer = call.answers[call.used]
            call.used += 1
        if "lost" in answer:
            raise NoMatchingMockError(
                f"{self._source} has the call of `{name}` with these arguments, and {answer['lost']}. "
                f"{_ADVICE}"
            )
        if "error" in answer:
            raise RecordedToolError(answer["error"], answer.get("type", ""))
        return copy.deepcopy(answer["result"])

    def _describe_miss(self, name: str, args: Optional[dict[str, Any]], call: Optional[_RecordedCall]) -> str:
        if call is not None:
            times = "once" if call.used == 1 else f"{call.used} times"
            return (
                f"`{name}` was recorded {times} with the arguments {_format_value(args)}, and is called once "
                f"more with them; {self._source} has no further result. {_ADVICE}"
            )
        recorded = self._calls.get(name)
        if not recorded:
            names = ", ".join(f"`{each}`" for each in self._calls)
            others = f"calls of {names}" if names else "no tool call"
            return f"{self._source} has no call of `{name}` in this case; it has {others}. {_ADVICE}"
        differences = min(
            (list(_iter_differences(each.args, args, "")) for each in recorded.values()), key=len
        )
        path, then, now = differences[0]
        more = f" (and {len(differences) - 1} more)" if differences[1:] else ""
        return (
            f"no call of `{name}` in {self._source} has these arguments. The nearest one differs in "
            f"`{path or 'args'}`{more}: recorded {_format_value(then)}, now {_format_value(now)}. {_ADVICE}"
        )


def format_canonical(value: Any) -> str:
    """Return a text that is the same for equal JSON values, and different for unequal ones.

    The order of keys does not count. 1 and 1.0 are equal, and both differ from true.
    """
    return json.dumps(_canonicalize(value), sort_keys=True, default=repr)


def _canonicalize(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT_FLOATS:
        return int(value)
    if isinstance(value, dict):
        return {str(key): _canonicalize(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonicalize(each) for each in value]
    return value


def _iter_differences(then: Any, now: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, recorded value, new value) for each difference between `then` and `now`.

    `then` holds the recorded arguments of a call, and `now` the arguments of the new call. A path is written
    as `a.b[0]`. It begins with the argument `path`: "" for whole arguments, and the path so far in recursive
    calls. A value that is missing on one side is `_ABSENT`.
    """
    if isinstance(then, dict) and isinstance(now, dict):
        for key in {**then, **now}:
            inner = f"{path}.{key}" if path else str(key)
            yield from _iter_differences(then.get(key, _ABSENT), now.get(key, _ABSENT), inner)
    elif isinstance(then, (list, tuple)) and isinstance(now, (list, tuple)):
        for at in range(max(len(then), len(now))):
            pair = [each[at] if at < len(each) else _ABSENT for each in (then, now)]
            yield from _iter_differences(pair[0], pair[1], f"{path}[{at}]")
    elif then is _ABSENT or now is _ABSENT or format_canonical(then) != format_canonical(now):
        yield path, then, now


def _format_value(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + "…"

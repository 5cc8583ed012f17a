"""Answer tool calls from the mocks of a case, or from its recording, in place of the tools."""

from __future__ import annotations

from typing import Any, Optional

from .errors import NoMatchingMockError
from .recorded_tools import FEATURE as RECORDING_FEATURE
from .recorded_tools import CallRecording

FEATURES = ("tool_mocks", RECORDING_FEATURE)
"""Protocol features of hosts that apply tool mocks and recordings."""


class Mocks:
    """Tool mocks and the recording of one session, which answer calls in place of the tools."""

    def __init__(self, mocks: list[dict[str, Any]], recording: Optional[CallRecording] = None) -> None:
        self.missing: Optional[Exception] = None
        """Error of the last mocked call without a result, in any turn; None if every call got a result.

        The error is an `UnsupportedCaseError` if the agent has a mocked tool that evalgate cannot replace.
        """
        self._mocks = mocks
        self._recording = recording
        self._turn = -1  # `begin_turn` counts from 0, as `turn` of a mock does

    def __bool__(self) -> bool:
        return bool(self._mocks) or self._recording is not None

    def begin_turn(self) -> None:
        """Start the next turn; a mock with a `turn` (counted from 0) applies only in that turn."""
        self._turn += 1

    def is_mocked(self, name: str) -> bool:
        """Return True if a mock or the recording replaces the tool in this turn.

        The tool itself must then not be called. A recording replaces all tools except live tools, which are
        called for real.
        """
        return bool(self._list_mocks(name)) or self._is_recorded(name)

    def is_ever_mocked(self, name: str) -> bool:
        """Return True if a mock of any turn, or the recording, replaces the tool.

        A recording replaces all tools except live tools, which are called for real.
        """
        return any(each["name"] == name for each in self._mocks) or self._is_recorded(name)

    def list_tools(self) -> list[str]:
        """Return the names of the tools with a mock, then of the recorded tools. Each name occurs once.

        Recorded tools that are live, which means called for real, are left out.
        """
        recorded = self._recording.tool_names if self._recording is not None else []
        return list(dict.fromkeys([*(each["name"] for each in self._mocks), *recorded]))

    def require_result(self, name: str, args: Optional[dict[str, Any]]) -> Any:
        """Return the result of this turn's first matching mock, or the recorded result if no mock matches.

        Raises:
            RecordedToolError: the tool raised an error in the recorded call.
            NoMatchingMockError: there is no result. The error is also stored in `missing`, because frameworks
                may hide it.
        """
        for mock in self._list_mocks(name):
            if _matches_args(mock.get("args"), args or {}, mock.get("exact") is True):
                return mock.get("result")
        if self._recording is None or not self._is_recorded(name):
            self.missing = NoMatchingMockError(
                f"`{name}` is mocked, and no mock of it answers the arguments {args!r}"
            )
            raise self.missing
        try:
            return self._recording.take_result(name, args)
        except NoMatchingMockError as error:
            self.missing = error
            raise

    def _is_recorded(self, name: str) -> bool:
        return self._recording is not None and not self._recording.is_live(name)

    def _list_mocks(self, name: str) -> list[dict[str, Any]]:
        return [
            each for each in self._mocks if each["name"] == name and each.get("turn") in (None, self._turn)
        ]


def _matches_args(wanted: Optional[dict[str, Any]], args: dict[str, Any], exact: bool) -> bool:
    if wanted is None:
        return True
    if exact and wanted.keys() != args.keys():
        return False
    return all(key in args and _is_equal(args[key], value) for key, value in wanted.items())


def _is_equal(one: Any, other: Any) -> bool:
    """Return True if two JSON values are equal; unlike in Python, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(_is_equal(one[at], other[at]) for at in range(len(one)))
    return bool(one == other)

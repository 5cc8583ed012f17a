"""Fixed results that stand in for tools while one case is played."""

from __future__ import annotations

from typing import Any, Optional

from .failures import NoMock

FEATURE = "tool_mocks"
"""The name under which a host says that it applies them."""


class Mocks:
    """The mocks of one session; a tool that has any is never called itself."""

    def __init__(self, given: list[dict[str, Any]]) -> None:
        self.missing: Optional[NoMock] = None
        """Set once a mocked tool was called in a way that no mock answers."""
        self._given = given
        self._turn = -1

    def __bool__(self) -> bool:
        return bool(self._given)

    def begin_turn(self) -> None:
        """The next turn starts: mocks of single turns change."""
        self._turn += 1

    def mocked(self, name: str) -> bool:
        """Whether the tool is mocked in this turn."""
        return bool(self._of(name))

    def ever_mocked(self, name: str) -> bool:
        """Whether the tool is mocked in any turn."""
        return any(each["name"] == name for each in self._given)

    def result(self, name: str, args: dict[str, Any]) -> Any:
        """What stands in for this call of a mocked tool: the first that matches.

        Raises:
            NoMock: none does. `missing` keeps it, since frameworks hide what a tool raises.
        """
        for mock in self._of(name):
            if _matches(mock.get("args"), args, mock.get("exact") is True):
                return mock.get("result")
        self.missing = NoMock(f"`{name}` is mocked, and no mock of it answers the arguments {args!r}")
        raise self.missing

    def _of(self, name: str) -> list[dict[str, Any]]:
        return [
            each for each in self._given if each["name"] == name and each.get("turn") in (None, self._turn)
        ]


def _matches(wanted: Optional[dict[str, Any]], args: dict[str, Any], exact: bool) -> bool:
    if wanted is None:
        return True
    if exact and wanted.keys() != args.keys():
        return False
    return all(key in args and _same(args[key], value) for key, value in wanted.items())


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; unlike in Python, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(_same(one[at], other[at]) for at in range(len(one)))
    return bool(one == other)

"""Objects that hold nothing to hide, known again by their identity."""

from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable

_FEW = 4096


class CleanParts(Container[int]):
    """Identities of objects, in a fifth of the room of a dictionary: a large run has hundreds of thousands.

    Each object stays alive with it, so that its identity is never another's.
    """

    def __init__(self) -> None:
        self._parts: list[object] = []
        self._sorted = array("Q")
        self._new: set[int] = set()
        """Not sorted in yet: few, beside those that are."""

    def add(self, parts: Iterable[object]) -> None:
        """Hold nothing to hide from now on."""
        for part in parts:
            self._parts.append(part)
            self._new.add(id(part))
        if len(self._new) > max(_FEW, len(self._sorted) // 8):
            self._sorted = array("Q", sorted([*self._sorted, *self._new]))
            self._new = set()

    def __contains__(self, identity: object) -> bool:
        if not isinstance(identity, int):
            return False
        if identity in self._new:
            return True
        at = bisect_left(self._sorted, identity)
        return at < len(self._sorted) and self._sorted[at] == identity

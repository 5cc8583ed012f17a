"""Pairing each of many with one of many: maximum bipartite matching without a table of all pairs."""

from collections.abc import Callable, Iterator, Sequence


def unmatched(candidates: Sequence[range], fits: Callable[[int, int], bool]) -> tuple[int, ...]:
    """Which of those with `candidates` get no partner of their own in a maximum matching, earlier ones first.

    `candidates` gives each the partners that `fits` may accept. H. W. Kuhn's augmenting paths (1955), over
    edges that are asked for when they are needed: the memory is linear in the vertices, and what a search has
    explored in vain is never explored again.
    """
    return _Matching(candidates, fits).run()


class _Matching:
    def __init__(self, candidates: Sequence[range], fits: Callable[[int, int], bool]) -> None:
        self._candidates = candidates
        self._fits = fits
        self._owner: dict[int, int] = {}
        self._dead: set[int] = set()
        """Reached by a search that failed: no later path leads out of there."""
        self._start: dict[range, int] = {}
        """How many at the front of a range are taken, so that they are skipped at once."""

    def run(self) -> tuple[int, ...]:
        return tuple([left for left in range(len(self._candidates)) if not self._serve(left)])

    def _serve(self, left: int) -> bool:
        free = self._free_partner(left)
        if free is not None:
            self._owner[free] = left
            return True
        return self._augment(left)

    def _free_partner(self, left: int) -> int | None:
        options = self._candidates[left]
        at = self._start.get(options, 0)
        while at < len(options) and options[at] in self._owner:
            at += 1
        self._start[options] = at
        for index in range(at, len(options)):
            right = options[index]
            if right not in self._owner and self._fits(left, right):
                return right
        return None

    def _augment(self, root: int) -> bool:
        """Depth first, without recursion: `path` holds who asks, and whom they may still ask."""
        seen: set[int] = set()
        path: list[tuple[int, Iterator[int]]] = [(root, iter(self._candidates[root]))]
        taken: list[int] = []
        while path:
            left, rest = path[-1]
            right = next((each for each in rest if self._is_open(left, each, seen)), None)
            if right is None:
                path.pop()
                if taken:
                    taken.pop()
                continue
            seen.add(right)
            taken.append(right)
            owner = self._owner.get(right)
            if owner is None:
                for (giver, _), gift in zip(path, taken, strict=True):
                    self._owner[gift] = giver
                return True
            path.append((owner, iter(self._candidates[owner])))
        self._dead |= seen
        return False

    def _is_open(self, left: int, right: int, seen: set[int]) -> bool:
        return right not in seen and right not in self._dead and self._fits(left, right)

"""The end of reading a file that says an eval set's id, name and cases, whichever format it is in."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from evalgate.errors import InvalidInput, Problem
from evalgate.model import EvalCase, EvalSet
from evalgate.reading.keycheck import KeyCheck
from evalgate.reading.storedcases import has_twice


class EvalSetHead(Protocol):
    """The keys of an eval set's file next to its cases."""

    @property
    def eval_set_id(self) -> str:
        """The id of the set."""
        ...

    @property
    def name(self) -> str | None:
        """The set's name, for people."""
        ...

    @property
    def description(self) -> str | None:
        """What the set is about."""
        ...

    @property
    def creation_timestamp(self) -> float | None:
        """Seconds since 1970."""
        ...


def build_eval_set(
    path: str,
    head: EvalSetHead | None,
    cases: Sequence[EvalCase],
    keys: KeyCheck,
    find_repeated: Callable[[], Iterable[Problem]],
) -> EvalSet:
    """Return the eval set of a file that was read to its end.

    `head` is None, and `cases` lacks some, where `keys.problems` says why. `find_repeated` finds the ids that
    two cases have; it is called only if there are any, as it looks through the whole file again.

    Raises:
        InvalidInput: with every problem of the file, in its order.
    """
    notices, problems = keys.notices(), keys.problems
    if problems or has_twice(cases):
        problems += find_repeated()
    if head is None or problems:
        raise InvalidInput(sorted(problems))
    timestamp = head.creation_timestamp or 0.0
    return EvalSet(head.eval_set_id, cases, path, head.name, head.description, timestamp, notices=notices)

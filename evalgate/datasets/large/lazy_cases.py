"""Cases of large eval sets and results that stay in their file until they are asked for.

All are made once when the set is read, so whatever is wrong with one is found then. What is kept of each is
where it stands, and what a run must know of every case at any time: its id, line, tags and fingerprint.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from itertools import islice
from operator import attrgetter, eq
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

from evalgate.core.errors import InvalidInput
from evalgate.core.types import CaseHead, CaseResult, EvalCase, RunResult, TurnResult
from evalgate.datasets.fingerprint import fingerprint
from evalgate.datasets.large.long_json import LongList
from evalgate.redaction.redactor import Redacted

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_fields_of_case = attrgetter(*(each.name for each in fields(CaseResult)))
_fields_of_run = attrgetter(*(each.name for each in fields(RunResult)))


class WrittenRun(RunResult):
    """Equal to the run that it is. Its turns are made of the JSON that it was read from when somebody asks.

    `dataclasses.replace` gives one that has them.
    """

    __slots__ = ()

    def said(self) -> tuple[TurnResult, ...]:
        """The turns, from where they are written."""
        raise NotImplementedError

    def said_as_json(self) -> list[object] | None:
        """The turns as a record writes them, without making objects of them; None when they must be."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> tuple[TurnResult, ...]:
        """The turns, when they are asked for first."""
        if name != "turns":
            raise AttributeError(name)
        turns = self.said()
        object.__setattr__(self, name, turns)
        return turns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunResult):
            return NotImplemented
        return bool(_fields_of_run(self) == _fields_of_run(other))

    __hash__ = RunResult.__hash__


class RunInLine(WrittenRun):
    """A run in the line of its case."""

    __slots__ = ("_at",)
    _at: tuple[str, int]
    """The JSON of the case, and which of its runs this is."""

    def written_in(self, line: str, index: int) -> None:
        """Say once where it stands."""
        object.__setattr__(self, "_at", (line, index))

    def said(self) -> tuple[TurnResult, ...]:
        """See `WrittenRun`."""
        line, index = self._at
        return _case_in(line).runs[index].turns

    def said_as_json(self) -> list[object] | None:
        """See `WrittenRun`."""
        if not hasattr(self, "_at"):
            return None
        line, index = self._at
        return _turns_in(line)[index]


class WrittenCase(CaseResult, Redacted):
    """Equal to the case that it is. It is written again as it was, so it must be of this very version.

    `dataclasses.replace` gives one that knows no JSON.
    """

    __slots__ = ("_json",)
    _json: str

    @property
    def json(self) -> str:
        """See `Redacted`."""
        return getattr(self, "_json", "")

    def written_as(self, line: str) -> None:
        """Say once how it stands in its file."""
        object.__setattr__(self, "_json", line)
        for index, run in enumerate(self.runs):
            if isinstance(run, RunInLine):
                run.written_in(line, index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CaseResult):
            return NotImplemented
        return bool(_fields_of_case(self) == _fields_of_case(other))

    __hash__ = CaseResult.__hash__


# Who asks for one run of a case mostly asks for the next one, too: a line is not read once for each.


@lru_cache(maxsize=1)
def _case_in(line: str) -> CaseResult:
    return _adapter().validate_json(line, strict=True)


@lru_cache(maxsize=1)
def _turns_in(line: str) -> list[list[object]]:
    """Of each run, as plain values that nobody changes."""
    from pydantic_core import from_json

    return [run["turns"] for run in from_json(line)["runs"]]


@cache
def _adapter() -> "TypeAdapter[CaseResult]":
    from pydantic import TypeAdapter

    return TypeAdapter(CaseResult)


MakeCase: TypeAlias = Callable[[int, Any], EvalCase | None]
"""Makes the case that stands, decoded, at an index of a list; None when something is wrong with it, which it
tells whoever collects that."""


def cases_of(listed: Sequence[Any], make: MakeCase) -> Sequence[EvalCase]:
    """A case for each item with which nothing is wrong: a tuple, or `StoredCases` of a list in a file."""
    if isinstance(listed, LongList):
        return StoredCases(listed, make)
    return tuple([case for index, item in enumerate(listed) if (case := make(index, item)) is not None])


def mapped(
    cases: Sequence[EvalCase],
    change: Callable[[EvalCase], EvalCase],
    *,
    same_heads: bool = False,
    same_prints: bool = False,
) -> Sequence[EvalCase]:
    """Each case as `change`, which is pure, makes it; what stays in its file stays there.

    `same_heads`: nothing that a `CaseHead` says is changed, so those that stay need not be looked at again.
    `same_prints`: nor is anything that counts in a fingerprint.
    """
    if isinstance(cases, StoredCases):
        return cases.mapped(change, same_heads=same_heads, same_prints=same_prints)
    return tuple([change(case) for case in cases])


def fingerprints_of(cases: Sequence[EvalCase]) -> tuple[str, ...]:
    """The fingerprint of each case, in order."""
    if isinstance(cases, StoredCases) and cases.prints is not None:
        return tuple([f"{number:016x}" for number in cases.prints])
    return tuple(map(fingerprint, cases))


def has_twice(cases: Sequence[EvalCase]) -> bool:
    """Whether two of them have one id."""
    heads: Sequence[CaseHead] = cases.heads if isinstance(cases, StoredCases) else cases
    # First without the texts: of a large set, all of them at once would fill most of the memory.
    hashes = sorted([hash(head.eval_id) for head in heads])
    return any(map(eq, hashes, hashes[1:])) and len({head.eval_id for head in heads}) < len(heads)


class Head(NamedTuple):
    """What is known of a case that is not there; a `CaseHead`."""

    eval_id: str
    line: int
    tags: tuple[str, ...]
    is_played: bool
    expects_state: bool
    expects_calls: bool
    rubric_metrics: tuple[str, ...]


class Heads(Sequence[CaseHead]):
    """What is known of many cases, in little memory."""

    def __init__(self) -> None:
        self._ids, self._ends = bytearray(), array("Q", [0])
        """All ids, one after the other, and where each ends: as texts they would be most of what is kept."""
        self._lines = array("I")
        self._tags: dict[int, tuple[str, ...]] = {}
        self._played: set[int] = set()
        self._states: set[int] = set()
        self._calls = bytearray()
        """A byte for each case: nearly all expect a call, and their numbers would take much more."""
        self._rubrics: dict[int, tuple[str, ...]] = {}

    def note(self, case: CaseHead) -> None:
        """Keep what is known of the next case."""
        index = len(self)
        self._ids += case.eval_id.encode()
        self._ends.append(len(self._ids))
        self._lines.append(case.line)
        if case.tags:
            self._tags[index] = case.tags
        if case.is_played:
            self._played.add(index)
        if case.expects_state:
            self._states.add(index)
        self._calls.append(case.expects_calls)
        if case.rubric_metrics:
            self._rubrics[index] = case.rubric_metrics

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> Head: ...

    @overload
    def __getitem__(self, index: slice) -> list[Head]: ...

    def __getitem__(self, index: int | slice) -> Head | list[Head]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        eval_id = self._ids[self._ends[at] : self._ends[at + 1]].decode()
        tags, rubrics = self._tags.get(at, ()), self._rubrics.get(at, ())
        played, states, calls = at in self._played, at in self._states, bool(self._calls[at])
        return Head(eval_id, self._lines[at], tags, played, states, calls, rubrics)

    def __iter__(self) -> Iterator[Head]:
        tags, rubrics, played, states = self._tags, self._rubrics, self._played, self._states
        begin = 0
        for at, end in enumerate(islice(self._ends, 1, None)):
            eval_id = self._ids[begin:end].decode()
            line, calls = self._lines[at], bool(self._calls[at])
            own = tags.get(at, ())
            yield Head(eval_id, line, own, at in played, at in states, calls, rubrics.get(at, ()))
            begin = end


class StoredCases(Sequence[EvalCase]):
    """The cases of a list that stays in its file.

    Whoever asks for one after the other, in file order, has each decoded once.

    Raises:
        InvalidInput: where a case is asked for that is not any more what it was at first.
    """

    def __init__(
        self,
        listed: LongList,
        make: MakeCase,
        heads: Heads | None = None,
        prints: "array[int] | None" = None,
    ) -> None:
        """`heads` and `prints`: of these very cases, where they are known."""
        self._listed = listed
        self._make = make
        self._first, self._block = 0, list[Any]()
        """Items that were decoded last, and the index of the first of them."""
        self.prints = prints
        """Fingerprints, as numbers; None where they are not known."""
        self.heads = self._found_heads() if heads is None else heads
        """See `EvalSet.heads`. Cases with which something is wrong are left out."""

    def _found_heads(self) -> Heads:
        heads, self.prints = Heads(), array("Q")
        for index, item in enumerate(self._listed):
            if (case := self._make(index, item)) is not None:
                heads.note(case)
                # now, as to make a case takes four times as long
                self.prints.append(int(fingerprint(case), 16))
        return heads

    def mapped(
        self, change: Callable[[EvalCase], EvalCase], *, same_heads: bool, same_prints: bool
    ) -> "StoredCases":
        """See `mapped`."""
        make = self._make

        def changed(index: int, item: Any) -> EvalCase | None:
            case = make(index, item)
            return None if case is None else change(case)

        heads, prints = self.heads if same_heads else None, self.prints if same_prints else None
        return StoredCases(self._listed, changed, heads, prints)

    def __len__(self) -> int:
        return len(self.heads)

    def __iter__(self) -> Iterator[EvalCase]:
        for index, item in enumerate(self._listed):
            yield self._made(index, item)

    @overload
    def __getitem__(self, index: int) -> EvalCase: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[EvalCase, ...]: ...

    def __getitem__(self, index: int | slice) -> EvalCase | tuple[EvalCase, ...]:
        if isinstance(index, slice):
            return tuple([self[each] for each in range(*index.indices(len(self)))])
        at = range(len(self))[index]
        return self._made(at, self._item(at))

    def _item(self, at: int) -> Any:
        past = self._first + len(self._block)
        if not self._first <= at < past:
            self._first = at
            self._block = self._listed.some_from(at) if at == past else [self._listed[at]]
        return self._block[at - self._first]

    def _made(self, index: int, item: Any) -> EvalCase:
        case = self._make(index, item)
        if case is None:
            raise InvalidInput("a case that was read before cannot be read again")
        return case

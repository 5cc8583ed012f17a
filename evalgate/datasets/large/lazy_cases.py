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

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import CaseMetadata, CaseResult, EvalCase, RunResult, TurnResult
from evalgate.datasets.fingerprint import compute_case_fingerprint
from evalgate.datasets.large.long_json import LongList
from evalgate.redaction.redactor import RedactedJson

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_get_case_fields = attrgetter(*(each.name for each in fields(CaseResult)))
_get_run_fields = attrgetter(*(each.name for each in fields(RunResult)))


class LazyRunResult(RunResult):
    """Equal to the run that it is. Its turns are made of the JSON that it was read from when somebody asks.

    `dataclasses.replace` gives one that has them.
    """

    __slots__ = ()

    def load_turns(self) -> tuple[TurnResult, ...]:
        """The turns, from where they are written."""
        raise NotImplementedError

    def load_turns_json(self) -> list[object] | None:
        """The turns as a record writes them, without making objects of them; None when they must be."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> tuple[TurnResult, ...]:
        """The turns, when they are asked for first."""
        if name != "turns":
            raise AttributeError(name)
        turns = self.load_turns()
        object.__setattr__(self, name, turns)
        return turns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunResult):
            return NotImplemented
        return bool(_get_run_fields(self) == _get_run_fields(other))

    __hash__ = RunResult.__hash__


class ShardRun(LazyRunResult):
    """A run in the line of its case."""

    __slots__ = ("_at",)
    _at: tuple[str, int]
    """The JSON of the case, and which of its runs this is."""

    def set_source(self, line: str, index: int) -> None:
        """Say once where it stands."""
        object.__setattr__(self, "_at", (line, index))

    def load_turns(self) -> tuple[TurnResult, ...]:
        """See `LazyRunResult`."""
        line, index = self._at
        return _parse_case(line).runs[index].turns

    def load_turns_json(self) -> list[object] | None:
        """See `LazyRunResult`."""
        if not hasattr(self, "_at"):
            return None
        line, index = self._at
        return _parse_turns(line)[index]


class LazyCaseResult(CaseResult, RedactedJson):
    """Equal to the case that it is. It is written again as it was, so it must be of this very version.

    `dataclasses.replace` gives one that knows no JSON.
    """

    __slots__ = ("_json",)
    _json: str

    @property
    def json(self) -> str:
        """See `RedactedJson`."""
        return getattr(self, "_json", "")

    def set_json(self, line: str) -> None:
        """Say once how it stands in its file."""
        object.__setattr__(self, "_json", line)
        for index, run in enumerate(self.runs):
            if isinstance(run, ShardRun):
                run.set_source(line, index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CaseResult):
            return NotImplemented
        return bool(_get_case_fields(self) == _get_case_fields(other))

    __hash__ = CaseResult.__hash__


# Who asks for one run of a case mostly asks for the next one, too: a line is not read once for each.


@lru_cache(maxsize=1)
def _parse_case(line: str) -> CaseResult:
    return _get_case_adapter().validate_json(line, strict=True)


@lru_cache(maxsize=1)
def _parse_turns(line: str) -> list[list[object]]:
    """Of each run, as plain values that nobody changes."""
    from pydantic_core import from_json

    return [run["turns"] for run in from_json(line)["runs"]]


@cache
def _get_case_adapter() -> "TypeAdapter[CaseResult]":
    from pydantic import TypeAdapter

    return TypeAdapter(CaseResult)


MakeCase: TypeAlias = Callable[[int, Any], EvalCase | None]
"""Makes the case that stands, decoded, at an index of a list; None when something is wrong with it, which it
tells whoever collects that."""


def build_cases(listed: Sequence[Any], make: MakeCase) -> Sequence[EvalCase]:
    """A case for each item with which nothing is wrong: a tuple, or `StoredCases` of a list in a file."""
    if isinstance(listed, LongList):
        return StoredCases(listed, make)
    return tuple([case for index, item in enumerate(listed) if (case := make(index, item)) is not None])


def map_cases(
    cases: Sequence[EvalCase],
    change: Callable[[EvalCase], EvalCase],
    *,
    same_heads: bool = False,
    same_prints: bool = False,
) -> Sequence[EvalCase]:
    """Each case as `change`, which is pure, makes it; what stays in its file stays there.

    `same_heads`: nothing that a `CaseMetadata` says is changed, so those that stay need not be looked at
    again. `same_prints`: nor is anything that counts in a fingerprint.
    """
    if isinstance(cases, StoredCases):
        return cases.map_cases(change, same_heads=same_heads, same_prints=same_prints)
    return tuple([change(case) for case in cases])


def fingerprint_cases(cases: Sequence[EvalCase]) -> tuple[str, ...]:
    """The fingerprint of each case, in order."""
    if isinstance(cases, StoredCases) and cases.prints is not None:
        return tuple([f"{number:016x}" for number in cases.prints])
    return tuple(map(compute_case_fingerprint, cases))


def has_repeated_ids(cases: Sequence[EvalCase]) -> bool:
    """Whether two of them have one id."""
    heads: Sequence[CaseMetadata] = cases.case_metadata if isinstance(cases, StoredCases) else cases
    # First without the texts: of a large set, all of them at once would fill most of the memory.
    hashes = sorted([hash(head.eval_id) for head in heads])
    return any(map(eq, hashes, hashes[1:])) and len({head.eval_id for head in heads}) < len(heads)


class StoredCaseMetadata(NamedTuple):
    """What is known of a case that is not there; a `CaseMetadata`."""

    eval_id: str
    line: int
    tags: tuple[str, ...]
    is_simulated: bool
    expects_state: bool
    expects_tool_calls: bool
    rubric_metrics: tuple[str, ...]


class CaseMetadataTable(Sequence[CaseMetadata]):
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

    def add_case(self, case: CaseMetadata) -> None:
        """Keep what is known of the next case."""
        index = len(self)
        self._ids += case.eval_id.encode()
        self._ends.append(len(self._ids))
        self._lines.append(case.line)
        if case.tags:
            self._tags[index] = case.tags
        if case.is_simulated:
            self._played.add(index)
        if case.expects_state:
            self._states.add(index)
        self._calls.append(case.expects_tool_calls)
        if case.rubric_metrics:
            self._rubrics[index] = case.rubric_metrics

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> StoredCaseMetadata: ...

    @overload
    def __getitem__(self, index: slice) -> list[StoredCaseMetadata]: ...

    def __getitem__(self, index: int | slice) -> StoredCaseMetadata | list[StoredCaseMetadata]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        eval_id = self._ids[self._ends[at] : self._ends[at + 1]].decode()
        tags, rubrics = self._tags.get(at, ()), self._rubrics.get(at, ())
        played, states, calls = at in self._played, at in self._states, bool(self._calls[at])
        return StoredCaseMetadata(eval_id, self._lines[at], tags, played, states, calls, rubrics)

    def __iter__(self) -> Iterator[StoredCaseMetadata]:
        tags, rubrics, played, states = self._tags, self._rubrics, self._played, self._states
        begin = 0
        for at, end in enumerate(islice(self._ends, 1, None)):
            eval_id = self._ids[begin:end].decode()
            line, calls = self._lines[at], bool(self._calls[at])
            own = tags.get(at, ())
            yield StoredCaseMetadata(
                eval_id, line, own, at in played, at in states, calls, rubrics.get(at, ())
            )
            begin = end


class StoredCases(Sequence[EvalCase]):
    """The cases of a list that stays in its file.

    Whoever asks for one after the other, in file order, has each decoded once.

    Raises:
        InvalidInputError: where a case is asked for that is not any more what it was at first.
    """

    def __init__(
        self,
        listed: LongList,
        make: MakeCase,
        heads: CaseMetadataTable | None = None,
        prints: "array[int] | None" = None,
    ) -> None:
        """`heads` and `prints`: of these very cases, where they are known."""
        self._listed = listed
        self._make = make
        self._first, self._block = 0, list[Any]()
        """Items that were decoded last, and the index of the first of them."""
        self.prints = prints
        """Fingerprints, as numbers; None where they are not known."""
        self.case_metadata = self._collect_metadata() if heads is None else heads
        """See `EvalSet.case_metadata`. Cases with which something is wrong are left out."""

    def _collect_metadata(self) -> CaseMetadataTable:
        heads, self.prints = CaseMetadataTable(), array("Q")
        for index, item in enumerate(self._listed):
            if (case := self._make(index, item)) is not None:
                heads.add_case(case)
                # now, as to make a case takes four times as long
                self.prints.append(int(compute_case_fingerprint(case), 16))
        return heads

    def map_cases(
        self, change: Callable[[EvalCase], EvalCase], *, same_heads: bool, same_prints: bool
    ) -> "StoredCases":
        """See `map_cases`."""
        make = self._make

        def make_changed_case(index: int, item: Any) -> EvalCase | None:
            case = make(index, item)
            return None if case is None else change(case)

        heads, prints = self.case_metadata if same_heads else None, self.prints if same_prints else None
        return StoredCases(self._listed, make_changed_case, heads, prints)

    def __len__(self) -> int:
        return len(self.case_metadata)

    def __iter__(self) -> Iterator[EvalCase]:
        for index, item in enumerate(self._listed):
            yield self._build_case(index, item)

    @overload
    def __getitem__(self, index: int) -> EvalCase: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[EvalCase, ...]: ...

    def __getitem__(self, index: int | slice) -> EvalCase | tuple[EvalCase, ...]:
        if isinstance(index, slice):
            return tuple([self[each] for each in range(*index.indices(len(self)))])
        at = range(len(self))[index]
        return self._build_case(at, self._load_item(at))

    def _load_item(self, at: int) -> Any:
        past = self._first + len(self._block)
        if not self._first <= at < past:
            self._first = at
            self._block = self._listed.read_block(at) if at == past else [self._listed[at]]
        return self._block[at - self._first]

    def _build_case(self, index: int, item: Any) -> EvalCase:
        case = self._make(index, item)
        if case is None:
            raise InvalidInputError("a case that was read before cannot be read again")
        return case

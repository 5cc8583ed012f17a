"""Cases of large eval sets and results that are decoded from their file when they are used.

All cases are built once when the set is read, so every problem is found then. In memory remain the position
of each case, and the data that a run needs of every case at any time: id, line, tags and fingerprint.
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
    """A run that decodes its turns from JSON on first access. It equals a `RunResult` with the same fields.

    `dataclasses.replace` returns a run with decoded turns.
    """

    __slots__ = ()

    def load_turns(self) -> tuple[TurnResult, ...]:
        """Return the turns, decoded from their JSON."""
        raise NotImplementedError

    def load_turns_json(self) -> list[object] | None:
        """Return the turns as plain values in the form of a record; None if only `turns` has them."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> tuple[TurnResult, ...]:
        """Load the turns on first access, when the slot is still empty."""
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
    """A lazy run that is part of the JSON line of its case."""

    __slots__ = ("_at",)
    _at: tuple[str, int]
    """JSON of the case, and the index of this run in it."""

    def set_source(self, line: str, index: int) -> None:
        """Set the JSON of the case and the index of this run, once."""
        object.__setattr__(self, "_at", (line, index))

    def load_turns(self) -> tuple[TurnResult, ...]:
        """Return the turns, decoded from the line of the case."""
        line, index = self._at
        return _parse_case(line).runs[index].turns

    def load_turns_json(self) -> list[object] | None:
        """Return the turns as plain values from the line of the case; None without a line."""
        if not hasattr(self, "_at"):
            return None
        line, index = self._at
        return _parse_turns(line)[index]


class LazyCaseResult(CaseResult, RedactedJson):
    """A case with its JSON, which is written again unchanged. It equals a `CaseResult` with the same fields.

    The JSON must come from this version of evalgate. `dataclasses.replace` returns a case without JSON.
    """

    __slots__ = ("_json",)
    _json: str

    @property
    def json(self) -> str:
        """Return the JSON of the case on one line; "" if it is unknown."""
        return getattr(self, "_json", "")

    def set_json(self, line: str) -> None:
        """Set the JSON of the case and its runs, once."""
        object.__setattr__(self, "_json", line)
        for index, run in enumerate(self.runs):
            if isinstance(run, ShardRun):
                run.set_source(line, index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CaseResult):
            return NotImplemented
        return bool(_get_case_fields(self) == _get_case_fields(other))

    __hash__ = CaseResult.__hash__


# Callers usually read all runs of a case one after the other. A cache of one line avoids parsing it for each.


@lru_cache(maxsize=1)
def _parse_case(line: str) -> CaseResult:
    return _get_case_adapter().validate_json(line, strict=True)


@lru_cache(maxsize=1)
def _parse_turns(line: str) -> list[list[object]]:
    """Return the turns of each run as plain values, which must not be modified: they are cached."""
    from pydantic_core import from_json

    return [run["turns"] for run in from_json(line)["runs"]]


@cache
def _get_case_adapter() -> "TypeAdapter[CaseResult]":
    from pydantic import TypeAdapter

    return TypeAdapter(CaseResult)


MakeCase: TypeAlias = Callable[[int, Any], EvalCase | None]
"""Builds a case from its index in a list and its decoded item. If the item is invalid, the function reports
the problem to its own collector and returns None."""


def build_cases(listed: Sequence[Any], make: MakeCase) -> Sequence[EvalCase]:
    """Build a case from each valid item: as a tuple, or as `StoredCases` for a list in a file."""
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
    """Apply `change`, a pure function, to each case; `StoredCases` stay in their file, and change lazily.

    `same_heads` promises that no field of `CaseMetadata` changes, so that stored cases need not be decoded
    for it again. `same_prints` promises the same for fingerprints.
    """
    if isinstance(cases, StoredCases):
        return cases.map_cases(change, same_heads=same_heads, same_prints=same_prints)
    return tuple([change(case) for case in cases])


def fingerprint_cases(cases: Sequence[EvalCase]) -> tuple[str, ...]:
    """Return the fingerprint of each case, in order."""
    if isinstance(cases, StoredCases) and cases.prints is not None:
        return tuple([f"{number:016x}" for number in cases.prints])
    return tuple(map(compute_case_fingerprint, cases))


def has_repeated_ids(cases: Sequence[EvalCase]) -> bool:
    """Return True if two cases have the same id."""
    heads: Sequence[CaseMetadata] = cases.case_metadata if isinstance(cases, StoredCases) else cases
    # Hashes first: the texts of all ids of a large set would take most of the memory.
    hashes = sorted([hash(head.eval_id) for head in heads])
    return any(map(eq, hashes, hashes[1:])) and len({head.eval_id for head in heads}) < len(heads)


class StoredCaseMetadata(NamedTuple):
    """The metadata of a case that is not decoded; a `CaseMetadata`."""

    eval_id: str
    line: int
    tags: tuple[str, ...]
    is_simulated: bool
    expects_state: bool
    expects_tool_calls: bool
    rubric_metrics: tuple[str, ...]


class CaseMetadataTable(Sequence[CaseMetadata]):
    """A compact table of the metadata of many cases."""

    def __init__(self) -> None:
        self._ids, self._ends = bytearray(), array("Q", [0])
        """All ids in UTF-8, concatenated, and the end of each. Texts would take most of the memory."""
        self._lines = array("I")
        self._tags: dict[int, tuple[str, ...]] = {}
        self._played: set[int] = set()
        self._states: set[int] = set()
        self._calls = bytearray()
        """One byte per case. Nearly all cases expect a call, so a set of indices would be much larger."""
        self._rubrics: dict[int, tuple[str, ...]] = {}

    def add_case(self, case: CaseMetadata) -> None:
        """Append the metadata of the next case."""
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
    """The cases of a list that stays in its file. Reading them in file order decodes each of them once.

    Raises:
        InvalidInputError: on access to a case that has changed in the file.
    """

    def __init__(
        self,
        listed: LongList,
        make: MakeCase,
        heads: CaseMetadataTable | None = None,
        prints: "array[int] | None" = None,
    ) -> None:
        """Store the list. `heads` and `prints` are metadata and fingerprints of these cases, if known."""
        self._listed = listed
        self._make = make
        self._first, self._block = 0, list[Any]()
        """Items that were decoded last, and the index of the first of them."""
        self.prints = prints
        """Fingerprints as 64-bit numbers; None if unknown."""
        self.case_metadata = self._collect_metadata() if heads is None else heads
        """Metadata as in `EvalSet.case_metadata`, without invalid cases."""

    def _collect_metadata(self) -> CaseMetadataTable:
        heads, self.prints = CaseMetadataTable(), array("Q")
        for index, item in enumerate(self._listed):
            if (case := self._make(index, item)) is not None:
                heads.add_case(case)
                # Computed now, because building the case again takes four times as long.
                self.prints.append(int(compute_case_fingerprint(case), 16))
        return heads

    def map_cases(
        self, change: Callable[[EvalCase], EvalCase], *, same_heads: bool, same_prints: bool
    ) -> "StoredCases":
        """Return cases that apply `change` when they are decoded; the arguments are as in `map_cases`."""
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

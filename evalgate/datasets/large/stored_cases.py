"""Cases of large eval sets that are decoded from their file when they are used.

All cases are built once when the set is read, so every problem is found then. Afterwards, memory holds only
the position of each case and the facts that a run needs at any time: id, line, tags, kinds of expectations
and fingerprint.
"""

from array import array
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import islice
from typing import Any, Literal, NamedTuple, overload

from typing_extensions import override

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import EvalCase
from evalgate.datasets.cases import CaseChange, CasesInFile, MakeCase
from evalgate.datasets.fingerprint import compute_case_fingerprint
from evalgate.datasets.large.large_json import LongList


class _CaseMetadata(NamedTuple):
    """Facts about a case that is not decoded. The fields are attributes of `EvalCase`."""

    eval_id: str
    line: int
    tags: tuple[str, ...]
    is_simulated: bool
    expects_state: bool
    expects_tool_calls: bool
    rubric_metrics: tuple[str, ...]
    status: Literal["expected", "observed"]
    source: str


class _CaseMetadataTable:
    def __init__(self) -> None:
        # All ids in UTF-8, concatenated, and the offset where each id ends. Separate strings would take most
        # of the memory.
        self._ids, self._ends = bytearray(), array("Q", [0])
        self._lines = array("I")
        self._tags: dict[int, tuple[str, ...]] = {}
        self._simulated: set[int] = set()
        self._states: set[int] = set()
        # One byte per case. Nearly all cases expect a call, so a set of indices would be much larger.
        self._calls = bytearray()
        self._rubrics: dict[int, tuple[str, ...]] = {}
        self._observed: set[int] = set()
        self._sources: dict[int, str] = {}

    def add_case(self, case: EvalCase) -> None:
        """Append the metadata of the next case."""
        index = len(self)
        self._ids += case.eval_id.encode()
        self._ends.append(len(self._ids))
        self._lines.append(case.line)
        if case.tags:
            self._tags[index] = case.tags
        if case.is_simulated:
            self._simulated.add(index)
        if case.expects_state:
            self._states.add(index)
        self._calls.append(case.expects_tool_calls)
        if case.rubric_metrics:
            self._rubrics[index] = case.rubric_metrics
        if case.status == "observed":
            self._observed.add(index)
        if case.source:
            self._sources[index] = case.source

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[_CaseMetadata]:
        tags, rubrics, simulated, states = self._tags, self._rubrics, self._simulated, self._states
        begin = 0
        for at, end in enumerate(islice(self._ends, 1, None)):
            eval_id = self._ids[begin:end].decode()
            line, calls = self._lines[at], bool(self._calls[at])
            own = tags.get(at, ())
            yield _CaseMetadata(
                eval_id,
                line,
                own,
                at in simulated,
                at in states,
                calls,
                rubrics.get(at, ()),
                "observed" if at in self._observed else "expected",
                self._sources.get(at, ""),
            )
            begin = end


class _ItemReader:
    """Reader of list items in any order; items that are read in file order are decoded in blocks."""

    def __init__(self, items: LongList) -> None:
        self._items = items
        self._first, self._block = 0, list[Any]()
        """Index of the first item of the block that was decoded last, and the items of this block."""

    def read_item(self, at: int) -> Any:
        """Return the decoded item at the 0-based index `at`."""
        past = self._first + len(self._block)
        if not self._first <= at < past:
            self._first = at
            self._block = self._items.read_block(at) if at == past else [self._items[at]]
        return self._block[at - self._first]


_CASE_FIELDS = tuple(field.name for field in fields(EvalCase))


class StoredCase(EvalCase):
    """A case that is decoded when a field besides its metadata is read. It equals the decoded `EvalCase`."""

    __slots__ = ("_index", "_metadata", "_reader", "_source")
    _index: int
    _metadata: _CaseMetadata
    _reader: _ItemReader
    _source: "StoredCases"

    def __new__(cls, *values: Any, **fields: Any) -> Any:
        """Return an ordinary `EvalCase`, because `dataclasses.replace` calls this class with all fields."""
        return EvalCase(*values, **fields)

    def __getattr__(self, name: str) -> Any:
        """Decode the case, store all of its fields, and return the field `name`.

        Python calls this method only for a field that is not stored yet, or for a name that is no field.

        Raises:
            AttributeError: `name` is no field.
            InvalidInputError: the case has changed in the file.
        """
        if name not in _CASE_FIELDS:
            raise AttributeError(name)
        case = self._source.build_case(self._index, self._reader.read_item(self._index))
        for each in _CASE_FIELDS:
            object.__setattr__(self, each, getattr(case, each))
        return getattr(case, name)

    @property
    @override
    def is_simulated(self) -> bool:
        return self._metadata.is_simulated

    @property
    @override
    def expects_state(self) -> bool:
        return self._metadata.expects_state

    @property
    @override
    def expects_tool_calls(self) -> bool:
        return self._metadata.expects_tool_calls

    @property
    @override
    def rubric_metrics(self) -> tuple[str, ...]:
        return self._metadata.rubric_metrics

    def __eq__(self, other: object) -> bool:
        # Frozen classes compare only objects of the same class, and this one must equal an ordinary case.
        if not isinstance(other, EvalCase):
            return NotImplemented
        return all(getattr(self, each) == getattr(other, each) for each in _CASE_FIELDS)

    __hash__ = EvalCase.__hash__


class StoredCases(CasesInFile):
    """The cases of a list that stays in its file. Reading the cases in file order decodes each case once.

    Raises:
        InvalidInputError: on access to a case that has changed in the file.
    """

    def __init__(
        self,
        items: LongList,
        make: MakeCase,
        *,
        eval_set_id: str = "",
        metadata: _CaseMetadataTable | None = None,
        fingerprints: "array[int] | None" = None,
    ) -> None:
        """Keep the list, and the function `make` that builds a case of each item.

        If `metadata` is None, all cases are built now to collect their metadata and fingerprints. If only
        `fingerprints` is None, they are computed at each call of `fingerprint_cases`.
        """
        self._items = items
        self._make = make
        self._eval_set_id = eval_set_id
        self._reader = _ItemReader(items)
        self._fingerprints = fingerprints
        """Fingerprints as 64-bit numbers; None if they were not computed yet."""
        self._metadata = self._collect_metadata() if metadata is None else metadata
        """The metadata of all valid cases."""

    def _collect_metadata(self) -> _CaseMetadataTable:
        table, self._fingerprints = _CaseMetadataTable(), array("Q")
        for index, item in enumerate(self._items):
            if (case := self._make(index, item)) is not None:
                table.add_case(case)
                # Computed now, because building the case again takes four times as long.
                self._fingerprints.append(int(compute_case_fingerprint(case), 16))
        return table

    @override
    def map_cases(self, change: CaseChange, *, keeps_metadata: bool = False) -> "StoredCases":
        def make_changed_case(index: int, item: Any) -> EvalCase | None:
            case = self._make_case(index, item)
            return None if case is None else change(case)

        metadata = self._metadata if keeps_metadata else None
        return StoredCases(self._items, make_changed_case, eval_set_id=self._eval_set_id, metadata=metadata)

    @override
    def assign_eval_set(self, eval_set_id: str) -> "StoredCases":
        # The id is no part of the metadata, and of no fingerprint.
        return StoredCases(
            self._items,
            self._make,
            eval_set_id=eval_set_id,
            metadata=self._metadata,
            fingerprints=self._fingerprints,
        )

    @override
    def fingerprint_cases(self) -> tuple[str, ...]:
        if self._fingerprints is None:
            return tuple(map(compute_case_fingerprint, self))
        return tuple([f"{number:016x}" for number in self._fingerprints])

    def __len__(self) -> int:
        return len(self._metadata)

    def __iter__(self) -> Iterator[EvalCase]:
        # Each pass over the cases decodes blocks of its own, so that other accesses do not disturb it.
        reader = _ItemReader(self._items)
        for index, metadata in enumerate(self._metadata):
            yield self._build_stored_case(index, metadata, reader)

    def _build_stored_case(self, index: int, metadata: _CaseMetadata, reader: _ItemReader) -> StoredCase:
        case: StoredCase = object.__new__(StoredCase)
        assign = object.__setattr__
        assign(case, "_index", index)
        assign(case, "_metadata", metadata)
        assign(case, "_reader", reader)
        assign(case, "_source", self)
        assign(case, "eval_id", metadata.eval_id)
        assign(case, "line", metadata.line)
        assign(case, "tags", metadata.tags)
        assign(case, "status", metadata.status)
        assign(case, "source", metadata.source)
        assign(case, "eval_set_id", self._eval_set_id)
        return case

    @overload
    def __getitem__(self, index: int) -> EvalCase: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[EvalCase, ...]: ...

    def __getitem__(self, index: int | slice) -> EvalCase | tuple[EvalCase, ...]:
        if isinstance(index, slice):
            return tuple([self[each] for each in range(*index.indices(len(self)))])
        at = range(len(self))[index]
        return self.build_case(at, self._reader.read_item(at))

    def build_case(self, index: int, item: Any) -> EvalCase:
        """Build the case at the 0-based `index` from its decoded item.

        Raises:
            InvalidInputError: the item is not a valid case any more.
        """
        case = self._make_case(index, item)
        if case is None:
            raise InvalidInputError("a case that was read before cannot be read again")
        return case

    def _make_case(self, index: int, item: Any) -> EvalCase | None:
        case = self._make(index, item)
        if case is None or self._eval_set_id in ("", case.eval_set_id):
            return case
        return replace(case, eval_set_id=self._eval_set_id)

"""Keep a record in memory with indexes for the viewer's pages, such as searchable texts and changes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import CaseKey, CaseResult, Change, Message, Record, Reply, ToolCall
from evalgate.reporting.baseline_lines import CountedChange, map_counted_changes
from evalgate.reporting.findings import format_case_name
from evalgate.reporting.html.case_list import CaseEntry, CaseKind, count_kinds, rank_cases
from evalgate.reporting.html.groups import Grouping, group_cases


@dataclass(frozen=True, eq=False)  # without slots, for the cached properties
class OpenedRecord:
    """Record with indexes of its cases. Each index is built when it is first used."""

    record_id: str
    title: str
    version: tuple[int, int]
    """Modification time (ns) and size (bytes) of the record's file."""
    record: Record
    is_recording: bool = False
    """True if the file is no record of a run, but a recording such as a session, a trace or a baseline."""

    @cached_property
    def entries(self) -> tuple[CaseEntry, ...]:
        """Return all cases, the most important ones first, such as failing cases (`rank_cases`)."""
        return tuple(rank_cases(self.record))

    @cached_property
    def kinds(self) -> Mapping[CaseKind, int]:
        """Return the number of cases of each kind, such as flaky cases; a case may be of several kinds.

        Kinds without a case are left out.
        """
        return count_kinds(list(self.entries))

    @cached_property
    def changes(self) -> Mapping[CaseKey, Change]:
        """Return the kind of change since the baseline for each changed case; {} without a baseline.

        Cases that do not gate are included, although no report counts them.
        """
        comparison = self.record.comparison
        return {each.key: each.change for each in comparison.changes} if comparison else {}

    @cached_property
    def counted_changes(self) -> Mapping[CaseKey, CountedChange]:
        """Return what each case is counted as, compared with the baseline (`map_counted_changes`)."""
        return map_counted_changes(self.record)

    @cached_property
    def groupings(self) -> Mapping[str, Grouping]:
        """Return each way to group the cases, such as by tag; the key is the title of the grouping.

        A grouping that does not apply to the record has no groups.
        """
        return {each.title: each for each in group_cases(self.entries, self.record)}

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Return the searchable text of each case, in lower case and in the order of `entries`.

        The text has the name of the case, its failures, messages and responses, and the names of tools that
        were called or expected.
        """
        return tuple("\n".join(_list_texts(entry.case)).casefold() for entry in self.entries)

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """Return all tags of the cases, sorted."""
        return tuple(sorted({tag for case in self.record.cases for tag in case.tags}))

    @cached_property
    def eval_sets(self) -> tuple[str, ...]:
        """Return the ids of all eval sets, in the order in which the record has them."""
        return tuple(dict.fromkeys(case.eval_set_id for case in self.record.cases))

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of all metrics, each once, in the order of the record's summary."""
        return tuple(dict.fromkeys(metric.name for metric in self.record.metrics))

    @cached_property
    def _positions(self) -> Mapping[CaseKey, int]:
        # Reversed, so that of several cases with one name the first is found.
        return {entry.case.key: at for at, entry in reversed(list(enumerate(self.entries)))}

    def find_position(self, key: CaseKey) -> int | None:
        """Return the position of a case in `entries`; None if the record has no such case."""
        return self._positions.get(key)

    def find_entry(self, key: CaseKey) -> CaseEntry:
        """Return the item of `entries` for a case.

        Raises:
            InvalidInputError: the record has no such case.
        """
        position = self.find_position(key)
        if position is None:
            raise InvalidInputError(f"{self.title}: there is no case {'/'.join(key)}")
        return self.entries[position]


def _list_texts(case: CaseResult) -> Iterator[str]:
    yield format_case_name(case)
    seen: set[str] = set()
    for run in case.runs:
        if run.failure is not None:
            yield run.failure.message
        for turn in run.turns:
            for text in (turn.user, *_list_reply_texts(turn.expected), *_list_reply_texts(turn.actual)):
                if text not in seen:  # the runs of a case have many texts in common
                    seen.add(text)
                    yield text


def _list_reply_texts(reply: Reply | None) -> Iterator[str]:
    if reply is None:
        return
    yield reply.response or ""
    for event in reply.events:
        if isinstance(event, ToolCall):
            yield event.name
        elif isinstance(event, Message):
            yield event.text

"""Recorded traces: spans grouped by trace, with a tracing tool's facts about each trace."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias

from evalgate.agents.tracing.trace_formats import Span
from evalgate.core.errors import Problem
from evalgate.core.frozen import frozen

Feedback: TypeAlias = Mapping[str, float | str]
"""Maps the name of a score to its value: a number, or a label."""

NO_FEEDBACK: Feedback = {}


@frozen
class TraceInfo:
    """Facts about a trace besides its spans, such as tags and the feedback of users."""

    trace_id: str
    conversation_id: str = ""
    """Id of the session or thread that the trace belongs to."""
    url: str = ""
    """Address of the trace's page in the tracing tool; "" if it is not known."""
    tags: tuple[str, ...] = ()
    feedback: Feedback = field(default_factory=lambda: NO_FEEDBACK)
    error: str = ""
    """Error of the trace as a whole; "" if it has none, or the tool records errors only in spans."""
    question: str = ""
    """Last message of the user in the input of the whole trace; "" if there is none."""
    answer: str = ""
    start: int = 0
    """Start in nanoseconds since the epoch; 0 if it is not known."""


TraceItem: TypeAlias = Span | TraceInfo


@frozen
class RecordedTrace:
    """The spans of one trace, and the facts about the trace."""

    info: TraceInfo
    spans: tuple[Span, ...]

    @property
    def start(self) -> int:
        """Return the start of the earliest span, in nanoseconds since the epoch.

        If no span has a start, return the start in `info`, which is 0 if it is unknown.
        """
        return min((span.start for span in self.spans if span.start), default=self.info.start)


class RowReader(Protocol):
    """Reader of the JSON objects of one tracing tool, from its exports and the answers of its API."""

    def matches_row(self, row: Mapping[str, Any]) -> bool:
        """Return True if the object has the keys of an object of this tool."""
        ...

    def read_row(self, row: Mapping[str, Any]) -> Iterable[TraceItem]:
        """Return the spans in an object, and the facts about traces.

        Raises:
            ValueError: the object cannot be read. The text is a sentence without its subject, such as "is too
                deep".
        """
        ...


@frozen
class TraceBatch:
    """Result of reading traces from a file or an API."""

    traces: tuple[RecordedTrace, ...]
    problems: tuple[Problem, ...] = ()
    """Parts of the source that could not be read."""
    rows: int = 0
    """Number of objects that were read; from an API, unreadable objects count, too."""
    failure: str = ""
    """Error that ended the reading before the last object; "" if all objects were read."""


def collect_traces(items: Iterable[TraceItem]) -> tuple[RecordedTrace, ...]:
    """Return one trace for each trace id in `items`, sorted by start; unknown starts (0) come first.

    If spans of a trace have the same id, only the first is kept. Several `TraceInfo` of a trace are merged.
    """
    spans: dict[str, dict[str, Span]] = {}
    infos: dict[str, TraceInfo] = {}
    for item in items:
        if isinstance(item, TraceInfo):
            known = infos.get(item.trace_id)
            infos[item.trace_id] = _merge_infos(known, item) if known else item
        else:
            group = spans.setdefault(item.trace_id, {})
            group.setdefault(item.span_id or f"#{len(group)}", item)
    traces = [
        RecordedTrace(infos.get(trace_id) or TraceInfo(trace_id), tuple(spans.get(trace_id, {}).values()))
        for trace_id in dict.fromkeys((*spans, *infos))
    ]
    return tuple(sorted(traces, key=lambda trace: (trace.start, trace.info.trace_id)))


def _merge_infos(first: TraceInfo, second: TraceInfo) -> TraceInfo:
    return replace(
        first,
        conversation_id=first.conversation_id or second.conversation_id,
        url=first.url or second.url,
        tags=tuple(dict.fromkeys((*first.tags, *second.tags))),
        feedback={**first.feedback, **second.feedback},
        error=first.error or second.error,
        question=first.question or second.question,
        answer=first.answer or second.answer,
        start=first.start or second.start,
    )


_FRACTION = re.compile(r"\.(\d{6})\d+")


def parse_time(found: object) -> int:
    """Return a time in nanoseconds since the epoch; 0 if `found` is no time.

    `found` is a `datetime`, a text in ISO 8601 (UTC if it has no zone), or a number of nanoseconds,
    microseconds, milliseconds or seconds. The unit is inferred from the size of the number.
    """
    if isinstance(found, datetime):
        return int(found.timestamp() * 1e6) * 1000
    if isinstance(found, str) and found.strip().isdecimal() and len(found) < 24:
        found = int(found)
    if isinstance(found, int | float) and not isinstance(found, bool) and 0 < found < 1e20:
        for limit, factor in ((1e11, 10**9), (1e14, 10**6), (1e17, 10**3)):
            if found < limit:
                return int(found * factor)
        return int(found)
    if not isinstance(found, str):
        return 0
    text = _FRACTION.sub(r".\1", found.strip().replace(" UTC", "+00:00").replace("Z", "+00:00"))
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000
    except (ValueError, OverflowError):
        return 0


def get_text(row: Mapping[str, Any], *names: str) -> str:
    """Return the first non-empty text or integer under one of the keys `names`, as a text.

    Return "" if there is no such value.
    """
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""


def get_list(row: Mapping[str, Any], *names: str) -> list[Any]:
    """Return the first list under one of the keys `names`; [] if there is none."""
    return next((value for name in names if isinstance(value := row.get(name), list)), [])


def get_dict(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the first object under one of the keys `names`; {} if there is none."""
    return next((value for name in names if isinstance(value := row.get(name), dict)), {})


def filter_texts(values: Iterable[object]) -> Iterator[str]:
    """Yield the texts among `values` that are not blank."""
    yield from (value for value in values if isinstance(value, str) and value.strip())

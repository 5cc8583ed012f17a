"""The page around its cases, and truncation to the size limit."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from evalgate.core.formatting import counted
from evalgate.core.sanitize import shortened
from evalgate.core.types import Record
from evalgate.reporting.findings import beside_baseline, without_baseline
from evalgate.reporting.html.case import render_full, render_line
from evalgate.reporting.html.case_list import KINDS, Entry, Room, counts, name_anchors, ranked
from evalgate.reporting.html.markup import render, style
from evalgate.reporting.summary_lines import (
    HEADLINES,
    STATUSES,
    NamedCases,
    baseline_line,
    changed_cases,
    facts,
    flaky_cases,
    headline,
    judge_use,
    made_at,
    metric_line,
    resting,
    unjudged_cases,
)

_MOST_METRICS = 200
_MOST_REMARKS = 100
_MOST_NAMES = 25
_LONGEST = 1_000


def render_top(record: Record, entries: list[Entry], anchors: Mapping[str, str], left_out: str) -> str:
    """What stands before the cases.

    `anchors` are those of the cases that stand in full, by name; `left_out` says of how many less is shown.
    """
    metrics = [metric_line(metric) for metric in record.metrics[:_MOST_METRICS]]
    sheet, source = style()
    words, reasons = headline(record)
    numbers, flipping = counts(entries), flaky_cases(record)
    still, unjudged = list(resting(record)), unjudged_cases(record, _MOST_NAMES)
    return render(
        "page_top.html.j2",
        style=sheet,
        source=source,
        status=record.verdict.status,
        title=HEADLINES[record.verdict.status][1],
        headline=shortened(words, _LONGEST),
        reasons=_some(reasons),
        facts=[*facts(record), *([judge_use(record.judge)] if record.judge else [])],
        metrics=[(line, STATUSES[line.status]) for line in metrics],
        has_noise=any(line.has_noise for line in metrics),
        has_trend=any(line.trend for line in metrics),
        more_metrics=max(0, len(record.metrics) - _MOST_METRICS),
        baseline=baseline_line(record),
        no_baseline=without_baseline(record),
        judgements=list(islice(beside_baseline(record), _MOST_METRICS)),
        changes=[_linked(found, anchors) for found in changed_cases(record, _MOST_NAMES)],
        unjudged=[_linked(found, anchors) for found in unjudged[:_MOST_NAMES]],
        more_unjudged=max(0, len(unjudged) - _MOST_NAMES),
        flaky=_flaky(flipping, anchors),
        more_flaky=max(0, len(flipping) - _MOST_NAMES),
        resting=[(case, anchors.get(case.name)) for case in still[:_MOST_NAMES]],
        more_resting=max(0, len(still) - _MOST_NAMES),
        notices=_some(record.notices),
        kinds=[(kind.replace("_", "-"), KINDS[kind], number) for kind, number in numbers.items()],
        total=len(entries),
        left_out=left_out,
    )


def render_end(record: Record) -> str:
    """What stands after the cases."""
    return render("page_end.html.j2", about=list(_about(record)))


def _some(sentences: Sequence[str]) -> list[str]:
    found = [shortened(each, _LONGEST) for each in sentences[:_MOST_REMARKS]]
    more = len(sentences) - len(found)
    return [*found, f"… and {more:,} more: see results.json"] if more else found


def _about(record: Record) -> Iterator[str]:
    if record.agent.kind:
        yield f"agent {record.agent.kind}:{record.agent.what}"
    yield made_at(record)
    yield f"evalgate {record.evalgate_version}"


_Named = tuple[str, str | None]
"""A case and its anchor, if it is on the page."""


def _linked(found: NamedCases, anchors: Mapping[str, str]) -> tuple[NamedCases, list[_Named]]:
    return found, [(shortened(name, _LONGEST), anchors.get(name)) for name in found.names]


def _flaky(found: list[tuple[str, str]], anchors: Mapping[str, str]) -> list[tuple[str, str, str | None]]:
    return [(shortened(name, _LONGEST), runs, anchors.get(name)) for name, runs in found[:_MOST_NAMES]]


_FOR_THE_TOP = 1_000_000
_FOR_LINES = 700_000
_LEAST_ROOM, _MOST_ROOM = 8_000, 150_000  # characters of a case
_LONGEST_TEXT = 15_000


def fitted(record: Record, limit: int) -> Iterator[str]:
    """The document in pieces, of at most `limit` bytes together."""
    entries = ranked(record)
    room = max(limit - _FOR_THE_TOP, limit // 2)
    full = _full(record, entries, room - min(_FOR_LINES, room // 5))
    lines = _lines(entries[len(full) :], room - sum(map(_size, full)))
    names = [entry.finding.name for entry in entries[: len(full)]]
    anchors = dict(reversed(list(zip(names, name_anchors(entries[: len(full)]), strict=True))))
    yield render_top(record, entries, anchors, _left_out(len(entries), len(full), len(lines)))
    yield from full
    yield from lines
    yield render_end(record)


def _full(record: Record, entries: list[Entry], left: int) -> list[str]:
    """The first cases with all that happened, as many as fit; each gets its share of what is `left`."""
    found: list[str] = []
    for number, (entry, anchor) in enumerate(zip(entries, name_anchors(entries), strict=True)):
        share = left // (len(entries) - number)
        room = Room(max(_LEAST_ROOM, min(share, _MOST_ROOM)), _LONGEST_TEXT)
        text = render_full(record, entry, anchor, room)
        left -= _size(text)
        if left < 0:
            break
        found.append(text)
    return found


def _lines(entries: list[Entry], left: int) -> list[str]:
    """A line for each of the next cases, as many as fit."""
    found: list[str] = []
    for entry in entries:
        text = render_line(entry)
        left -= _size(text)
        if left < 0:
            break
        found.append(text)
    return found


def _left_out(cases: int, full: int, lines: int) -> str:
    """How much of the cases is not here; "" when all is."""
    if full == cases:
        return ""
    rest = cases - full - lines
    named = f", {counted(lines, 'more', 'more')} by name" if lines else ""
    missing = f", and {rest:,} not at all" if rest else ""
    return (
        f"Of {counted(cases, 'case')}, the {full:,} most telling stand here in full{named}{missing}. "
        "results.json, beside this page, holds all of them."
    )


def _size(text: str) -> int:
    return len(text.encode())

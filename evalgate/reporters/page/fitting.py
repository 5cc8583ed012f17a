"""The page within its limit: as many cases in full as fit, then cases by name, then how many are left."""

from collections.abc import Iterator

from evalgate.model import Record
from evalgate.numbers import counted
from evalgate.reporters.page.case import render_full, render_line
from evalgate.reporters.page.entries import Entry, name_anchors, ranked
from evalgate.reporters.page.frame import render_end, render_top
from evalgate.reporters.page.room import Room

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

"""Render the page around its cases, and cut it to the size limit."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from evalgate.core.formatting import pluralize
from evalgate.core.sanitize import shorten_text
from evalgate.core.types import Record
from evalgate.reporting.findings import describe_comparisons, describe_missing_baseline
from evalgate.reporting.html.case import render_full, render_line
from evalgate.reporting.html.case_list import (
    KINDS,
    CaseEntry,
    SizeBudget,
    count_kinds,
    name_anchors,
    rank_cases,
)
from evalgate.reporting.html.markup import load_style_sheet, render_html
from evalgate.reporting.summary_lines import (
    HEADLINES,
    STATUSES,
    NamedCases,
    build_baseline_line,
    build_headline,
    build_metric_line,
    describe_run_totals,
    format_judge_usage,
    format_start_time,
    list_changed_cases,
    list_flaky_cases,
    list_quarantined,
    list_unjudged_cases,
)

_MOST_METRICS = 200
_MOST_REMARKS = 100
_MOST_NAMES = 25
_LONGEST = 1_000


def render_top(record: Record, entries: list[CaseEntry], anchors: Mapping[str, str], left_out: str) -> str:
    """Return the page up to the cases.

    `anchors` are the anchors of the cases shown in full, by name. `left_out` is a sentence about the other
    cases; "" if there are none.
    """
    metrics = [build_metric_line(metric) for metric in record.metrics[:_MOST_METRICS]]
    sheet, source = load_style_sheet()
    words, reasons = build_headline(record)
    numbers, flaky = count_kinds(entries), list_flaky_cases(record)
    quarantined, unjudged = list(list_quarantined(record)), list_unjudged_cases(record, _MOST_NAMES)
    return render_html(
        "page_top.html.j2",
        style=sheet,
        source=source,
        status=record.verdict.status,
        title=HEADLINES[record.verdict.status][1],
        headline=shorten_text(words, _LONGEST),
        reasons=_shorten_list(reasons),
        facts=[*describe_run_totals(record), *([format_judge_usage(record.judge)] if record.judge else [])],
        metrics=[(line, STATUSES[line.status]) for line in metrics],
        has_noise=any(line.has_noise for line in metrics),
        has_trend=any(line.trend for line in metrics),
        more_metrics=max(0, len(record.metrics) - _MOST_METRICS),
        baseline=build_baseline_line(record),
        no_baseline=describe_missing_baseline(record),
        judgements=list(islice(describe_comparisons(record), _MOST_METRICS)),
        changes=[_link_cases(found, anchors) for found in list_changed_cases(record, _MOST_NAMES)],
        unjudged=[_link_cases(found, anchors) for found in unjudged[:_MOST_NAMES]],
        more_unjudged=max(0, len(unjudged) - _MOST_NAMES),
        flaky=[(shorten_text(name, _LONGEST), runs, anchors.get(name)) for name, runs in flaky[:_MOST_NAMES]],
        more_flaky=max(0, len(flaky) - _MOST_NAMES),
        quarantined=[(case, anchors.get(case.name)) for case in quarantined[:_MOST_NAMES]],
        more_quarantined=max(0, len(quarantined) - _MOST_NAMES),
        notices=_shorten_list(record.notices),
        kinds=[(kind.replace("_", "-"), KINDS[kind], number) for kind, number in numbers.items()],
        total=len(entries),
        left_out=left_out,
    )


def render_end(record: Record) -> str:
    """Return the page after the cases."""
    return render_html("page_end.html.j2", about=list(_describe_run(record)))


def _shorten_list(sentences: Sequence[str]) -> list[str]:
    found = [shorten_text(each, _LONGEST) for each in sentences[:_MOST_REMARKS]]
    more = len(sentences) - len(found)
    return [*found, f"… and {more:,} more: see results.json"] if more else found


def _describe_run(record: Record) -> Iterator[str]:
    if record.agent.kind:
        yield f"agent {record.agent.kind}:{record.agent.what}"
    yield format_start_time(record)
    yield f"evalgate {record.evalgate_version}"


_Named = tuple[str, str | None]
"""A case name and its anchor; the anchor is None if the case is not shown in full."""


def _link_cases(found: NamedCases, anchors: Mapping[str, str]) -> tuple[NamedCases, list[_Named]]:
    return found, [(shorten_text(name, _LONGEST), anchors.get(name)) for name in found.names]


_FOR_THE_TOP = 1_000_000  # bytes of the page without its cases
_FOR_LINES = 700_000  # bytes for cases on one line
_MIN_CASE_SIZE, _MAX_CASE_SIZE = 8_000, 150_000  # characters of a case in full
_LONGEST_TEXT = 15_000


def iter_page_chunks(record: Record, limit: int) -> Iterator[str]:
    """Yield the document in pieces, with at most `limit` bytes in total."""
    entries = rank_cases(record)
    available = max(limit - _FOR_THE_TOP, limit // 2)
    full = _render_full_cases(record, entries, available - min(_FOR_LINES, available // 5))
    lines = _render_lines(entries[len(full) :], available - sum(map(_count_bytes, full)))
    names = [entry.finding.name for entry in entries[: len(full)]]
    # Reversed, so that of several cases with one name the first keeps the link.
    anchors = dict(reversed(list(zip(names, name_anchors(entries[: len(full)]), strict=True))))
    yield render_top(record, entries, anchors, _describe_left_out(len(entries), len(full), len(lines)))
    yield from full
    yield from lines
    yield render_end(record)


def _render_full_cases(record: Record, entries: list[CaseEntry], left: int) -> list[str]:
    """Return the first cases in full, as many as fit. Each gets an equal share of what is `left`."""
    found: list[str] = []
    for number, (entry, anchor) in enumerate(zip(entries, name_anchors(entries), strict=True)):
        share = left // (len(entries) - number)
        budget = SizeBudget(max(_MIN_CASE_SIZE, min(share, _MAX_CASE_SIZE)), _LONGEST_TEXT)
        text = render_full(record, entry, anchor, budget)
        left -= _count_bytes(text)
        if left < 0:
            break
        found.append(text)
    return found


def _render_lines(entries: list[CaseEntry], left: int) -> list[str]:
    """Return one line for each of the next cases, as many as fit."""
    found: list[str] = []
    for entry in entries:
        text = render_line(entry)
        left -= _count_bytes(text)
        if left < 0:
            break
        found.append(text)
    return found


def _describe_left_out(cases: int, full: int, lines: int) -> str:
    """Return a sentence about the cases that are not shown in full; "" if all are."""
    if full == cases:
        return ""
    rest = cases - full - lines
    named = f", {pluralize(lines, 'more', 'more')} by name" if lines else ""
    missing = f", and {rest:,} not at all" if rest else ""
    return (
        f"Of {pluralize(cases, 'case')}, the {full:,} most telling stand here in full{named}{missing}. "
        "results.json, beside this page, holds all of them."
    )


def _count_bytes(text: str) -> int:
    return len(text.encode())

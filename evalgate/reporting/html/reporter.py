"""Render `report.html`: all runs of each case, for readers who follow the link from a red pull request.

The page is one file and loads nothing. Its only script is `page.js`, which searches, sorts and groups the
cases on the page: without the script the page shows the same. A Content-Security-Policy allows the script and
the style sheet by their digests. The page has a maximum size, so that a browser opens it without delay.
To keep it, less important cases are shortened or left out. The page then says what was left out and where the
rest is.

The templates escape every text and show invisible characters. Only the markup of a template and numbers are
rendered as they are. The result of a macro is escaped already, so templates mark it with `|safe`.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import shorten_text
from evalgate.core.types import CaseKey, Record, Reply
from evalgate.reporting.findings import NamedCases
from evalgate.reporting.html.case import build_case_view, build_line_view
from evalgate.reporting.html.case_list import (
    KINDS,
    CaseEntry,
    SizeBudget,
    count_kinds,
    iter_anchors,
    rank_cases,
)
from evalgate.reporting.html.environment import TEMPLATES, load_macro, render_html
from evalgate.reporting.html.groups import CHANGE, CaseMarks, Grouping, build_marks, group_cases
from evalgate.reporting.html.trace import load_trace_styles
from evalgate.reporting.summary_lines import (
    STATUSES,
    describe_run_totals,
    describe_verdict,
    format_judge_usage,
    format_start_time,
    summarize_record,
)

LIMIT = 5_000_000
"""Maximum size of the page in bytes of UTF-8."""

_FOR_THE_TOP = 1_000_000  # bytes of the page without its cases
_FOR_LINES = 700_000  # bytes for cases on one line
_MIN_CASE_SIZE, _MAX_CASE_SIZE = 8_000, 150_000  # characters of a case in full
_LONGEST_TEXT = 15_000
_MOST_METRICS = 200
_MOST_REMARKS = 100
_MOST_NAMES = 25
_LONGEST = 1_000
_LONGEST_NAME = 300
_MOST_SORT_METRICS = 20


@frozen
class _Marking:
    """The metrics by which the page can sort its cases, and the groupings of the cases."""

    metrics: tuple[str, ...]
    groupings: tuple[Grouping, ...]

    def mark(self, entry: CaseEntry) -> CaseMarks:
        return build_marks(entry, self.metrics, self.groupings)


@frozen
class HtmlReport:
    """The reporter of `report.html`, a page with all cases and runs."""

    limit: int = LIMIT
    """Maximum size of the page in bytes. It must be at least twice the size of the page without its cases;
    a page with a lower limit may be larger than the limit."""

    earlier: Mapping[CaseKey, tuple[Reply | None, ...]] = field(default_factory=dict)
    """Replies of an earlier record by case, turn by turn. The page shows how replies differ from them."""

    file_name = "report.html"

    def render(self, record: Record) -> str:
        """Return the whole document as one text."""
        return "".join(self.iter_chunks(record))

    def iter_chunks(self, record: Record) -> Iterator[str]:
        """Yield the document in pieces."""
        entries = rank_cases(record, self.earlier)
        sort_metrics = tuple(dict.fromkeys(metric.name for metric in record.metrics))[:_MOST_SORT_METRICS]
        marking = _Marking(sort_metrics, group_cases(entries, record))
        available = max(self.limit - _FOR_THE_TOP, self.limit // 2)
        full = _render_full_cases(record, entries, marking, available - min(_FOR_LINES, available // 5))
        lines = _render_lines(entries[len(full) :], marking, available - sum(map(_count_bytes, full)))
        names = [entry.finding.name for entry in entries[: len(full)]]
        # Reversed, so that of several cases with one name the first keeps the link.
        anchors = dict(reversed(list(zip(names, iter_anchors(entries[: len(full)]), strict=True))))
        yield _render_top(
            record, entries, marking, anchors, _describe_left_out(len(entries), len(full), len(lines))
        )
        yield from full
        yield from lines
        yield render_html(
            "page_end.html.j2", about=list(_describe_run(record)), script=load_script() if entries else ""
        )


def load_styles(record: Record) -> str:
    """Return the style sheet of a record's page; with the styles of traces if a run has a trace."""
    sheet = (TEMPLATES / "page.css").read_text("utf-8")
    has_trace = any(run.trace for case in record.cases for run in case.runs)
    return sheet + load_trace_styles() if has_trace else sheet


def load_script() -> str:
    """Return `page.js`, which searches, sorts and groups the cases on the page."""
    return (TEMPLATES / "page.js").read_text("utf-8")


def compute_csp_hash(text: str) -> str:
    """Return the hash of a style sheet or script as a source for a Content-Security-Policy: `sha256-…`."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _list_sort_keys(record: Record, metrics: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "time", "longest time"
    if any(usage.min_cost_usd for case in record.cases for run in case.runs for usage in run.usages):
        yield "cost", "highest cost"
    budgets = {each.name for each in record.metrics if each.range.lower_is_better}
    for number, name in enumerate(metrics):
        yield f"score{number}", f"{'highest' if name in budgets else 'lowest'} {name}"


def _render_top(
    record: Record, entries: list[CaseEntry], marking: _Marking, anchors: Mapping[str, str], left_out: str
) -> str:
    """Return the page from its start up to the cases.

    `anchors` are the HTML ids of the cases shown in full, by case name. `left_out` is a sentence about the
    cases that are not shown in full; "" if all cases are.
    """
    summary = summarize_record(record, metrics=_MOST_METRICS, names=_MOST_NAMES, exempt=_MOST_NAMES)
    sheet = load_styles(record)
    return render_html(
        "page_top.html.j2",
        style=sheet,
        style_source=compute_csp_hash(sheet),
        script_source=compute_csp_hash(load_script()) if entries else "",
        status=record.verdict.status,
        control=record.control,
        title=describe_verdict(record.verdict)[1],
        summary=summary,
        headline=shorten_text(summary.headline, _LONGEST),
        reasons=_shorten_list(summary.reasons),
        facts=[*describe_run_totals(record), *([format_judge_usage(record.judge)] if record.judge else [])],
        metrics=[(line, STATUSES[line.status]) for line in summary.metrics],
        changes=[_link_cases(found, anchors) for found in summary.changes],
        unjudged=[_link_cases(found, anchors) for found in summary.unjudged],
        flaky=[(shorten_text(name, _LONGEST), runs, anchors.get(name)) for name, runs in summary.flaky],
        exempt=[(case, anchors.get(case.name)) for case in summary.exempt],
        notices=_shorten_list(record.notices),
        kinds=[
            (kind.replace("_", "-"), KINDS[kind], number) for kind, number in count_kinds(entries).items()
        ],
        total=len(entries),
        groupings=list(_link_groupings(marking.groupings, anchors)),
        has_listed_groups=any(each.groups for each in marking.groupings if each.title != CHANGE),
        sort_keys=list(_list_sort_keys(record, marking.metrics)),
        left_out=left_out,
    )


def _shorten_list(sentences: Sequence[str]) -> list[str]:
    found = [shorten_text(each, _LONGEST) for each in sentences[:_MOST_REMARKS]]
    more = len(sentences) - len(found)
    return [*found, f"… and {more:,} more: see results.json"] if more else found


def _describe_run(record: Record) -> Iterator[str]:
    if record.agent.kind:
        yield f"agent {record.agent.kind}:{record.agent.what}"
    yield format_start_time(record)
    yield f"evalgate {record.evalgate_version}"


_LinkedName = tuple[str, str | None]
"""(case name, HTML id of the case); the id is None if the case is not shown in full."""


def _link_cases(found: NamedCases, anchors: Mapping[str, str]) -> tuple[NamedCases, list[_LinkedName]]:
    return found, [(shorten_text(name, _LONGEST), anchors.get(name)) for name in found.names]


def _link_groupings(
    groupings: Sequence[Grouping], anchors: Mapping[str, str]
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (index in `groupings`, template values) for each grouping that has groups.

    `anchors` are the HTML ids of the cases shown in full, by case name. The names of these cases become
    links.
    """
    for number, grouping in enumerate(groupings):
        groups = [
            (group, [(shorten_text(name, _LONGEST_NAME), anchors.get(name)) for name in group.examples])
            for group in grouping.groups
        ]
        if groups:
            # "What changed" lists the changes already. Here they only name the groups for the script.
            is_listed = grouping.title != CHANGE
            yield number, {"title": grouping.title, "groups": groups, "is_listed": is_listed}


def _render_full_cases(record: Record, entries: list[CaseEntry], marking: _Marking, left: int) -> list[str]:
    """Return the first cases in full as HTML, as many as fit into `left` bytes.

    The size budget of a case, in characters, is the number of bytes still left, divided by the number of
    cases still to render, but at least 8,000 and at most 150,000.
    """
    found: list[str] = []
    render = load_macro("page_case.html.j2", "case_in_full")
    # The share is computed anew for each case, so that the bytes that a short case leaves go to later cases.
    for number, (entry, anchor) in enumerate(zip(entries, iter_anchors(entries), strict=True)):
        share = left // (len(entries) - number)
        budget = SizeBudget(max(_MIN_CASE_SIZE, min(share, _MAX_CASE_SIZE)), _LONGEST_TEXT)
        text = render(**build_case_view(record, entry, marking.mark(entry), anchor, budget))
        left -= _count_bytes(text)
        if left < 0:
            break
        found.append(text)
    return found


def _render_lines(entries: list[CaseEntry], marking: _Marking, left: int) -> list[str]:
    """Return the HTML line of each of the first cases, as many as fit into `left` bytes."""
    found: list[str] = []
    render = load_macro("page_case.html.j2", "case_on_a_line")
    for entry in entries:
        text = render(build_line_view(entry, marking.mark(entry)))
        left -= _count_bytes(text)
        if left < 0:
            break
        found.append(text)
    return found


def _describe_left_out(cases: int, full: int, lines: int) -> str:
    """Return a sentence about the cases that are not shown in full; "" if all cases are shown in full.

    `cases` is the number of all cases, `full` the number of cases shown in full, and `lines` the number of
    cases shown by name only.
    """
    if full == cases:
        return ""
    rest = cases - full - lines
    named = f", {pluralize(lines, 'more', 'more')} by name" if lines else ""
    missing = f", and {rest:,} not at all" if rest else ""
    return (
        f"Of {pluralize(cases, 'case')}, the {full:,} most important are shown in full{named}{missing}. "
        "results.json, next to this page, has all of them."
    )


def _count_bytes(text: str) -> int:
    return len(text.encode())

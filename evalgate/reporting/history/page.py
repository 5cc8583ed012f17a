"""The history page: each metric in the gate runs (stored runs of the gate) of a baseline, and how it changed.

The page is one file that loads nothing and has no script. A Content-Security-Policy allows the style sheet by
its digest.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime

from evalgate import __version__
from evalgate.baselines.failing_since import format_failing_since
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import BaselineSource
from evalgate.reporting.history.series import (
    GateRunHistory,
    MetricSeries,
    list_change_sentences,
    name_source,
)
from evalgate.reporting.html.environment import TEMPLATES, render_html
from evalgate.reporting.html.reporter import compute_csp_hash

_WIDTH, _HEIGHT, _MARGIN = 720, 120, 10
_MOST_NAMED = 200


@frozen
class _Point:
    x: float
    y: float
    title: str


@frozen
class _Chart:
    name: str
    newest: str
    low: str
    high: str
    line: str
    """Value of the attribute `points` of an SVG polyline."""
    points: tuple[_Point, ...]
    changes: tuple[tuple[float, str], ...]
    """(x coordinate in the SVG, `worse` or `better`) of each change."""


@frozen
class _Row:
    day: str
    commit: str
    address: str
    """Web address of the commit; "" if it is not known."""
    branch: str
    accepted: str
    passed: str
    scores: tuple[str, ...]
    changes: str


def render_history(history: GateRunHistory, label: str, repository: str, now: datetime) -> str:
    """Return the page as HTML, with `label` as its title.

    `repository` is the web address of the repository, for links to commits; "" for no links. `now` is the
    time that the page names as its time of writing.
    """
    style = (TEMPLATES / "page.css").read_text("utf-8") + (TEMPLATES / "history.css").read_text("utf-8")
    newest = history.sources[-1]
    facts = (
        pluralize(len(history.sources), "gate run"),
        f"newest {(newest.created_at or 'of unknown time')[:10]}",
        *((f"branch {newest.branch}",) if newest.branch else ()),
    )
    failing = [
        (f"{key[0]}/{key[1]}", format_failing_since(since)) for key, since in history.failing_since.items()
    ]
    return render_html(
        "history.html.j2",
        style=style,
        style_source=compute_csp_hash(style),
        status="pass" if history.passing == history.cases else "fail",
        label=label,
        headline=f"{history.passing:,} of {pluralize(history.cases, 'case')} passed in their newest gate run",
        facts=facts,
        sentences=list_change_sentences(history.sources, history.series),
        charts=[_build_chart(each, history.sources) for each in history.series],
        names=[each.name for each in history.series],
        rows=list(_iter_rows(history, repository)),
        failing=failing[:_MOST_NAMED],
        assumed=history.assumed,
        more_failing=max(0, len(failing) - _MOST_NAMED),
        about=(f"evalgate {__version__}", f"written {now.strftime('%Y-%m-%d %H:%M')} UTC"),
    )


def _build_chart(series: MetricSeries, sources: Sequence[BaselineSource]) -> _Chart:
    low, high = min(series.values), max(series.values)
    is_budget = series.range.lower_is_better
    room = (high - low) * 0.1 or ((0.1 * high or 1.0) if is_budget else 0.05)
    least, most = (0.0, math.inf) if is_budget else (series.range.to_score(0.0), series.range.to_score(1.0))
    low, high = max(low - room, least), min(high + room, most)
    last = max(1, len(series.values) - 1)

    def place(at: float, value: float) -> tuple[float, float]:
        share = (value - low) / (high - low) if high > low else 0.5
        x = _MARGIN + at / last * (_WIDTH - 2 * _MARGIN)
        return round(x, 1), round(_HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN), 1)

    points = tuple(
        _Point(*place(at, value), f"{name_source(source)}: {series.format(value)}")
        for at, (value, source) in enumerate(zip(series.values, sources, strict=True))
    )
    changes = tuple(
        (place(change.at - 0.5, low)[0], _describe_direction(series, change.before, change.after))
        for change in series.changes
    )
    line = " ".join(f"{point.x},{point.y}" for point in points)
    newest = series.format(series.values[-1])
    return _Chart(series.name, newest, series.format(low), series.format(high), line, points, changes)


def _iter_rows(history: GateRunHistory, repository: str) -> Iterator[_Row]:
    """Yield a row for each gate run, the newest first."""
    for at in reversed(range(len(history.sources))):
        source, (passed, runs) = history.sources[at], history.passed[at]
        changes = [
            f"{each.name} {_describe_direction(each, change.before, change.after)}"
            for each in history.series
            for change in each.changes
            if change.at == at
        ]
        commit = source.commit or ""
        yield _Row(
            (source.created_at or "")[:10],
            commit[:12],
            f"{repository.rstrip('/')}/commit/{commit}" if repository and commit.isalnum() else "",
            source.branch or "",
            source.accepted or "",
            f"{passed:,} of {runs:,}",
            tuple(each.format(each.values[at]) for each in history.series),
            ", ".join(changes),
        )


def _describe_direction(series: MetricSeries, before: float, after: float) -> str:
    return "worse" if (after < before) != series.range.lower_is_better else "better"

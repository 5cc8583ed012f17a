"""Everything on the page but the cases: verdict, metrics, baseline, what changed, remarks."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from evalgate.hostile import shortened
from evalgate.model import Record
from evalgate.reporters.page.entries import KINDS, Entry, counts
from evalgate.reporters.page.markup import render, style
from evalgate.telling.findings import beside_baseline, without_baseline
from evalgate.telling.headline import (
    HEADLINES,
    STATUSES,
    NamedCases,
    baseline_line,
    changed_cases,
    facts,
    flaky_cases,
    headline,
    made_at,
    metric_line,
    unjudged_cases,
)
from evalgate.telling.judging import judge_use
from evalgate.telling.quarantines import resting

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

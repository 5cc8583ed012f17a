"""Everything in the comment but the failing cases: verdict, metrics, what changed, totals."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from evalgate.hostile import md_code, md_text
from evalgate.model import CaseChange, Change, Comparison, MetricSummary, Record, Status, VerdictStatus
from evalgate.numbers import counted, shown, shown_delta
from evalgate.reporters.comment.markdown import Markdown, render
from evalgate.telling.findings import (
    CHANGES,
    beside_baseline,
    case_counts,
    change_counts,
    effort,
    grouped_changes,
    shown_status,
    shown_threshold,
)
from evalgate.telling.judging import judge_use

_VERDICTS: dict[VerdictStatus, tuple[str, str]] = {
    "pass": ("✅", "Gate open"),
    "fail": ("❌", "Gate closed"),
    "inconclusive": ("⚠️", "Inconclusive"),
    "error": ("⚠️", "No verdict"),
}
_STATUSES: dict[Status, str] = {"passed": "✅", "failed": "❌", "errored": "💥", "not_evaluated": "⚪"}
_LONGEST_HEADLINE = 100
_SPLIT = "\0"
_NOT_IN_KEY = re.compile(r"[^A-Za-z0-9._/]+")


class _Row(NamedTuple):
    """A line of the metric table, as text."""

    symbol: Markdown
    name: str
    scope: str
    """The cases that the threshold holds for; "" when for all."""
    score: str
    threshold: str
    baseline: str
    delta: str
    cases: str


def render_frame(record: Record, key: str, size: int, *, is_trusted: bool) -> tuple[str, str]:
    """What stands before and after the failing cases; lists hold at most `size` entries of each kind."""
    symbol, headline = _VERDICTS[record.verdict.status]
    reasons = record.verdict.reasons
    if reasons and len(reasons[0]) <= _LONGEST_HEADLINE:
        headline, reasons = f"{headline}: {reasons[0].removesuffix('.')}", reasons[1:]
    text = render(
        "comment.md.j2",
        key=Markdown(_NOT_IN_KEY.sub("-", key)[:100] or "default"),
        symbol=Markdown(symbol),
        headline=headline,
        reasons=reasons[:size],
        more_reasons=max(0, len(reasons) - size),
        metrics=[_row(metric) for metric in record.metrics[: 3 * size]],
        more_metrics=max(0, len(record.metrics) - 3 * size),
        baseline=_baseline(record, record.comparison, size) if record.comparison else None,
        notices=record.notices[:size],
        is_trusted=is_trusted,
        cases=Markdown(_SPLIT),
        totals=Markdown(_totals(record)),
    )
    before, _, after = text.partition(_SPLIT)
    return before, after


def _row(metric: MetricSummary) -> _Row:
    errors = f" ({counted(metric.errors, 'error')})" if metric.errors else ""
    return _Row(
        symbol=Markdown(_STATUSES[shown_status(metric)]),
        name=metric.name,
        scope=", ".join(filter(None, (metric.scope, *metric.eval_sets))),
        score=shown(metric.score, beside=metric.threshold),
        threshold=shown_threshold(metric.threshold),
        baseline=shown(metric.baseline, beside=metric.score if metric.delta else None),
        delta=shown_delta(metric.delta),
        cases=f"{metric.n:,}{errors}",
    )


class _BaselineView(NamedTuple):
    source: str
    commit: str
    date: str
    counts: str
    compared: str
    changes: list["_ChangeView"]
    judgements: list[tuple[str, str]]
    """Metric and sentence."""


class _ChangeView(NamedTuple):
    what: str
    names: list[str]
    more: int


def _baseline(record: Record, comparison: Comparison, size: int) -> _BaselineView:
    compared = {metric.compared for metric in record.metrics if 0 < metric.compared < metric.n}
    return _BaselineView(
        source=comparison.source or "given",
        commit=(comparison.commit or "")[:12],
        date=(comparison.created_at or "")[:10],
        counts=f"{change_counts(comparison)}.",
        compared=f"Δ is over the {counted(max(compared), 'case')} that can be compared." if compared else "",
        changes=[_change(kind, found, size) for kind, found in grouped_changes(comparison).items()],
        judgements=list(islice(beside_baseline(record), 3 * size)),
    )


def _change(kind: Change, found: Sequence[CaseChange], size: int) -> _ChangeView:
    what = CHANGES[kind] + (" (asks or expects something else: not compared)" if kind == "changed" else "")
    names = [f"{change.eval_set_id}/{change.eval_id}" for change in found[:size]]
    return _ChangeView(what, names, len(found) - len(names))


def _totals(record: Record) -> str:
    return " · ".join(_facts(record))


def _facts(record: Record) -> Iterator[str]:
    totals = record.totals
    yield case_counts(totals)
    if record.effort is not None:
        yield effort(record)
    elif record.runs > 1:
        yield f"{record.runs} runs each"
    yield f"{record.duration_s:,.1f} s"
    if totals.input_tokens or totals.output_tokens:
        yield f"{totals.input_tokens:,} + {totals.output_tokens:,} tokens"
    if totals.cost_usd:
        yield f"{totals.cost_usd:,.4f} USD"
    if record.judge is not None:
        yield judge_use(record.judge)
    yield f"agent {md_code(f'{record.agent.kind}:{record.agent.what}', 100)}"
    yield md_text(f"{record.created_at[:16].replace('T', ' ')} UTC", 40)
    yield md_text(f"evalgate {record.evalgate_version}", 60)

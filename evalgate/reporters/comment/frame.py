"""Everything in the comment but the failing cases: verdict, metrics, what changed, totals."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from evalgate.hostile import md_code, md_text
from evalgate.model import CaseChange, Change, Comparison, MetricSummary, Record, Status, VerdictStatus
from evalgate.numbers import counted, shown, shown_delta, sparkline
from evalgate.reporters.comment.markdown import Markdown, render
from evalgate.telling.findings import (
    CHANGES,
    beside_baseline,
    case_counts,
    case_name,
    change_counts,
    effort,
    flaky,
    grouped_changes,
    run_costs,
    shown_status,
    shown_threshold,
    still_failing,
)
from evalgate.telling.judging import judge_lines
from evalgate.telling.quarantines import resting

_VERDICTS: dict[VerdictStatus, tuple[str, str]] = {
    "pass": ("✅", "Gate open"),
    "fail": ("❌", "Gate closed"),
    "inconclusive": ("⚠️", "Inconclusive"),
    "error": ("⚠️", "No verdict"),
}
_STATUSES: dict[Status, str] = {"passed": "✅", "failed": "❌", "errored": "💥", "not_evaluated": "⚪"}
_LONGEST_HEADLINE = 100
_FEWEST_POINTS = 2  # of the past; one is the baseline itself
_SPLIT = "\0"
_NO_BREAK = "\N{NO-BREAK SPACE}"
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
    trend: str
    """A tiny chart of the last gate runs."""
    cases: str


def render_frame(record: Record, key: str, size: int, *, is_trusted: bool) -> tuple[str, str]:
    """What stands before and after the failing cases; lists hold at most `size` entries of each kind."""
    symbol, headline = _VERDICTS[record.verdict.status]
    reasons = record.verdict.reasons
    if reasons and len(reasons[0]) <= _LONGEST_HEADLINE:
        headline, reasons = f"{headline}: {reasons[0].removesuffix('.')}", reasons[1:]
    baseline = _baseline(record, record.comparison) if record.comparison else None
    changes = list(_changes(record, record.comparison, size)) if record.comparison else []
    flaky_cases, judgements = _flaky(record, size), list(islice(beside_baseline(record), 3 * size))
    text = render(
        "comment.md.j2",
        key=Markdown(_NOT_IN_KEY.sub("-", key)[:100] or "default"),
        symbol=Markdown(symbol),
        headline=headline,
        reasons=reasons[:size],
        more_reasons=max(0, len(reasons) - size),
        metrics=[_row(metric) for metric in record.metrics[: 3 * size]],
        has_noise=any("±\N{NO-BREAK SPACE}" in _delta(metric) for metric in record.metrics[: 3 * size]),
        has_trend=any(map(_trend, record.metrics[: 3 * size])),
        more_metrics=max(0, len(record.metrics) - 3 * size),
        baseline=baseline,
        is_run=bool(record.cases or record.metrics),
        notices=record.notices[:size],
        resting=list(islice(resting(record), 3 * size)),
        more_resting=max(0, sum(1 for _ in resting(record)) - 3 * size),
        is_trusted=is_trusted,
        changes=changes,
        flaky=flaky_cases,
        judgements=judgements,
        has_list=changes or flaky_cases.names or judgements or (baseline and baseline.took),
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
        delta=Markdown(_delta(metric)),  # figures; where a line is short, it ends before ±
        trend=_trend(metric),
        cases=f"{metric.n:,}{errors}",
    )


def _delta(metric: MetricSummary) -> str:
    """The difference, and what luck alone moves it by where that is known."""
    noise = metric.judgement.noise if metric.judgement else None
    delta = shown_delta(metric.delta)
    return delta if metric.delta is None or not noise else f"{delta} ±{_NO_BREAK}{shown(noise)}"


def _trend(metric: MetricSummary) -> str:
    if metric.score is None or len(metric.trend) < _FEWEST_POINTS:
        return ""
    return sparkline((*metric.trend, metric.score))


class _FlakyView(NamedTuple):
    names: list[tuple[str, str]]
    """Case, and how often it passed."""
    more: int


def _flaky(record: Record, size: int) -> _FlakyView:
    found = flaky(record)
    names = [(case_name(case), f"{passed} of {runs} runs passed") for case, passed, runs in found[:size]]
    return _FlakyView(names, len(found) - len(names))


class _BaselineView(NamedTuple):
    source: str
    version: str
    gate_runs: str
    """How many, where they are several."""
    branch: str
    commit: str
    date: str
    counts: str
    compared: str
    took: str
    """What a run took, then and now."""


class _ChangeView(NamedTuple):
    what: str
    names: list[str]
    more: int


def _baseline(record: Record, comparison: Comparison) -> _BaselineView:
    compared = {metric.compared for metric in record.metrics if 0 < metric.compared < metric.n}
    return _BaselineView(
        source=comparison.source or "given",
        version=comparison.version,
        gate_runs=counted(comparison.gate_runs, "gate run") if comparison.gate_runs > 1 else "",
        branch=comparison.branch or "",
        commit=(comparison.commit or "")[:12],
        date=(comparison.created_at or "")[:10],
        counts=f"{change_counts(comparison)}.",
        compared=f"Δ is over the {counted(max(compared), 'case')} that can be compared." if compared else "",
        took=run_costs(comparison),
    )


def _changes(record: Record, comparison: Comparison, size: int) -> Iterator[_ChangeView]:
    """What fails stands before the rest."""
    groups = grouped_changes(comparison)
    if newly := groups.pop("newly_failing", []):
        yield _change("newly_failing", newly, size)
    if old := still_failing(record):
        names = [case_name(case) for case in old[:size]]
        yield _ChangeView("still failing", names, len(old) - len(names))
    for kind, found in groups.items():
        yield _change(kind, found, size)


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
    yield from map(md_text, judge_lines(record))
    if record.agent.kind:
        yield f"agent {md_code(f'{record.agent.kind}:{record.agent.what}', 100)}"
    yield md_text(f"{record.created_at[:16].replace('T', ' ')} UTC", 40)
    yield md_text(f"evalgate {record.evalgate_version}", 60)

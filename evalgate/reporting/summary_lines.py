"""Lines about the verdict, metrics, baseline, judges and cases that do not gate, shared by all reports.

Texts of the record are returned as they are, and may hold any characters: reports have to escape them.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from evalgate.core.formatting import (
    format_figure,
    format_limit,
    format_money,
    format_score,
    format_sparkline,
    pluralize,
)
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import UNLIMITED, Range
from evalgate.core.types import (
    REPORT_ONLY,
    AnchorComparison,
    CaseResult,
    MetricSummary,
    ModelUsage,
    Record,
    Status,
    Verdict,
    VerdictStatus,
)
from evalgate.reporting.findings import (
    NamedCases,
    count_passed_runs,
    describe_comparisons,
    describe_missing_baseline,
    explain_not_evaluated,
    find_flaky_cases,
    format_case_counts,
    format_case_name,
    format_run_counts,
    format_total_cost,
)

if TYPE_CHECKING:
    from evalgate.reporting.baseline_lines import BaselineLine


def describe_agreements(record: Record) -> Iterator[str]:
    """Yield a text for each judged metric with repeated answers: the agreement of the judge with itself."""
    for metric in record.metrics:
        if agreement := describe_agreement(metric.agreement):
            yield f"{metric.label}: {agreement}"


def describe_agreement(value: float | None) -> str:
    """Return `the judge agrees with itself 0.87`, or "" for None."""
    return "" if value is None else f"the judge agrees with itself {format_score(value)}"


def format_judge_usage(totals: ModelUsage) -> str:
    """Return the calls of judges as text: `12 judge calls (3,400 tokens, $0.02), 8 spared by the cache`."""
    return (
        f"{pluralize(totals.calls, 'judge call')}{_format_usage(totals)}, {totals.spared:,} spared by "
        f"the cache"
    )


def _format_usage(totals: ModelUsage) -> str:
    if not totals.calls:
        return ""
    tokens = pluralize(totals.input_tokens + totals.output_tokens, "token")
    if totals.calls <= totals.unpriced:
        return f" ({tokens}, cost unknown)"
    cost = format_money(totals.cost_usd)
    if totals.unpriced:
        cost += f" and the unknown cost of {pluralize(totals.unpriced, 'call')}"
    return f" ({tokens}, {cost})"


HEADLINES: dict[VerdictStatus, tuple[str, str]] = {
    "pass": ("✅", "Gate open"),
    "fail": ("❌", "Gate closed"),
    "inconclusive": ("⚠️", "Inconclusive"),
    "error": ("⚠️", "No verdict"),
    "skipped": ("⚪", "Skipped"),
}
"""The symbol and the words of each verdict."""
_REPORT_ONLY_HEADLINES: dict[VerdictStatus, tuple[str, str]] = {
    "pass": ("✅", f"Gate open ({REPORT_ONLY})"),
    "fail": ("⚠️", f"Gate would be closed ({REPORT_ONLY})"),
    "inconclusive": ("⚠️", f"Inconclusive ({REPORT_ONLY})"),
    "error": HEADLINES["error"],
    "skipped": HEADLINES["skipped"],
}
SYMBOLS: dict[Status, str] = {"passed": "✅", "failed": "❌", "errored": "💥", "not_evaluated": "⚪"}
STATUSES: dict[Status, str] = {
    "passed": "passed",
    "failed": "failed",
    "errored": "errored",
    "not_evaluated": "not evaluated",
}
"""The words of each status."""

_LONGEST_HEADLINE = 160
_SENTENCE_END = re.compile(r"(?<=\.)\s")
_FEWEST_POINTS = 2  # past gate runs in a sparkline; the column "baseline" shows a single one already
# In a narrow cell, a line break would separate the sign from its number.
_NO_BREAK = "\N{NO-BREAK SPACE}"


def describe_verdict(verdict: Verdict) -> tuple[str, str]:
    """Return (symbol, text) for a verdict; the text is, for example, `Gate closed`."""
    return (HEADLINES if verdict.gating_exit_code is None else _REPORT_ONLY_HEADLINES)[verdict.status]


def format_start_time(record: Record) -> str:
    """Return the start of the run as text, in UTC, without seconds: `2026-11-23 01:23 UTC`."""
    return f"{record.created_at[:16].replace('T', ' ')} UTC"


def build_headline(record: Record) -> tuple[str, tuple[str, ...]]:
    """Return (headline, remaining reasons). The headline has the verdict and the start of its first reason.

    As many whole sentences of the first reason as fit are in the headline; if none fits, the headline is the
    verdict alone. The rest of the first reason, if any, is the first of the remaining reasons.
    """
    words, reasons = describe_verdict(record.verdict)[1], record.verdict.reasons
    why, rest = _split_first_sentences(reasons[0]) if reasons else ("", "")
    if not why:
        return words, reasons
    why = why.removesuffix(".")
    # An error is quoted unchanged, with the colons of its files and lines.
    line = f"{words}: {why}" if record.verdict.status == "error" else _join_reason(words, why)
    return line, (*((rest,) if rest else ()), *reasons[1:])


def _join_reason(words: str, why: str) -> str:
    """Join the verdict and its reason with a colon. A reason that has a colon becomes a second sentence."""
    why = why.replace(": Regression: ", ": ", 1)
    if ": " not in why:
        return f"{words}: {why}"
    return f"{words}. {why.replace(': ', ', ', 1) if why.count(': ') > 1 else why}"


def _split_first_sentences(text: str) -> tuple[str, str]:
    """Return as many first sentences as fit in a headline ("" if none fits), and the rest of the text."""
    ends = [len(text), *(match.start() for match in _SENTENCE_END.finditer(text))]
    end = max((end for end in ends if end <= _LONGEST_HEADLINE), default=0)
    return text[:end].rstrip(), text[end:].lstrip()


def get_shown_status(metric: MetricSummary, anchor: AnchorComparison | None = None) -> Status:
    """Return the status to show in the metric table: `failed` for a metric that passed but closes the gate.

    Such a metric regressed, or its mean fell since the anchor (an older baseline). The status of any other
    metric is returned unchanged.
    """
    fell = {each.name for each in anchor.metrics if each.outcome == "fell"} if anchor else ()
    closes = metric.regressed or (metric.gates and metric.name in fell)
    return "failed" if closes and metric.status == "passed" else metric.status


def format_mean(metric: MetricSummary) -> str:
    """Return the mean as text, with enough digits to compare it with the minimum and with the baseline."""
    return _format_beside_others(metric, metric.score)


def format_baseline(metric: MetricSummary) -> str:
    """Return the baseline's mean as text, with enough digits to compare it with the mean and the minimum.

    The two means may differ although Δ (the change since the baseline) is 0 or unknown. They are then means
    of different cases, and the usual two decimals are enough.
    """
    if metric.delta or metric.baseline == metric.score:
        return _format_beside_others(metric, metric.baseline)
    return metric.range.format(metric.baseline)


def format_minimum(metric: MetricSummary) -> str:
    """Return the minimum of the mean (`0.80`), of each case (`0.50 a case`), or both, as text.

    For a budget, return its limits.
    """
    own = _format_beside_others(metric, metric.threshold)
    if metric.range.lower_is_better:
        return _format_limits(metric, own)
    each = f"{own} a case"
    if metric.mean_judged_by == "baseline":
        return each
    return own if metric.min_mean is None else f"{_format_beside_others(metric, metric.min_mean)} ({each})"


def _format_beside_others(metric: MetricSummary, number: float | None) -> str:
    """Return a number of a metric's row as text, with enough digits to distinguish it from the other numbers.

    The other numbers are the mean, the baseline's mean and the minima of the metric.
    """
    limits = (metric.minimum, metric.threshold)
    printed = (metric.score, metric.baseline if metric.delta else None, *limits)
    if number is not None and number in limits:
        return metric.range.format_limit(number, beside=printed)
    return metric.range.format(number, beside=printed)


def _format_limits(metric: MetricSummary, own: str) -> str:
    """Return the limits of a budget, such as `6,000, × 1.15, p95 9,000`.

    The limits are the maximum of each case (`own`), of the ratio to the baseline, and of the 95th percentile.
    A limit that is not set is left out. If no limit is set, return `own`.
    """
    ratio = metric.judgement.ratio if metric.judgement else None
    percentile = metric.judgement.percentile if metric.judgement else None
    limits = (
        own if metric.threshold < UNLIMITED else "",
        f"× {format_limit(ratio.max)}" if ratio else "",
        f"p95 {format_figure(percentile.minimum, beside=percentile.value)}" if percentile else "",
    )
    return ", ".join(filter(None, limits)) or own


@frozen
class MetricLine:
    """Texts of one metric's row in the metric table."""

    status: Status
    name: str
    scope: str
    """The cases to which the threshold applies; "" for all cases."""
    score: str
    threshold: str
    baseline: str
    delta: str
    """The change since the baseline, and, if known, its noise: the change that luck alone causes."""
    trend: str
    """A sparkline of the scores in the last stored gate runs and in this run; "" if there are too few."""
    cases: str
    agreement: str
    """The agreement of the judge's repeated answers; "" without a judge, or if it answered only once."""
    note: str = ""
    """`report only` for a metric that does not gate, else ""."""

    @property
    def has_noise(self) -> bool:
        """Return True if `delta` includes the noise, the change that luck alone causes."""
        return f"±{_NO_BREAK}" in self.delta


def build_metric_line(metric: MetricSummary, anchor: AnchorComparison | None = None) -> MetricLine:
    """Return the row of a metric for the metric table, the same in every report.

    `anchor` is the record's comparison with the anchor, an older baseline.
    """
    errors = f" ({pluralize(metric.errors, 'error')})" if metric.errors else ""
    scores = [] if metric.score is None else [*metric.trend, metric.score]
    scale = Range(0.0, max(scores, default=1.0) or 1.0) if metric.range.lower_is_better else metric.range
    trend = [scale.to_share(score) for score in scores]
    return MetricLine(
        status=get_shown_status(metric, anchor),
        name=metric.name,
        scope=", ".join(filter(None, (metric.scope, *metric.eval_sets))),
        score=format_mean(metric),
        threshold=format_minimum(metric),
        baseline=format_baseline(metric),
        delta=_format_delta(metric),
        trend=format_sparkline(trend) if len(trend) > _FEWEST_POINTS else "",
        cases=f"{metric.n:,}{errors}",
        agreement=describe_agreement(metric.agreement),
        note="" if metric.gates else REPORT_ONLY,
    )


def _format_delta(metric: MetricSummary) -> str:
    noise = metric.judgement.noise if metric.judgement else None
    delta = metric.range.format_delta(metric.delta)
    if metric.delta is None or not noise:
        return delta
    return f"{delta} ±{_NO_BREAK}{format_score(noise, beside=0.0, digits=len(delta.rpartition('.')[2]))}"


def list_unjudged_cases(record: Record, most: int) -> list[NamedCases]:
    """Return the gating cases that could not be evaluated, by reason, with at most `most` names each."""
    groups: dict[str, list[str]] = {}
    for case in record.cases:
        if case.status == "not_evaluated" and case.gates:
            groups.setdefault(explain_not_evaluated(case), []).append(format_case_name(case))
    return [
        NamedCases(why, tuple(names[:most]), len(names) - len(names[:most])) for why, names in groups.items()
    ]


def list_flaky_cases(record: Record) -> list[tuple[str, str]]:
    """Return the gating cases with both passed and failed runs, as (name, sentence)."""
    return [
        (format_case_name(case), f"{passed} of {runs} runs passed")
        for case, passed, runs in find_flaky_cases(record)
    ]


def describe_run_totals(record: Record) -> Iterator[str]:
    """Yield texts with the numbers of cases and runs, and with time, tokens and cost of the whole run.

    The number of runs is left out if `format_run_counts` returns "". Tokens and cost of 0 are left out.
    """
    totals = record.totals
    yield format_case_counts(totals)
    if runs := format_run_counts(record):
        yield runs
    yield f"{record.duration_s:,.1f} s"
    if totals.input_tokens or totals.output_tokens:
        yield f"{totals.input_tokens:,} + {totals.output_tokens:,} tokens"
    if cost := format_total_cost(record):
        yield cost


@frozen
class ExemptCase:
    """A case that does not gate. `name` and `reason` may hold any characters, so reports escape both."""

    name: str
    status: str
    """Status in words, such as `failed (2 of 3 runs passed)`."""
    reason: str
    """Reason why the case does not gate: `until 2026-12-31, anna: the search index moves`, or
    `observed, not reviewed yet`."""


def list_exempt_cases(record: Record) -> Iterator[ExemptCase]:
    """Yield the cases that do not gate (quarantined or observed), in the order of the record."""
    for case in record.cases:
        if not case.gates:
            reason = explain_exemption(case).removeprefix(_QUARANTINED)
            yield ExemptCase(f"{case.eval_set_id}/{case.eval_id}", _format_status(case), reason)


def build_exempt_title(record: Record) -> str:
    """Return the title of the cases that do not gate, such as `Quarantined or observed`."""
    quarantined = any(case.quarantine is not None for case in record.cases)
    observed = any(case.quarantine is None and case.observed for case in record.cases)
    return (
        "Quarantined or observed" if quarantined and observed else "Observed" if observed else "Quarantined"
    )


def _format_status(case: CaseResult) -> str:
    """Return the status of a case in words, such as `failed (2 of 3 runs passed)`."""
    passed, runs = count_passed_runs(case)
    how_often = f" ({passed} of {runs} runs passed)" if 0 < passed < runs else ""
    return f"{STATUSES[case.status]}{how_often}"


_QUARANTINED = "quarantined "


def explain_exemption(case: CaseResult) -> str:
    """Return the reason why a case does not gate, such as `quarantined until …`; "" if it gates."""
    if about := case.quarantine:
        return f"{_QUARANTINED}until {about.expires}, {about.owner}: {about.reason}"
    if not case.observed:
        return ""
    return f"observed, not reviewed yet{f' (trace: {case.source})' if case.source else ''}"


@frozen
class RecordSummary:
    """Everything that a report shows above the cases.

    `more_metrics` and the other fields `more_…` are the numbers of entries that are left out.
    """

    headline: str
    reasons: tuple[str, ...]
    """All reasons of the verdict that the headline does not contain; each report limits their number."""
    metrics: list[MetricLine]
    more_metrics: int
    comparisons: list[tuple[str, str]]
    """Statistical findings about metrics, each as (label, sentence)."""
    baseline: "BaselineLine | None"
    no_baseline: str
    """Sentences to show if `baseline` is None."""
    changes: list[NamedCases]
    flaky: list[tuple[str, str]]
    """Cases with both passed and failed runs, as (name, sentence)."""
    more_flaky: int
    unjudged: list[NamedCases]
    """Cases that could not be evaluated, by reason."""
    more_unjudged: int
    exempt_title: str
    """The title above the cases that do not gate: `Quarantined`, `Observed` or `Quarantined or observed`."""
    exempt: list[ExemptCase]
    more_exempt: int

    @property
    def has_noise(self) -> bool:
        """Return True if a row of the metric table has noise, the change that luck alone causes."""
        return any(line.has_noise for line in self.metrics)

    @property
    def has_trend(self) -> bool:
        """Return True if a metric has a sparkline."""
        return any(line.trend for line in self.metrics)


def summarize_record(record: Record, *, metrics: int, names: int, exempt: int) -> RecordSummary:
    """Return the summary of a record with a limited number of entries of each kind.

    The summary has at most `metrics` metrics, at most `exempt` cases that do not gate, and at most `names`
    names in each list of other cases.
    """
    headline, reasons = build_headline(record)
    flaky, unjudged = list_flaky_cases(record), list_unjudged_cases(record, names)
    not_gating = list(list_exempt_cases(record))
    baseline, changes = _summarize_baseline(record, names)
    return RecordSummary(
        headline=headline,
        reasons=reasons,
        metrics=[build_metric_line(metric, record.anchor) for metric in record.metrics[:metrics]],
        more_metrics=max(0, len(record.metrics) - metrics),
        comparisons=list(islice(describe_comparisons(record), metrics)),
        baseline=baseline,
        no_baseline=describe_missing_baseline(record),
        changes=changes,
        flaky=flaky[:names],
        more_flaky=max(0, len(flaky) - names),
        unjudged=unjudged[:names],
        more_unjudged=max(0, len(unjudged) - names),
        exempt_title=build_exempt_title(record),
        exempt=not_gating[:exempt],
        more_exempt=max(0, len(not_gating) - exempt),
    )


def _summarize_baseline(record: Record, names: int) -> "tuple[BaselineLine | None, list[NamedCases]]":
    """Return (texts about the baseline, changed cases); (None, []) without a baseline.

    `names` is the largest number of names for each kind of change.
    """
    if record.comparison is None:
        return None, []
    from evalgate.reporting.baseline_lines import build_baseline_line, list_changed_cases

    return build_baseline_line(record), list(list_changed_cases(record, names))

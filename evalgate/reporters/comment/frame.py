"""Everything in the comment but the failing cases: verdict, metrics, what changed, totals."""

import re
from collections.abc import Iterator
from itertools import islice

from evalgate.hostile import md_code, md_text
from evalgate.model import Record
from evalgate.reporters.comment.markdown import Markdown, render
from evalgate.telling.findings import beside_baseline, without_baseline
from evalgate.telling.headline import (
    HEADLINES,
    SYMBOLS,
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

_SPLIT = "\0"
_NOT_IN_KEY = re.compile(r"[^A-Za-z0-9._/]+")


def render_frame(record: Record, key: str, size: int, *, is_trusted: bool, has_page: bool) -> tuple[str, str]:
    """What stands before and after the failing cases; lists hold at most `size` entries of each kind."""
    words, reasons = headline(record)
    metrics = [metric_line(metric) for metric in record.metrics[: 3 * size]]
    baseline = baseline_line(record)
    changes = list(changed_cases(record, size))
    unjudged = unjudged_cases(record, size)
    flipping, judgements = flaky_cases(record), list(islice(beside_baseline(record), 3 * size))
    text = render(
        "comment.md.j2",
        key=Markdown(_NOT_IN_KEY.sub("-", key)[:100] or "default"),
        symbol=Markdown(HEADLINES[record.verdict.status][0]),
        headline=words,
        reasons=reasons[:size],
        more_reasons=max(0, len(reasons) - size),
        metrics=[(Markdown(SYMBOLS[line.status]), line, Markdown(line.delta)) for line in metrics],
        has_noise=any(line.has_noise for line in metrics),
        has_trend=any(line.trend for line in metrics),
        more_metrics=max(0, len(record.metrics) - 3 * size),
        baseline=baseline,
        no_baseline=without_baseline(record),
        is_run=bool(record.cases or record.metrics),
        notices=record.notices[:size],
        unjudged=unjudged[:size],
        more_unjudged=max(0, len(unjudged) - size),
        resting=list(islice(resting(record), 3 * size)),
        more_resting=max(0, sum(1 for _ in resting(record)) - 3 * size),
        is_trusted=is_trusted,
        has_page=has_page,
        changes=changes,
        flaky=flipping[:size],
        more_flaky=max(0, len(flipping) - size),
        judgements=judgements,
        has_list=changes or flipping or judgements or (baseline and baseline.took),
        cases=Markdown(_SPLIT),
        totals=Markdown(_totals(record)),
    )
    before, _, after = text.partition(_SPLIT)
    return before, after


def _totals(record: Record) -> str:
    return " · ".join(_facts(record))


def _facts(record: Record) -> Iterator[str]:
    yield from facts(record)
    if record.judge is not None:
        yield md_text(judge_use(record.judge))
    if record.agent.kind:
        yield f"agent {md_code(f'{record.agent.kind}:{record.agent.what}', 100)}"
    yield md_text(made_at(record), 40)
    yield md_text(f"evalgate {record.evalgate_version}", 60)

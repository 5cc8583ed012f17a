"""What a reader should know of the models that judged."""

from collections.abc import Iterator

from evalgate.judge.health import agreement_told
from evalgate.model import JudgeTotals, Record
from evalgate.numbers import counted
from evalgate.telling.findings import metric_label


def agreements(record: Record) -> Iterator[str]:
    """How far the judge agrees with itself, metric by metric."""
    for metric in record.metrics:
        if told := agreement_told(metric.agreement):
            yield f"{metric_label(metric)}: {told}"


def judge_use(totals: JudgeTotals) -> str:
    """`12 judge calls (3,400 tokens, $0.02), 8 spared by the cache`."""
    return f"{counted(totals.calls, 'judge call')}{_used(totals)}, {totals.spared:,} spared by the cache"


def _used(totals: JudgeTotals) -> str:
    if not totals.calls:
        return ""
    tokens = counted(totals.input_tokens + totals.output_tokens, "token")
    cost = _usd(totals.cost_usd) if totals.calls > totals.unpriced else "cost unknown"
    if totals.unpriced and totals.calls > totals.unpriced:
        cost += f" and the unknown cost of {counted(totals.unpriced, 'call')}"
    return f" ({tokens}, {cost})"


def _usd(cost: float) -> str:
    """With two decimals, or as many as it takes to be more than nothing."""
    return f"${cost:,.2f}" if cost >= 0.01 or not cost else f"${cost:.1g}"

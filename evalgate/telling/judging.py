"""What a reader should know of the models that judged."""

from evalgate.model import JudgeTotals
from evalgate.numbers import counted


def judge_use(totals: JudgeTotals) -> str:
    """`12 judge calls (3,400 tokens, $0.02), 8 spared by the cache`."""
    return f"{counted(totals.calls, 'judge call')}{_used(totals)}, {totals.spared:,} spared by the cache"


def _used(totals: JudgeTotals) -> str:
    if not totals.calls:
        return ""
    tokens = counted(totals.input_tokens + totals.output_tokens, "token")
    cost = f"${totals.cost_usd:,.2f}" if totals.calls > totals.unpriced else "cost unknown"
    if totals.unpriced and totals.calls > totals.unpriced:
        cost += f" and the unknown cost of {counted(totals.unpriced, 'call')}"
    return f" ({tokens}, {cost})"

"""Format the result of `evalgate plan` as text for the terminal."""

from collections.abc import Iterator, Sequence

from evalgate.cli.power_report import PowerPlan, RunsSettingCost
from evalgate.core.formatting import format_limit, format_money, format_score, pluralize
from evalgate.core.sanitize import to_log_line
from evalgate.runner.cost_estimate import format_time, format_tokens


def format_power_plan(plan: PowerPlan) -> str:
    """Format the plan as text for the terminal, ending in a newline."""
    return "".join(f"{line}\n" for line in _iter_lines(plan))


def _iter_lines(plan: PowerPlan) -> Iterator[str]:
    if plan.stored_runs is not None:
        low, high = plan.stored_runs
        runs = f"{low} to {pluralize(high, 'stored run')}" if low != high else pluralize(low, "stored run")
        yield f"Planned for {pluralize(plan.cases, 'case')} from {to_log_line(plan.source)}, {runs} of a case"
    else:
        yield f"Planned for {pluralize(plan.cases, 'case')} without a baseline"
    for each in plan.metrics:
        yield ""
        yield (
            f"{to_log_line(each.metric, 80)}: {format_score(each.average)} on average, `max_regression` "
            f"{format_limit(each.max_regression)}"
        )
        rows = [
            (
                design.runs,
                "–" if design.smallest_drop is None else _format_small_drop(design.smallest_drop),
                "–" if design.cases is None else f"{design.cases:,}",
            )
            for design in each.designs
        ]
        wanted = f"cases to catch {format_limit(each.drop)}"
        yield from _format_table(("runs", f"smallest drop caught {plan.power:.0%}", wanted), rows)
    yield ""
    yield f"Cost of a gate run, {plan.concurrency} conversations at a time"
    header = ("runs", "runs of the agent", "tokens", "money", "time")
    yield from _format_table(header, [_build_cost_row(each) for each in plan.costs])
    yield ""
    for sentence in (*plan.advice, *plan.assumptions):
        yield f"- {to_log_line(sentence, 500)}"


def _format_small_drop(drop: float) -> str:
    """Format a drop with three decimals, or with more decimals for a metric with a narrow range."""
    return max(f"{drop:.3f}", format_limit(drop), key=len)


def _build_cost_row(cost: RunsSettingCost) -> tuple[str, ...]:
    low, high = cost.agent_runs
    time = None if cost.minutes is None else [format_time(60 * each) for each in cost.minutes]
    return (
        cost.runs,
        _join_bounds([f"{low:,}", f"{high:,}"]),
        _join_bounds(None if cost.tokens is None else list(map(format_tokens, cost.tokens))),
        _join_bounds(None if cost.usd is None else list(map(format_money, cost.usd))),
        _join_bounds(time),
    )


def _join_bounds(bounds: Sequence[str] | None) -> str:
    if bounds is None:
        return "unknown"
    return bounds[0] if bounds[0] == bounds[1] else " to ".join(bounds)


def _format_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        first, *others = (
            text.ljust(width) if at == 0 else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(("", first, *others)).rstrip()

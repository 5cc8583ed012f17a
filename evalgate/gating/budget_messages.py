"""Describe in sentences how a budget (cost, latency or a count) compares with the baseline and its limits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalgate.core.formatting import (
    format_figure,
    format_score,
    format_scores,
    pluralize,
    round_to_limit,
    to_sentence,
)
from evalgate.core.means import compute_mean
from evalgate.core.types import RatioEstimate, ThresholdEstimate
from evalgate.statistics.metric_decisions import MetricDecision

if TYPE_CHECKING:
    from evalgate.gating.verdict_messages import MessageContext

_NOUNS = {"cost_usd": "cost", "latency_s": "latency"}


def describe_growth(
    metric: str, ratio: RatioEstimate | None, growth: MetricDecision, context: "MessageContext"
) -> str:
    """Return the sentences about the increase of a budget since the baseline.

    `metric` is the budget's name, such as `budget/tokens`. `ratio` compares the figures now with the stored
    figures; None if nothing could be compared. `growth` is the decision on the increase.
    """
    from evalgate.gating.verdict_messages import format_odds, suggest_more_runs

    if ratio is None or growth.change is None:
        return "No baseline for these figures yet, or no run that passed on both sides; nothing compared."
    own, change = metric.partition("/")[2], growth.change
    noun = _NOUNS.get(own, own.replace("_", " "))
    ratios_found = (round_to_limit(each, ratio.max) for each in (ratio.value, ratio.low, ratio.high))
    value, low, high, limit = format_scores(tuple(ratios_found), ratio.max)
    ratios = f"× {value} ({low} to {high})"
    size = f"over {pluralize(change.cases, 'case')} × {pluralize(growth.rounds, 'run')}"
    found = f"{noun} {ratios} {size}"
    odds = f"luck alone would do this {format_odds(change.p)}"
    most = f"less than × {limit}" if ratio.max > 1 else "no increase"
    power = f"Increases to about × {format_score(ratio.notice)} or more are caught reliably."
    more = suggest_more_runs(growth, context)
    sentences = {
        "average_fell": f"{noun} {ratios}, more than luck, {size}; {most} is allowed. {to_sentence(odds)}",
        "exact_fell": f"{found}; {most} is allowed. The agent is declared deterministic.",
        "noisy_drop": f"Can't tell: {found}, but {odds}. {more}",
        "unproven": f"Not proven: {found}; {most} is allowed. {more}",
        "likely_luck": f"Passed: {found}, but {odds}. {power}",
        "small_drop": f"Passed: {found}, a small real increase; {most} is allowed.",
        "proven": f"Within the allowance: {found}; {most} is allowed.",
        "unchanged": f"No change: {noun} as on {context.base_branch} in every case.",
        "better": f"Less than on {context.base_branch}: {found}, too much to be luck.",
    }
    return sentences.get(growth.reason, f"No sign of an increase: {found}. {power}")


def describe_cost_from_zero(figures: Sequence[float], context: "MessageContext") -> str:
    """Return the sentences about cases that cost 0 in the baseline; `figures` are their mean costs now."""
    it, has = ("it", "has") if len(figures) == 1 else ("they", "have")
    return (
        f"Can't tell: {pluralize(len(figures), 'case')} cost nothing on {context.base_branch}, and "
        f"{format_figure(compute_mean(figures))} on average now, so that {it} {has} no ratio. Limit the cost "
        "with `max`, or accept it with `evalgate baseline accept`."
    )


def describe_left_out(left_out: tuple[int, int]) -> str:
    """Return a sentence about runs that are not compared because they did not pass; "" without such runs.

    `left_out` is (number of such runs now, number of such runs in the baseline).
    """
    now, then = left_out
    if not (now or then):
        return ""
    stored = f", and {pluralize(then, 'run')} of the baseline" if then and now else ""
    first = pluralize(now, "run") if now else f"{pluralize(then, 'run')} of the baseline"
    return f"Not compared, because they missed another metric: {first}{stored}."


def describe_unknown_figures(cases: int) -> str:
    """Return a sentence about cases that are not compared, because they have no figure now.

    `cases` is the number of these cases. All of them have a figure in the baseline.
    """
    them = pluralize(cases, "case")
    return f"Not compared, because they have a figure in the baseline and none now: {them}."


def describe_percentile(
    found: ThresholdEstimate | None, runs: int, needed: int, limit: float, alpha: float
) -> str:
    """Return the sentence about the 95th percentile of a budget's figures.

    Args:
        found: The comparison with the limit; None: there are too few runs.
        runs: Number of runs with a figure.
        needed: Fewest runs from which bounds of the percentile can be computed.
        limit: Largest allowed figure.
        alpha: Chance that a bound of the percentile is wrong.
    """
    if found is None:
        return (
            f"p95 is not applicable: {needed} runs with a figure are needed to bound it, not {runs}. "
            "Raise `runs`, or use `max`."
        )
    numbers = (found.value, limit, found.low, found.high)
    value, most, low, high = (format_figure(number, beside=numbers) for number in numbers)
    interval = f"{low} to {high}"
    size = f"over {pluralize(runs, 'run')}"
    if found.verdict == "fail":
        return f"p95 is {value} ({interval}) {size}, above the allowed {most}, more than luck."
    if found.value > limit:
        return f"p95 is {value} {size}, above the allowed {most}, which luck may explain ({interval})."
    if found.verdict == "inconclusive":
        return f"p95 is {value} {size}, within {most}, but not proven to be ({interval})."
    return f"p95 is {value} {size}, within {most} (at most {high} at {1 - alpha:.0%})."

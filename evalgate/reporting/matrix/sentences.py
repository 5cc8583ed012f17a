"""Sentences and figures for all reports of a matrix, which compares variants of an agent."""

from collections.abc import Iterator, Sequence

from evalgate.core.formatting import format_figure, format_score, pluralize
from evalgate.core.frozen import frozen
from evalgate.gating.variant_matrix import (
    UsageFigure,
    VariantCase,
    VariantComparison,
    VariantFigures,
    VariantMatrix,
)
from evalgate.statistics.variant_comparison import UsageRatio, VariantScore

_WORDS: dict[UsageFigure, tuple[str, str, str]] = {
    "cost": ("{} times cheaper", "{} times as expensive", "cost"),
    "tokens": ("{} times fewer tokens", "{} times as many tokens", "tokens"),
    "duration": ("{} times faster", "{} times slower", "time"),
}


@frozen
class MatrixTable:
    """Table of the variants as texts."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """Cells of each row. The first cell is the name of the variant."""


def build_table(matrix: VariantMatrix) -> MatrixTable:
    """Return a header, and a row of figures for each variant: passed runs, scores, cost, tokens and time.

    Cost, tokens and time have no column if they are known for no variant.
    """
    metrics = list(dict.fromkeys(name for row in matrix.variants for name in row.scores))
    figures: list[tuple[UsageFigure, str]] = [("cost", "cost"), ("tokens", "tokens"), ("duration", "time")]
    shown = [
        (figure, title)
        for figure, title in figures
        if any(row.usage.get(figure) is not None for row in matrix.variants)
    ]
    header = (
        "variant",
        "runs passed",
        *((f"pass^{matrix.runs}",) if matrix.runs > 1 else ()),
        *metrics,
        *(title for _, title in shown),
    )
    rows = tuple(
        (
            row.name,
            f"{row.passed}/{row.runs}",
            *(("–" if row.pass_k is None else f"{row.pass_k:.0%}",) if matrix.runs > 1 else ()),
            *(format_score(row.scores.get(name)) for name in metrics),
            *(_format_usage(row, figure) for figure, _ in shown),
        )
        for row in matrix.variants
    )
    return MatrixTable(header, rows)


def _format_usage(row: VariantFigures, figure: UsageFigure) -> str:
    value = row.usage.get(figure)
    if value is None:
        return "–"
    if figure == "cost":
        return f"${format_figure(value)}" if 0 < value < 0.1 else f"${value:,.2f}"
    return f"{value:,.0f}" if figure == "tokens" else f"{value:.2f} s"


def build_headline(matrix: VariantMatrix) -> str:
    """Return the number of variants, cases and runs as one line."""
    made = sum(runs for case in matrix.cases for _, runs in case.passed.values())
    planned = sum(row.planned for row in matrix.variants)
    runs = pluralize(planned, "run") if made == planned else f"{made:,} of {pluralize(planned, 'run')}"
    return f"{len(matrix.variants)} variants, {pluralize(len(matrix.cases), 'case')}, {runs}"


def describe_comparison(comparison: VariantComparison) -> Iterator[str]:
    """Yield a sentence about each metric, then a sentence about cost, tokens and time.

    If no metric can be compared, the first sentence says so. Cost, tokens or time are left out if every case
    has the same figure in both variants.
    """
    for metric, score in comparison.scores.items():
        yield f"{metric}{_describe_score(score)}."
    if not comparison.scores:
        yield "No metric can be compared: no case has scores of both."
    # A ratio that is exactly 1, with bounds of 1, is left out: every case has the same figure in both.
    found = [
        _describe_ratio(figure, ratio)
        for figure, ratio in comparison.ratios.items()
        if ratio.low < ratio.high or ratio.value != 1
    ]
    if found:
        sentence = "; ".join(found)
        yield f"{sentence[0].upper()}{sentence[1:]}."


def _describe_score(score: VariantScore) -> str:
    now = format_score(score.score, beside=score.reference)
    then = format_score(score.reference, beside=score.score)
    between = f"{_format_points(-score.high)} to {_format_points(-score.low)} points"
    limit = f"{100 * score.max_drop:g} points"
    if score.conclusion == "better":
        return f" is better: {now} instead of {then} ({between})"
    if score.conclusion == "worse":
        ending = f", but not by {limit} or more" if score.is_within_limit else ""
        return f" is worse: {now} instead of {then} ({between}){ending}"
    if score.conclusion == "not_worse":
        most = f"at most {100 * score.high:.1f}" if score.high > 0 else "not at all"
        return f" is not worse by {limit} or more ({most})"
    return f": can't tell ({between}){_describe_need(score)}"


def _describe_need(score: VariantScore) -> str:
    if score.needed_runs is None:
        return ": more runs would hardly tell, more cases may"
    return (
        f": about {pluralize(score.needed_runs, 'run')} of each case, or "
        f"{pluralize(score.needed_cases or 0, 'case')}, would tell if the difference is as measured"
    )


def _format_points(share: float) -> str:
    points = round(100 * share, 1)
    return f"{'+' if points > 0 else '−' if points < 0 else '±'}{abs(points):.1f}"


def _describe_ratio(figure: UsageFigure, ratio: UsageRatio) -> str:
    less, more, noun = _WORDS[figure]
    if ratio.high < 1:
        bounds = f"{_format_times(1 / ratio.high)} to {_format_times(1 / ratio.low)}"
        return f"{less.format(_format_times(1 / ratio.value))} ({bounds})"
    bounds = f"{_format_times(ratio.low)} to {_format_times(ratio.high)}"
    if ratio.low > 1:
        return f"{more.format(_format_times(ratio.value))} ({bounds})"
    return f"no difference in {noun} shown ({bounds} times)"


def _format_times(value: float) -> str:
    if value >= 1_000:
        return "over 1,000"
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 1.95 else f"{value:.2f}"


def describe_outcome(matrix: VariantMatrix) -> Iterator[str]:
    """Yield sentences that name the preferable variant, and state whether fresh runs confirm this result.

    If no variant is preferable, the sentence says so. Missing runs are named first.
    """
    if matrix.shortfall:
        yield matrix.shortfall
    reference = matrix.reference.name
    if not matrix.winner:
        yield f"No variant is shown to be preferable to {reference}."
        return
    if matrix.shortfall:
        yield (
            f"By the runs that were made, {matrix.winner} is preferable to {reference}. Choose by a matrix "
            "without missing runs."
        )
        return
    if matrix.confirmation is None:
        yield (
            f"{matrix.winner} is preferable to {reference}. It was chosen by these runs, so its figures are "
            "too good on average: `--confirm` measures both with fresh runs."
        )
        return
    if matrix.confirmation.shortfall:
        yield f"{matrix.confirmation.shortfall} So {matrix.winner} is not confirmed by fresh runs."
    elif matrix.confirmation.winner == matrix.winner:
        yield f"Fresh runs confirm that {matrix.winner} is preferable to {reference}; only they count."
    else:
        yield (
            f"Fresh runs do not confirm that {matrix.winner} is preferable to {reference}; only they count."
        )


def list_disagreements(matrix: VariantMatrix) -> Sequence[VariantCase]:
    """Return the cases in which the variants have different shares of passed runs."""
    return [case for case in matrix.cases if case.spread > 0]


def format_counts(counts: tuple[int, int]) -> str:
    """Return `2/3` for (2 passed runs, 3 runs); `–` if no run was made."""
    passed, runs = counts
    return f"{passed}/{runs}" if runs else "–"


NO_GATE = "A matrix measures. It is no gate, and its runs are never a baseline."

"""Result of `evalgate matrix`: variants of an agent on the same cases, compared with the first variant."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.types import AgentInfo
from evalgate.statistics.variant_comparison import UsageRatio, VariantScore

SCHEMA_VERSION = 1

UsageFigure: TypeAlias = Literal["cost", "tokens", "duration"]


@frozen
class VariantFigures:
    """One variant with its figures, a row of the table.

    Means are over the cases of which every variant has a run.
    """

    name: str
    values: Mapping[str, str]
    """Maps the name of each varied setting, such as `env.MODEL`, to its value in this variant."""
    results: str
    """Path of the variant's `results.json`, relative to the file of the matrix."""
    runs: int
    """Number of runs that ended in a pass or a failure."""
    planned: int
    """Number of planned runs."""
    passed: int
    """Number of runs that passed."""
    pass_k: float | None
    """Estimated chance, averaged over the cases, that k runs of a case all pass. k is the number of planned
    runs of each case; None if a case has fewer runs."""
    scores: Mapping[str, float | None]
    """Mean score of each metric, by the name of the metric; None without a score."""
    usage: Mapping[UsageFigure, float | None]
    """Mean cost (USD), tokens and duration (seconds) of a run. A mean is None if any run lacks the figure."""


@frozen
class VariantComparison:
    """Comparison of one variant with the reference, the first variant: scores and usage."""

    variant: str
    scores: Mapping[str, VariantScore]
    ratios: Mapping[UsageFigure, UsageRatio]


@frozen
class VariantCase:
    """Results of one case in every variant."""

    eval_set_id: str
    eval_id: str
    passed: Mapping[str, tuple[int, int]]
    """Maps the name of a variant to (number of passed runs, number of passed and failed runs)."""
    spread: float
    """Share of passed runs of the best variant minus that of the worst variant, 0 to 1."""


@frozen
class VariantMatrix:
    """Result of `evalgate matrix`: variants of an agent, run on the same cases and compared. No verdict."""

    created_at: str
    """Time when the runs began: ISO 8601, UTC."""
    duration_s: float
    agent: AgentInfo
    runs: int
    """Number of planned runs of each case with each variant."""
    variants: tuple[VariantFigures, ...]
    """Figures of each variant; the first variant is the reference."""
    comparisons: tuple[VariantComparison, ...]
    """Comparison of each other variant with the reference, in the order of `variants`."""
    cases: tuple[VariantCase, ...]
    """All cases, those with the largest spread first; cases with equal spread are in file order."""
    winner: str = ""
    """Name of the variant to take, by the rules of docs/matrix.md; "" if no variant is shown to be better."""
    shortfall: str = ""
    """Reason why runs are missing, as a sentence; "" if all runs were made."""
    notices: tuple[str, ...] = ()
    confirmation: "VariantMatrix | None" = None
    """Matrix of fresh runs of the reference and the winner; None if not requested, or without a winner."""
    evalgate_version: str = ""
    schema_version: int = SCHEMA_VERSION

    @property
    def reference(self) -> VariantFigures:
        """Return the row of the first variant, with which all other variants are compared."""
        return self.variants[0]


def choose_winner(rows: Sequence[VariantFigures], comparisons: Sequence[VariantComparison]) -> str:
    """Return the name of the variant to take instead of the reference; "" if no variant is preferable.

    1. If some variants are better than the reference in a metric and worse in none, take the one with the
       largest share of passed runs.
    2. Otherwise, if some variants are shown to cost less and to be worse in no metric, take the variant that
       costs least.
    """
    figures = {row.name: row for row in rows}

    def compute_pass_share(each: VariantComparison) -> float:
        row = figures[each.variant]
        return row.passed / row.runs if row.runs else 0.0

    judged = [each for each in comparisons if each.scores]
    better = [
        each
        for each in judged
        if any(score.conclusion == "better" for score in each.scores.values())
        and not any(score.conclusion == "worse" for score in each.scores.values())
    ]
    if better:
        return max(better, key=compute_pass_share).variant
    cheaper = [
        each
        for each in judged
        if all(score.is_within_limit for score in each.scores.values())
        and "cost" in each.ratios
        and each.ratios["cost"].high < 1
    ]
    return min(cheaper, key=lambda each: each.ratios["cost"].value).variant if cheaper else ""

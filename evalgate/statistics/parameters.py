"""Parameters of the statistical tests.

The gate uses none of the defaults in this module: `build_statistical_policy` (`gating/statistical_policy.py`)
sets every field. The defaults describe the procedure of the conformance test vectors.
"""

from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen

Require: TypeAlias = Literal["guard", "proof"]
"""`guard`: an agent fails if it is shown to be worse. `proof`: an agent passes only if it is shown not to be
worse."""

EPSILON = 1e-9
"""Largest difference at which a drop counts as equal to its limit; it covers rounding errors of averages."""

P_EPSILON = 1e-12
"""Largest difference at which a p counts as equal to its level; it covers rounding errors of p values."""


@frozen
class PassKRule:
    """Minimum for pass^k, the chance that k runs of a case all pass."""

    k: int
    """Number of runs, 1 or more, that must all pass."""
    minimum: float
    """Lowest allowed pass^k, between 0 and 1."""
    pass_score: float = 1.0
    """Lowest score with which a run passes."""


@frozen
class MetricRule:
    """Requirements that the gate makes of one metric."""

    max_drop: float | None = 0.05
    """Smallest drop of the average that is too large, 0 to 1; None: the metric is not compared with the
    baseline."""
    require: Require = "guard"
    min_score: float | None = None
    """Lowest allowed average, with which the interval of the average is compared. None: the metric has no
    minimum, or its minimum is compared without an interval, outside of this package."""
    reliability: PassKRule | None = None
    is_figure: bool = False
    """True: the scores are measured figures, such as tokens, converted to shares (`LogShares`). Intervals
    may exceed the range of scores, and only the average is judged, no single case."""

    @property
    def judges_cases(self) -> bool:
        """Return True if the drop of a single case can close the gate."""
        return self.max_drop is not None and not self.is_figure


@frozen
class Parameters:
    """Parameters that all metrics of a gate share."""

    alpha: float = 0.05
    """Largest chance that the average of at least one metric fails if nothing changed; one-sided."""
    averages_share: float = 1.0
    """Share of `alpha` for the averages, 0 to 1. The gate uses less than 1, because single cases can close
    the gate, too."""
    doubt: float = 1.0
    """Level that all metrics share for drops of `max_drop` or more that do not fail.

    Such a drop is inconclusive if its p is at most this level. With a larger p it passes as luck, with two
    exceptions: proof is required, or even the largest possible drop would have a larger p. Then it is
    inconclusive, too. 1: every such drop is inconclusive.
    """
    runs: int | None = None
    """Number of runs of every case; None: `runs: auto`, which makes rounds of one run of every case until it
    can decide."""
    min_runs: int = 1
    """Fewest rounds of `runs: auto`, at most `max_runs`. For pass^k it must be k or more."""
    max_runs: int = 5
    """Largest number of rounds of `runs: auto`, at least 1."""
    case_alpha: float = 0.02
    """Largest chance that at least one unchanged case of the suite is called broken."""
    case_drop: float = 0.25
    """Smallest drop of the mean of one case that counts as a fall of this case."""
    confirm_runs: int = 10
    """Largest number of runs of a case that fell. With fixed `runs` and without `follow_up`, the limit is
    `runs` instead."""
    follow_up: bool = False
    """True: a case that fell gets up to `confirm_runs` runs. With fixed `runs`, the averages do not use its
    further runs. False: with fixed `runs`, no case gets further runs; with `runs: auto`, a case that fell
    gets at most as many runs as confirm a break if all of them score 0."""
    fail_fast: bool = True
    """True: no further round follows once a case is confirmed broken. False: rounds go on as planned."""
    futility: float = 0.0
    """Chance up to which further rounds are futile: `runs: auto` stops if the chance that the drop still
    reaches `max_drop` is this or less. 0: it goes on while the drop is at least half of `max_drop`."""
    deterministic: bool = False
    """True: the agent is declared to answer the same each time. Metrics with equal scores in all runs of each
    case are then compared without statistics."""
    max_missing: float = 0.10
    """Largest share of the planned runs that may lack a score; above it the metric is inconclusive."""
    baseline_keep: int = 20
    """Number of newest baseline runs of each case that are used."""
    pass_score: float = 1.0
    """Lowest score of a run that counts as passed in messages about its case."""
    fdr: float = 0.10
    """Expected share of unchanged cases among the cases that `find_discoveries` names (false discovery
    rate)."""

    @property
    def first_runs(self) -> int:
        """Return the number of runs that every case gets before any result is known."""
        return self.min_runs if self.runs is None else self.runs

    @property
    def follow_up_limit(self) -> int | None:
        """Return the largest number of runs of a case that fell, or None without `follow_up`.

        With None, a case gets at most as many runs as confirm a break if all of them score 0.
        """
        return self.confirm_runs if self.follow_up else None


def is_within_level(p: float, level: float) -> bool:
    """Return True if p is at most the level; rounding errors are tolerated."""
    return p <= level + P_EPSILON

"""Parameters of the statistical tests.

The defaults describe the procedure of the conformance vectors, without the additions of the gate. The gate
uses none of these defaults: `gating/statistical_policy.py: build_statistical_policy` sets every field.
"""

from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen

Require: TypeAlias = Literal["guard", "proof"]
"""`guard`: an agent fails if it is shown to be worse. `proof`: an agent passes only if it is shown not to be
worse."""

EPSILON = 1e-9
"""Largest difference at which a drop counts as equal to its limit: averages are sums of rounded terms."""

P_EPSILON = 1e-12
"""Largest difference at which a p counts as equal to its level: p-values are sums of rounded terms."""


@frozen
class PassKRule:
    """Minimum for pass^k, the chance that k runs of a case all pass."""

    k: int
    """At least 1."""
    minimum: float
    """Between 0 and 1."""
    pass_score: float = 1.0
    """Lowest score of a run that passes."""


@frozen
class MetricRule:
    """Requirements of one gating metric."""

    max_drop: float | None = 0.05
    """Smallest drop of the average that is too large, 0 to 1; None: the metric is not compared with the
    baseline."""
    require: Require = "guard"
    min_score: float | None = None
    """Lowest allowed average, compared by its interval. None: the metric has no minimum, or its minimum is
    compared without an interval, outside this package."""
    reliability: PassKRule | None = None
    is_figure: bool = False
    """True: the scores are figures of a budget, converted to shares (`budget_figures.LogShares`). Their
    intervals may exceed the range of scores, and only their average is judged, no single case."""

    @property
    def judges_cases(self) -> bool:
        """Return True if the drop of a single case can close the gate."""
        return self.max_drop is not None and not self.is_figure


@frozen
class Parameters:
    """Parameters shared by all gating metrics of a run."""

    alpha: float = 0.05
    """Largest chance that at least one unchanged average fails, one-sided, over all gating metrics."""
    averages_share: float = 1.0
    """Share of `alpha` for the averages, 0 to 1. In a gate run it is below 1, because single cases can close
    the gate, too."""
    doubt: float = 1.0
    """Level for doubt, which the metrics share. A drop of `max_drop` or more that does not fail is
    inconclusive if its p is at most this level. With a larger p it passes, unless proof is required. 1: every
    such drop is inconclusive."""
    runs: int | None = None
    """Runs of every case; None: AUTO, which makes rounds of one run of every case (`auto_runs`)."""
    min_runs: int = 1
    """Fewest rounds of AUTO, at most `max_runs`: from fewer than k runs, pass^k cannot be estimated."""
    max_runs: int = 5
    """Most rounds of AUTO, at least 1."""
    case_alpha: float = 0.02
    """Largest chance that at least one unchanged case of the suite is called broken."""
    case_drop: float = 0.25
    """Smallest drop of the mean of one case that is reported."""
    confirm_runs: int = 10
    """Most runs of a case that fell. Without `follow_up`, fixed `runs` are the limit instead."""
    follow_up: bool = False
    """True: cases that fell get up to `confirm_runs` runs, also with fixed `runs`; the averages use the fixed
    runs alone. False: with AUTO a case that fell gets just as many runs as confirm a break if all of them
    score 0."""
    fail_fast: bool = True
    """True: AUTO stops at a case that is confirmed broken, instead of measuring the average further."""
    futility: float = 0.0
    """Chance up to which a further measurement is futile: AUTO stops if the chance that the drop reaches
    `max_drop` in the remaining rounds is not larger. 0: AUTO goes on while the drop is at least half of
    `max_drop`."""
    deterministic: bool = False
    """True: the agent is declared to answer the same each time, so scores are compared without statistics."""
    max_missing: float = 0.10
    """Share of the planned runs that may lack a score."""
    baseline_keep: int = 20
    """Newest baseline runs that are used per case."""
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
        """Return the most runs of a case that fell; None: as many as confirm a break if all score 0."""
        return self.confirm_runs if self.follow_up else None


def is_within_level(p: float, level: float) -> bool:
    """Return True if p is at most the level, rounding errors aside."""
    return p <= level + P_EPSILON

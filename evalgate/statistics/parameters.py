"""Parameters of the statistics. The defaults are the recommended procedure."""

from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen

Require: TypeAlias = Literal["guard", "proof"]
"""`guard` stops an agent that is shown to be worse; `proof` lets an agent pass only if it is shown not to
be worse."""

EPSILON = 1e-9
"""Averages are sums of rounded terms: within this, a drop equals its limit."""

P_EPSILON = 1e-12
"""P-values are sums of rounded terms: within this, a p equals its level."""


@frozen
class PassKRule:
    """Minimum for pass^k: the chance that k runs of a case in a row all pass."""

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
    """A drop of the average of this size or more is too much, 0 to 1; None: not compared with the
    baseline."""
    require: Require = "guard"
    min_score: float | None = None
    """Lowest allowed average, judged with its interval; None: no minimum, or a literal minimum, which is
    not checked by the statistics."""
    reliability: PassKRule | None = None
    is_figure: bool = False
    """True: the scores are shares of logarithms of figures. They have no bounds that narrow an interval, and
    only their average is judged, no single case."""

    @property
    def judges_cases(self) -> bool:
        """Return True if a single case can close the gate by its drop."""
        return self.max_drop is not None and not self.is_figure


@frozen
class Parameters:
    """Parameters shared by all gating metrics of a run."""

    alpha: float = 0.05
    """False-alarm budget of the suite test, one-sided, over all gating metrics."""
    averages_share: float = 1.0
    """Share of `alpha` that the averages may use up; below 1 if single cases close the gate as well."""
    doubt: float = 1.0
    """Level up to which a drop of `max_drop` is inconclusive; the metrics share it. A drop that luck alone
    causes more often passes, unless proof is required. 1: every such drop is inconclusive."""
    runs: int | None = None
    """Runs of every case; None: AUTO."""
    max_runs: int = 5
    """Most rounds of AUTO, at least 1."""
    case_alpha: float = 0.02
    """Chance that any unchanged case is called broken."""
    case_drop: float = 0.25
    """Smaller drops of one case are never reported."""
    confirm_runs: int = 10
    """Most runs of one suspect; with fixed `runs` and no `follow_up`, the number of fixed runs is used
    instead."""
    follow_up: bool = False
    """Give suspects up to `confirm_runs` runs, also with fixed `runs`; the averages use the fixed runs alone.
    False: with AUTO a suspect gets only the runs that confirm a break if all of them score 0."""
    fail_fast: bool = True
    """AUTO stops at a case that is confirmed broken, instead of measuring the average further."""
    futility: float = 0.0
    """AUTO stops measuring a drop if its chance to reach `max_drop` in the remaining rounds is at most
    this. 0: AUTO goes on while the drop is at least half of `max_drop`."""
    deterministic: bool = False
    """The agent answers the same each time: compare exactly, with one run."""
    max_missing: float = 0.10
    """Share of the planned runs that may lack a score."""
    baseline_keep: int = 20
    """Newest baseline runs that are used per case."""
    pass_score: float = 1.0
    """A run with at least this score is counted as passed in messages about its case."""
    fdr: float = 0.10
    """Expected share of false names in the list of a fixed design (false discovery rate)."""

    @property
    def follow_up_limit(self) -> int | None:
        """Return the most runs of a suspect; None: only as many as confirm a break if they all fail."""
        return self.confirm_runs if self.follow_up else None


def is_within_level(p: float, level: float) -> bool:
    """Return True if p is at most the level, rounding errors aside."""
    return p <= level + P_EPSILON

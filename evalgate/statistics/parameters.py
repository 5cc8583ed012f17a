"""What a team can ask of the statistics. The defaults are the recommended procedure."""

from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen

Require: TypeAlias = Literal["guard", "proof"]
"""`guard` stops what is shown to be worse; `proof` lets through only what is shown not to be."""

EPSILON = 1e-9
"""Averages are sums of rounded terms: within this, a drop equals its limit."""

P_EPSILON = 1e-12


@frozen
class PassKRule:
    """A demand on pass^k: the chance that k runs of a case in a row all pass."""

    k: int
    """At least 1."""
    minimum: float
    """Between 0 and 1."""
    pass_score: float = 1.0
    """A run passes at this score."""


@frozen
class MetricRule:
    """What one gating metric must hold."""

    max_drop: float | None = 0.05
    """A drop of the average from here on is too much, 0 to 1; None: not held to the baseline."""
    require: Require = "guard"
    min_score: float | None = None
    """Lowest average, judged with its interval; None: no such demand, or a literal one, held elsewhere."""
    reliability: PassKRule | None = None


@frozen
class Parameters:
    """What all gating metrics of a run share."""

    alpha: float = 0.05
    """False-alarm budget of the suite test, one-sided, over all gating metrics."""
    averages_share: float = 1.0
    """Share of `alpha` that the averages may use up, where single cases close the gate as well."""
    doubt: float = 1.0
    """Level up to which a drop of `max_drop` is inconclusive, one budget over all gating metrics. A drop that
    luck alone gives more often passes, unless proof is required. 1: every such drop is inconclusive."""
    runs: int | None = None
    """Runs of every case; None: AUTO."""
    max_runs: int = 5
    """Rounds of AUTO, at least 1."""
    case_alpha: float = 0.02
    """Chance that any unchanged case is called broken."""
    case_drop: float = 0.25
    """Smaller drops of one case are never reported."""
    confirm_runs: int = 10
    """Most runs that one suspect gets; with fixed `runs` and no `follow_up`, that number counts."""
    follow_up: bool = False
    """With fixed `runs`: run suspects again, as AUTO does. The averages rest on the fixed runs alone."""
    fail_fast: bool = True
    """AUTO stops at a case that is confirmed broken, instead of measuring the average further."""
    futility: float = 0.0
    """AUTO stops measuring a drop that would reach `max_drop` in the rounds left with at most this chance. 0:
    it goes on while the drop is at least half of `max_drop`."""
    deterministic: bool = False
    """The agent answers the same each time: compare exactly, with one run."""
    max_missing: float = 0.10
    """Share of the planned runs that may lack a score."""
    baseline_keep: int = 20
    """Newest baseline runs that are used per case."""
    pass_score: float = 1.0
    """From this score on, a run of a case counts as passed in what is said about it."""
    fdr: float = 0.10
    """Share of false names that the list of a fixed design may hold."""

    @property
    def follow_up_limit(self) -> int | None:
        """Return how many runs a suspect may get beyond those that zeros would need; None: no more."""
        return self.confirm_runs if self.follow_up else None


def is_within_level(p: float, level: float) -> bool:
    """Whether p is at most the level; p-values are sums of rounded terms too."""
    return p <= level + P_EPSILON

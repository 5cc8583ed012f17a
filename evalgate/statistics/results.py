"""Results of the statistics: everything that a report needs to explain a verdict."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.statistics.case_regression import RegressionStatus
from evalgate.statistics.mean_difference import MeanDifference
from evalgate.statistics.pairing import UnpairedReason
from evalgate.statistics.parameters import MetricRule
from evalgate.statistics.threshold_test import ThresholdTest, Verdict

Reason: TypeAlias = Literal[
    # pass
    "unchanged",
    "better",
    "small_drop",
    "proven",
    "no_sign",
    "likely_luck",
    "exact_held",
    "meets_minimum",
    "reliable",
    "no_case_broke",
    "nothing_asked",
    # fail
    "average_fell",
    "exact_fell",
    "case_broke",
    "case_fell",
    "below_minimum",
    "unreliable",
    # inconclusive
    "noisy_drop",
    "unproven",
    "no_baseline",
    "missing_runs",
    "near_minimum",
    "near_reliable",
    "too_few_runs",
]

Status: TypeAlias = RegressionStatus | UnpairedReason
"""Status of one case in a decision. `rerun` never appears here: a case that could not be run again is
`suspect`."""

SEVERITY: Mapping[Verdict, int] = {"pass": 0, "inconclusive": 1, "fail": 2}


@frozen
class RuleCheck:
    """Result of one check of a metric."""

    kind: Literal["data", "average", "cases", "minimum", "reliability"]
    verdict: Verdict
    reason: Reason


@frozen
class CaseOutcome:
    """Outcome of one metric on one case."""

    status: Status
    baseline_runs: int
    """Stored runs that have a score."""
    baseline_passed: int
    baseline_mean: float | None
    runs: int
    """Runs that have a score, those that follow up a suspect included."""
    passed: int
    mean: float | None
    p: float | None
    """Exact p of this case alone; None if the case did not fall by `case_drop`."""
    need: int | None
    """Runs after which it could be called broken; None: its baseline cannot confirm that."""

    @property
    def drop(self) -> float | None:
        """Return the fall of the mean (positive is worse), or None if the two sides cannot be compared."""
        if self.baseline_mean is None or self.mean is None or self.status in {"changed", "no_score"}:
            return None
        return self.baseline_mean - self.mean


@frozen
class Margin:
    """Smallest change of an average that would turn the check that decided."""

    limit: float
    """The average, or the pass^k, at which the verdict turns."""
    distance: float
    """Distance of the average from the limit; 0 if they are equal."""
    runs: int | None
    """Fewest runs that would have to score 1 instead, or 0 after a pass; None: no number of these runs is
    enough."""


@frozen
class MetricDecision:
    """Verdict on one metric: the worst of its checks."""

    rule: MetricRule
    checks: tuple[RuleCheck, ...]
    """At least one."""
    change: MeanDifference | None
    """None if there is nothing to compare or too little data."""
    level: float | None
    """Level that p was compared with: alpha after Holm's correction, and a tenth of it before AUTO's last
    round.

    None if nothing was tested: no comparison, or one without statistics.
    """
    minimum: ThresholdTest | None
    reliability: ThresholdTest | None
    cases: Mapping[str, CaseOutcome]
    missing: int
    """Candidate runs without a score."""
    planned: int
    rounds: int
    """Runs of every case that the average was computed from."""
    flip: Margin | None
    named: tuple[str, ...] | None = None
    """Cases of the false-discovery list; None if the list would mean nothing (AUTO, exact comparison)."""

    @property
    def deciding(self) -> RuleCheck:
        """Return the first of the worst checks."""
        return max(self.checks, key=lambda part: SEVERITY[part.verdict])

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict of the checks: fail before inconclusive before pass."""
        return self.deciding.verdict

    @property
    def reason(self) -> Reason:
        """Return the reason of the check that decided."""
        return self.deciding.reason

    def list_cases(self, status: Status) -> tuple[str, ...]:
        """Return the ids of the cases with this status, in file order."""
        return tuple(case for case, outcome in self.cases.items() if outcome.status == status)

    @property
    def worse(self) -> tuple[str, ...]:
        """Return the ids of all cases with a lower mean than in the baseline, by luck or not."""
        return tuple(case for case, outcome in self.cases.items() if (outcome.drop or 0.0) > 0)


@frozen
class RunCount:
    """Number of runs made, compared with a fixed design."""

    spent: int
    per_case: Mapping[str, int]
    fixed: int
    """Runs of the design that AUTO replaces: every case `max_runs` times, the most rounds that AUTO makes."""

    @property
    def saved(self) -> int:
        """Return how many runs fewer than the fixed design were made, at least 0."""
        return max(0, self.fixed - self.spent)


@frozen
class Decision:
    """Verdicts on all metrics and the runs that they took."""

    metrics: Mapping[str, MetricDecision]
    runs: RunCount
    disagreeing: tuple[str, ...] = ()
    """Metrics that were declared deterministic and still have runs that disagree: they were judged
    statistically."""

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict of the metrics, or `inconclusive` if there is no metric."""
        verdicts = [metric.verdict for metric in self.metrics.values()]
        return max(verdicts, key=SEVERITY.__getitem__, default="inconclusive")

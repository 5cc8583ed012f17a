"""Decisions of the statistics: everything that a report needs to explain a verdict."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.types import (
    CaseComparison,
    CaseStatus,
    Margin,
    MetricVerdict,
    SamplingCost,
    ThresholdEstimate,
)
from evalgate.statistics.mean_difference import MeanDifference
from evalgate.statistics.parameters import MetricRule

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

SEVERITY: Mapping[MetricVerdict, int] = {"pass": 0, "inconclusive": 1, "fail": 2}


@frozen
class RuleCheck:
    """Result of one check of a metric."""

    kind: Literal["data", "average", "cases", "minimum", "reliability"]
    verdict: MetricVerdict
    reason: Reason


@frozen
class MetricDecision:
    """MetricVerdict on one metric: the worst of its checks."""

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
    minimum: ThresholdEstimate | None
    reliability: ThresholdEstimate | None
    cases: Mapping[str, CaseComparison]
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
    def verdict(self) -> MetricVerdict:
        """Return the worst verdict of the checks: fail before inconclusive before pass."""
        return self.deciding.verdict

    @property
    def reason(self) -> Reason:
        """Return the reason of the check that decided."""
        return self.deciding.reason

    def list_cases(self, status: CaseStatus) -> tuple[str, ...]:
        """Return the ids of the cases with this status, in file order."""
        return tuple(case for case, outcome in self.cases.items() if outcome.status == status)

    @property
    def worse(self) -> tuple[str, ...]:
        """Return the ids of all cases with a lower mean than in the baseline, by luck or not."""
        return tuple(case for case, outcome in self.cases.items() if (outcome.drop or 0.0) > 0)


@frozen
class Decision:
    """MetricVerdicts on all metrics and the runs that they took."""

    metrics: Mapping[str, MetricDecision]
    cost: SamplingCost
    """Runs that were made, compared with every case `max_runs` times, the most rounds that AUTO makes. A run
    that several metrics score is one run."""
    runs_per_case: Mapping[str, int]
    disagreeing: tuple[str, ...] = ()
    """Metrics that were declared deterministic and still have runs that disagree: they were judged
    statistically."""

    @property
    def rounds(self) -> int:
        """Return the runs of every case that the averages were computed from."""
        return max(metric.rounds for metric in self.metrics.values())

    @property
    def verdict(self) -> MetricVerdict:
        """Return the worst verdict of the metrics, or `inconclusive` if there is no metric."""
        verdicts = [metric.verdict for metric in self.metrics.values()]
        return max(verdicts, key=SEVERITY.__getitem__, default="inconclusive")

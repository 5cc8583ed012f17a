"""What the statistics found out: everything that a report needs to say why."""

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
"""`rerun` never ends in a decision: what could not be followed up is `suspect`."""

SEVERITY: Mapping[Verdict, int] = {"pass": 0, "inconclusive": 1, "fail": 2}


@frozen
class RuleCheck:
    """One question that was asked about a metric."""

    kind: Literal["data", "average", "cases", "minimum", "reliability"]
    verdict: Verdict
    reason: Reason


@frozen
class CaseOutcome:
    """One metric on one case."""

    status: Status
    baseline_runs: int
    """With a score."""
    baseline_passed: int
    baseline_mean: float | None
    runs: int
    """With a score; all that were made, those that confirm a suspect included."""
    passed: int
    mean: float | None
    p: float | None
    """Exact p of this case alone; None where it did not fall by `case_drop`."""
    need: int | None
    """Runs after which it could be called broken; None: its baseline cannot confirm that."""

    @property
    def drop(self) -> float | None:
        """Positive is worse; None where it cannot be compared."""
        if self.baseline_mean is None or self.mean is None or self.status in {"changed", "no_score"}:
            return None
        return self.baseline_mean - self.mean


@frozen
class Margin:
    """The smallest change of an average with which the part that decided would have ended otherwise."""

    limit: float
    """The average at which it turns: of the candidate, or of pass^k."""
    distance: float
    """How far the average is from there; 0 when it stands on it."""
    runs: int | None
    """Fewest runs that would have to score 0 instead (1, unless it passed); None: these runs cannot."""


@frozen
class MetricDecision:
    """The verdict on one metric: the worst of its parts."""

    rule: MetricRule
    checks: tuple[RuleCheck, ...]
    """At least one."""
    change: MeanDifference | None
    """None without anything to compare, or with too little data."""
    level: float | None
    """What p was held against: alpha after Holm's correction, a tenth of it before AUTO's last round.

    None where nothing was tested: no comparison, or one without statistics.
    """
    minimum: ThresholdTest | None
    reliability: ThresholdTest | None
    cases: Mapping[str, CaseOutcome]
    missing: int
    """Candidate runs without a score."""
    planned: int
    rounds: int
    """Runs of every case that the average rests on."""
    flip: Margin | None
    named: tuple[str, ...] | None = None
    """Cases of the false-discovery list; None where it means nothing (AUTO, exact comparison)."""

    @property
    def deciding(self) -> RuleCheck:
        """The first of the worst parts."""
        return max(self.checks, key=lambda part: SEVERITY[part.verdict])

    @property
    def verdict(self) -> Verdict:
        """Fail before inconclusive before pass."""
        return self.deciding.verdict

    @property
    def reason(self) -> Reason:
        """Why."""
        return self.deciding.reason

    def list_cases(self, status: Status) -> tuple[str, ...]:
        """The cases of a status, in their order."""
        return tuple(case for case, outcome in self.cases.items() if outcome.status == status)

    @property
    def worse(self) -> tuple[str, ...]:
        """Every case whose average fell, by luck or not."""
        return tuple(case for case, outcome in self.cases.items() if (outcome.drop or 0.0) > 0)


@frozen
class RunCount:
    """What was spent."""

    spent: int
    per_case: Mapping[str, int]
    fixed: int
    """Runs of the design that AUTO replaces: every case `max_runs` times, as deep as AUTO goes at worst."""

    @property
    def saved(self) -> int:
        """Runs fewer than that fixed design; not below 0."""
        return max(0, self.fixed - self.spent)


@frozen
class Decision:
    """The whole answer."""

    metrics: Mapping[str, MetricDecision]
    runs: RunCount
    disagreeing: tuple[str, ...] = ()
    """Metrics that were declared deterministic and whose runs disagree: they were judged statistically."""

    @property
    def verdict(self) -> Verdict:
        """The worst over the metrics; without any, nothing can be told."""
        verdicts = [metric.verdict for metric in self.metrics.values()]
        return max(verdicts, key=SEVERITY.__getitem__, default="inconclusive")

"""Decide about each metric from the checks of its average and from its cases.

`evalgate.gating.verdict` decides from these decisions whether the gate closes.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from evalgate.core.frozen import frozen
from evalgate.core.types import (
    CaseComparison,
    CaseStatus,
    Margin,
    MetricVerdict,
    SamplingCost,
    ThresholdEstimate,
)
from evalgate.statistics.case_permutation_test import compute_case_p
from evalgate.statistics.case_regression import (
    Cell,
    ConfirmationPlan,
    RegressionStatus,
    build_confirmation_plan,
    classify_case,
)
from evalgate.statistics.mean_difference import MeanDifference
from evalgate.statistics.metric_assessment import (
    AnalysisStage,
    Assessment,
    Reason,
    RuleCheck,
    build_assessments,
)
from evalgate.statistics.multiple_testing import find_discoveries
from evalgate.statistics.parameters import EPSILON, MetricRule, Parameters
from evalgate.statistics.score_pairs import (
    UNIT,
    CaseScores,
    ScoreTable,
    Thousandths,
    compute_score_mean,
    normalize_scores,
)
from evalgate.statistics.threshold_test import count_passed

SEVERITY: Mapping[MetricVerdict, int] = {"pass": 0, "inconclusive": 1, "fail": 2}


@frozen
class MetricDecision:
    """Decision on one metric; its verdict is the worst verdict of its checks."""

    rule: MetricRule
    checks: tuple[RuleCheck, ...]
    """Results of the checks, at least one."""
    change: MeanDifference | None
    """Change of the average; None if there is nothing to compare or too little data."""
    level: float | None
    """Level that p was compared with: the averages' share of `alpha` after Holm's correction. Before the last
    round of `runs: auto` it is a tenth of this.

    None if nothing was tested: there was no comparison, or it was made without statistics.
    """
    minimum: ThresholdEstimate | None
    """Comparison with the minimum; None if no minimum is asked for, or too few runs have a score."""
    reliability: ThresholdEstimate | None
    """Comparison of pass^k with its minimum. None if no pass^k is asked for, too few runs have a score, or a
    case has fewer than k scores."""
    cases: Mapping[str, CaseComparison]
    missing: int
    """Number of candidate runs without a score."""
    planned: int
    """Number of planned candidate runs, over all cases."""
    rounds: int
    """Number of first runs of every case from which the average was computed."""
    flip: Margin | None
    """Margin of the verdict: distance of the average or pass^k from its limit (`compute_verdict_margin`).
    None if the verdict does not depend on such a distance, and for a metric of budget figures."""
    detectable_drop: float | None = None
    """Size from which drops of the average are caught about four times in five; infinity: no drop is caught
    as often. None: it was not estimated."""
    significant_cases: tuple[str, ...] | None = None
    """Ids of the cases that fell most significantly (`find_discoveries`). None with `runs: auto`, without a
    statistical comparison, for a metric of budget figures, and if cases have unequal numbers of runs."""

    @property
    def deciding(self) -> RuleCheck:
        """Return the check that gives the metric its verdict: the first check with the worst verdict."""
        return max(self.checks, key=lambda part: SEVERITY[part.verdict])

    @property
    def verdict(self) -> MetricVerdict:
        """Return the worst verdict of the checks: fail before inconclusive before pass."""
        return self.deciding.verdict

    @property
    def reason(self) -> Reason:
        """Return the reason of the check `deciding`, which gives the metric its verdict."""
        return self.deciding.reason

    def list_cases(self, status: CaseStatus) -> tuple[str, ...]:
        """Return the ids of the cases with the given status, in the order of `cases`."""
        return tuple(case for case, outcome in self.cases.items() if outcome.status == status)

    @property
    def worse(self) -> tuple[str, ...]:
        """Return the ids of all compared cases that have a lower mean than in the baseline, by any amount."""
        return tuple(case for case, outcome in self.cases.items() if (outcome.drop or 0.0) > 0)


@frozen
class Decision:
    """Decisions on all metrics, and the number of runs that were made for them."""

    metrics: Mapping[str, MetricDecision]
    cost: SamplingCost
    """Number of runs that were made, and number of planned runs that were not made because they were not
    needed. Planned are the fixed `runs` of every case, or `max_runs` of every case with `runs: auto`. A run
    that several metrics score counts once."""
    runs_per_case: Mapping[str, int]
    disagreeing: tuple[str, ...] = ()
    """Names of the metrics with different scores in the runs of a case, although the agent was declared
    deterministic. These metrics were judged by statistics."""

    @property
    def rounds(self) -> int:
        """Return the number of first runs of each case that the averages use.

        If metrics have different numbers, return the largest.

        Raises:
            ValueError: there is no metric.
        """
        return max(metric.rounds for metric in self.metrics.values())

    @property
    def verdict(self) -> MetricVerdict:
        """Return the worst verdict of the metrics, or `inconclusive` if there is no metric."""
        verdicts = [metric.verdict for metric in self.metrics.values()]
        return max(verdicts, key=SEVERITY.__getitem__, default="inconclusive")


def compute_verdict_margin(assessment: Assessment, rule: MetricRule, deciding: RuleCheck) -> Margin | None:
    """Return the margin of a verdict: how far the average or the pass^k is from its limit.

    The margin also has the fewest runs that could bring the average to the limit. After a pass, these runs
    would have to score 0. After any other verdict, they would have to score 1. The number is None for pass^k,
    and if all runs together do not suffice. A smaller change of the average may change the verdict, too, for
    example from fail to inconclusive.

    Return None for a verdict that does not depend on the distance:

    - A verdict by single cases that broke, or by missing scores or runs.
    - A verdict on an average that depends on a required proof (`unproven`) or on luck (`likely_luck`).
    - A fail or inconclusive verdict on a value that has reached its limit.

    Args:
        assessment: the assessment of the metric.
        rule: the rule of the metric.
        deciding: the check that the verdict comes from.
    """
    if deciding.kind == "average" and assessment.change is not None and rule.max_drop is not None:
        pairs = assessment.scores.pairs
        return _build_margin(
            assessment.change.candidate,
            assessment.change.baseline - rule.max_drop,
            [(pair.candidate, pair.weight) for pair in pairs],
            deciding,
        )
    if deciding.kind == "minimum" and assessment.minimum is not None:
        estimate = assessment.minimum
        return _build_margin(
            estimate.value, estimate.minimum, list(assessment.scores.measured.values()), deciding
        )
    if deciding.kind == "reliability" and assessment.reliability is not None:
        pass_k = assessment.reliability
        if deciding.verdict != "pass" and pass_k.value >= pass_k.minimum:
            return None
        return Margin(pass_k.minimum, abs(pass_k.value - pass_k.minimum), None)
    return None


def _build_margin(
    average: float, limit: float, cases: list[tuple[Thousandths, float]], deciding: RuleCheck
) -> Margin | None:
    if deciding.reason in {"unproven", "likely_luck"}:
        return None
    rising = deciding.verdict != "pass"
    if rising and average >= limit:
        return None
    if not rising and average <= limit:  # a drop of exactly nothing passes at max_drop 0
        return Margin(limit, 0.0, None)
    distance = abs(average - limit)
    return Margin(limit, distance, _count_turning_runs(_compute_gains(cases, rising=rising), distance))


def _compute_gains(cases: Iterable[tuple[Thousandths, float]], *, rising: bool) -> list[float]:
    """Return for each run how far the average would move if the run scored 1 (`rising`) or 0 (otherwise).

    All moves are positive, and the largest come first. Runs that already have this score are left out.
    """
    cases = list(cases)
    total = math.fsum(weight for _, weight in cases)
    gains = (
        weight / total * ((UNIT - score) if rising else score) / (UNIT * len(scores))
        for scores, weight in cases
        for score in scores
    )
    return sorted((gain for gain in gains if gain > 0), reverse=True)


def _count_turning_runs(gains: list[float], distance: float) -> int | None:
    reached = 0.0
    for count, gain in enumerate(gains, 1):
        reached += gain
        if reached >= distance - EPSILON:
            return count
    return None


RegressionStatuses = Mapping[Cell, RegressionStatus]


def plan_confirmation(
    assessments: Mapping[str, Assessment],
    tables: Mapping[str, ScoreTable],
    parameters: Parameters,
    confirm_runs: int,
) -> ConfirmationPlan:
    """Return the rules by which the fall of a case's score on a metric counts as a break.

    Left out are metrics that are compared without statistics, that do not judge single cases, or that lack
    scores. `confirm_runs` is the largest number of runs that a case may get to confirm a break.
    """
    baselines = {
        (name, pair.case): pair.baseline
        for name, assessment in assessments.items()
        if tables[name].rule.judges_cases and not assessment.is_exact and not assessment.lacks_scores
        for pair in assessment.scores.pairs
    }
    return build_confirmation_plan(
        baselines,
        case_alpha=parameters.case_alpha,
        case_drop=parameters.case_drop,
        confirm_runs=confirm_runs,
    )


def build_decision(
    tables: Mapping[str, ScoreTable],
    parameters: Parameters,
    assessments: Mapping[str, Assessment],
    statuses: RegressionStatuses,
    plan: ConfirmationPlan,
    *,
    rounds: int,
) -> Decision:
    """Build the decision on all metrics from their assessments and the statuses of their cases.

    Args:
        tables: the measured scores, of all runs.
        parameters: parameters of the gate.
        assessments: maps a metric to its assessment after the last round.
        statuses: maps (metric, case) to the status of the case, if it was tested by statistics. A case that
            was not tested and fell by `case_drop` or more is a suspect. It is broken if its metric is
            compared without statistics.
        plan: the confirmation plan; it has the number of runs that confirm a break of each case.
        rounds: number of first runs of every case from which the averages are computed.
    """
    per_case = count_runs_per_case(tables)
    spent, fixed = sum(per_case.values()), (parameters.runs or parameters.max_runs) * len(per_case)
    return Decision(
        {
            name: _decide_metric(name, tables[name], parameters, assessments[name], statuses, plan, rounds)
            for name in tables
        },
        SamplingCost(spent, fixed, max(0, fixed - spent)),
        per_case,
        tuple(
            name
            for name, assessment in assessments.items()
            if parameters.deterministic and not assessment.is_exact
        ),
    )


def count_runs_per_case(tables: Mapping[str, ScoreTable]) -> dict[str, int]:
    """Return the number of runs of each case, with and without a score; removed cases are left out.

    If the number of runs of a case differs between metrics, the largest number counts.
    """
    made: dict[str, int] = {}
    for table in tables.values():
        for case, scores in table.cases.items():
            if scores.candidate is not None:
                made[case] = max(made.get(case, 0), len(scores.candidate))
    return made


def _decide_metric(
    name: str,
    table: ScoreTable,
    parameters: Parameters,
    assessment: Assessment,
    statuses: RegressionStatuses,
    plan: ConfirmationPlan,
    rounds: int,
) -> MetricDecision:
    cases = {
        case: _build_case_outcome((name, case), scores, table.rule, parameters, assessment, statuses, plan)
        for case, scores in table.cases.items()
    }
    parts = _collect_checks(table, assessment, cases)
    # Of equally bad checks the first decides: averages come before single cases.
    deciding = max(parts, key=lambda part: SEVERITY[part.verdict])
    return MetricDecision(
        rule=table.rule,
        checks=parts,
        change=assessment.change,
        level=assessment.level,
        minimum=assessment.minimum,
        reliability=assessment.reliability,
        cases=cases,
        missing=assessment.scores.missing,
        planned=assessment.scores.planned,
        rounds=rounds,
        flip=None if table.rule.is_figure else compute_verdict_margin(assessment, table.rule, deciding),
        significant_cases=_find_named_cases(assessment, table.rule, parameters),
    )


def _collect_checks(
    table: ScoreTable, assessment: Assessment, cases: Mapping[str, CaseComparison]
) -> tuple[RuleCheck, ...]:
    if table.rule.max_drop is None or assessment.lacks_scores:
        return assessment.checks
    if not any(outcome.status == "broken" for outcome in cases.values()):
        return assessment.checks
    broke = RuleCheck("cases", "fail", "case_fell" if assessment.is_exact else "case_broke")
    return (*assessment.checks, broke)


def _find_named_cases(
    assessment: Assessment, rule: MetricRule, parameters: Parameters
) -> tuple[str, ...] | None:
    pairs = assessment.scores.pairs
    if rule.is_figure or not parameters.runs or assessment.is_exact or assessment.change is None:
        return None
    # Cases with follow-up runs were chosen because they failed, so a list of discoveries would be biased.
    if len({pair.attempted for pair in pairs}) > 1:
        return None
    return find_discoveries(pairs, parameters.fdr, case_drop=parameters.case_drop)


def _build_case_outcome(
    cell: Cell,
    scores: CaseScores,
    rule: MetricRule,
    parameters: Parameters,
    assessment: Assessment,
    statuses: RegressionStatuses,
    plan: ConfirmationPlan,
) -> CaseComparison:
    baseline = normalize_scores(
        () if scores.baseline is None else scores.baseline[-parameters.baseline_keep :]
    )
    candidate = normalize_scores(scores.candidate or ())
    unpaired = assessment.scores.unpaired.get(cell[1])
    fell = (
        unpaired is None
        and not rule.is_figure
        and compute_score_mean(baseline) - compute_score_mean(candidate) >= parameters.case_drop - EPSILON
    )
    return CaseComparison(
        status=unpaired
        or _resolve_status(statuses.get(cell), fell=fell, exact=assessment.is_exact and rule.judges_cases),
        baseline_runs=len(baseline),
        baseline_passed=count_passed(baseline, parameters.pass_score),
        baseline_mean=compute_score_mean(baseline) if baseline else None,
        runs=len(candidate),
        passed=count_passed(candidate, parameters.pass_score),
        mean=compute_score_mean(candidate) if candidate else None,
        p=compute_case_p(baseline, candidate) if fell else None,
        need=plan.need.get(cell),
    )


def _resolve_status(status: RegressionStatus | None, *, fell: bool, exact: bool) -> CaseStatus:
    """Return the final status of a compared case.

    The status is `broken` if the statistical test says so, or if the mean of the case fell and the metric is
    compared without statistics. In all other cases the status is `suspect` if the mean fell, else `ok`. So a
    case that only looked bad in an early round of `runs: auto` is `ok`.

    Args:
        status: status from the statistical test; None: the case was not tested.
        fell: True if the mean of the case fell by `case_drop` or more.
        exact: True if the metric is compared without statistics, and the drop of one case can close the gate.
    """
    if status == "broken" or (fell and exact):
        return "broken"
    return "suspect" if fell else "ok"


def decide_without_follow_ups(tables: Mapping[str, ScoreTable], parameters: Parameters) -> Decision:
    """Decide from the first `parameters.runs` runs of every case; further runs do not count.

    If `parameters.runs` is None, the first run of every case counts.

    Raises:
        InvalidInputError: for a score outside 0 to 1 or a weight that is not a positive number.
    """
    runs = parameters.runs or 1
    tables = {name: _limit_runs(table, runs) for name, table in tables.items()}
    assessments = build_assessments(tables, parameters, AnalysisStage(runs, last=True, planned_runs=runs))
    plan = plan_confirmation(assessments, tables, parameters, runs)
    statuses: dict[Cell, RegressionStatus] = {}
    for name, assessment in assessments.items():
        if not assessment.is_exact and not tables[name].rule.is_figure:
            statuses.update(_classify_cells(name, assessment, plan, parameters))
    return build_decision(tables, parameters, assessments, statuses, plan, rounds=runs)


def _limit_runs(table: ScoreTable, runs: int) -> ScoreTable:
    cases = {
        case: scores if scores.candidate is None else replace(scores, candidate=scores.candidate[:runs])
        for case, scores in table.cases.items()
    }
    return replace(table, cases=cases)


def _classify_cells(
    name: str, assessment: Assessment, plan: ConfirmationPlan, parameters: Parameters
) -> dict[Cell, RegressionStatus]:
    return {
        (name, pair.case): classify_case(
            pair.baseline,
            pair.candidate,
            t=plan.t,
            need=plan.need.get((name, pair.case)),
            case_drop=parameters.case_drop,
        )
        for pair in assessment.scores.pairs
    }

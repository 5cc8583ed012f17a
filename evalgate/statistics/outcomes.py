"""From standings and assessments to the decision that is handed out."""

from collections.abc import Mapping

from evalgate.statistics.assessment import Assessment
from evalgate.statistics.broken import Cell, ConfirmationPlan, Standing, confirmation_plan
from evalgate.statistics.flip import flip
from evalgate.statistics.minimum import passed
from evalgate.statistics.multiplicity import false_discovery_list
from evalgate.statistics.pairing import CaseScores, GatingMetric
from evalgate.statistics.parameters import EPSILON, Parameters
from evalgate.statistics.permutation import case_p
from evalgate.statistics.results import (
    SEVERITY,
    CaseOutcome,
    Decision,
    MetricDecision,
    Part,
    RunCount,
    Status,
)
from evalgate.statistics.scores import Thousandths, average, cleaned

Standings = Mapping[Cell, Standing]


def plan_of(
    assessments: Mapping[str, Assessment],
    metrics: Mapping[str, GatingMetric],
    parameters: Parameters,
    confirm_runs: int,
) -> ConfirmationPlan:
    """The confirmation plan over all cells that are judged statistically."""
    baselines = {
        (name, pair.case): pair.baseline
        for name, assessment in assessments.items()
        if metrics[name].rule.max_drop is not None and not assessment.exact and not assessment.starved
        for pair in assessment.scores.pairs
    }
    return confirmation_plan(
        baselines,
        case_alpha=parameters.case_alpha,
        case_drop=parameters.case_drop,
        confirm_runs=confirm_runs,
    )


def decision(
    metrics: Mapping[str, GatingMetric],
    parameters: Parameters,
    assessments: Mapping[str, Assessment],
    standings: Standings,
    plan: ConfirmationPlan,
    *,
    rounds: int,
) -> Decision:
    """Everything put together.

    Args:
        metrics: what was measured; all runs of it.
        parameters: what was asked.
        assessments: of the averages, at the moment that decides.
        standings: of the cells that were looked at one by one; the others are suspects when they fell.
        plan: how cells could be confirmed.
        rounds: runs of every case that the averages rest on.
    """
    return Decision(
        {
            name: _metric(name, metrics[name], parameters, assessments[name], standings, plan, rounds)
            for name in metrics
        },
        run_count(metrics, parameters),
        tuple(
            name
            for name, assessment in assessments.items()
            if parameters.deterministic and not assessment.exact
        ),
    )


def run_count(metrics: Mapping[str, GatingMetric], parameters: Parameters) -> RunCount:
    """Runs made so far; a run that several metrics score is one run."""
    per_case = runs_made(metrics)
    each = parameters.runs or parameters.max_runs
    return RunCount(sum(per_case.values()), per_case, each * len(per_case))


def runs_made(metrics: Mapping[str, GatingMetric]) -> dict[str, int]:
    """Case → runs that were made, with and without a score; of every case that the candidate has."""
    made: dict[str, int] = {}
    for metric in metrics.values():
        for case, scores in metric.cases.items():
            if scores.candidate is not None:
                made[case] = max(made.get(case, 0), len(scores.candidate))
    return made


def _metric(
    name: str,
    metric: GatingMetric,
    parameters: Parameters,
    assessment: Assessment,
    standings: Standings,
    plan: ConfirmationPlan,
    rounds: int,
) -> MetricDecision:
    cases = {
        case: _outcome((name, case), scores, parameters, assessment, standings, plan)
        for case, scores in metric.cases.items()
    }
    parts = _parts(metric, assessment, cases)
    deciding = max(parts, key=lambda part: SEVERITY[part.verdict])
    return MetricDecision(
        rule=metric.rule,
        parts=parts,
        change=assessment.change,
        level=assessment.level,
        minimum=assessment.minimum,
        reliability=assessment.reliability,
        cases=cases,
        missing=assessment.scores.missing,
        planned=assessment.scores.planned,
        rounds=rounds,
        flip=flip(assessment, metric.rule, deciding),
        named=_named(assessment, parameters),
    )


def _parts(
    metric: GatingMetric, assessment: Assessment, cases: Mapping[str, CaseOutcome]
) -> tuple[Part, ...]:
    if metric.rule.max_drop is None or assessment.starved:
        return assessment.parts
    if not any(outcome.status == "broken" for outcome in cases.values()):
        return assessment.parts
    broke = Part("cases", "fail", "case_fell" if assessment.exact else "case_broke")
    return (*assessment.parts, broke)


def _named(assessment: Assessment, parameters: Parameters) -> tuple[str, ...] | None:
    pairs = assessment.scores.pairs
    if not parameters.runs or assessment.exact or assessment.change is None:
        return None
    if len({pair.attempted for pair in pairs}) > 1:
        return None
    return false_discovery_list(pairs, parameters.fdr, case_drop=parameters.case_drop)


def _outcome(
    cell: Cell,
    scores: CaseScores,
    parameters: Parameters,
    assessment: Assessment,
    standings: Standings,
    plan: ConfirmationPlan,
) -> CaseOutcome:
    baseline = cleaned(() if scores.baseline is None else scores.baseline[-parameters.baseline_keep :])
    candidate = cleaned(scores.candidate or ())
    unpaired = assessment.scores.unpaired.get(cell[1])
    fell = unpaired is None and _fell(baseline, candidate, parameters)
    return CaseOutcome(
        status=unpaired or _status(standings.get(cell), fell=fell, exact=assessment.exact),
        baseline_runs=len(baseline),
        baseline_passed=passed(baseline, parameters.pass_score),
        baseline_mean=average(baseline) if baseline else None,
        runs=len(candidate),
        passed=passed(candidate, parameters.pass_score),
        mean=average(candidate) if candidate else None,
        p=case_p(baseline, candidate) if fell else None,
        need=plan.need.get(cell),
    )


def _status(standing: Standing | None, *, fell: bool, exact: bool) -> Status:
    """What was found when the case was looked at; otherwise whether it fell since."""
    if fell and exact:
        return "broken"
    if standing is None or standing in {"ok", "rerun"}:
        return "suspect" if fell else "ok"
    return standing


def _fell(baseline: Thousandths, candidate: Thousandths, parameters: Parameters) -> bool:
    return average(baseline) - average(candidate) >= parameters.case_drop - EPSILON

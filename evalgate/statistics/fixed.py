"""The verdict on runs that are all there: a fixed number of runs of every case."""

from collections.abc import Mapping
from dataclasses import replace

from evalgate.statistics.assessment import Assessment, Moment, assess
from evalgate.statistics.broken import Cell, ConfirmationPlan, Standing, standing
from evalgate.statistics.outcomes import decision, plan_of
from evalgate.statistics.pairing import GatingMetric
from evalgate.statistics.parameters import Parameters
from evalgate.statistics.results import Decision


def decide(metrics: Mapping[str, GatingMetric], parameters: Parameters) -> Decision:
    """Judge `parameters.runs` runs of every case (1 when it is None); further runs do not count.

    Raises:
        InvalidInput: for a score outside 0 to 1 or a weight that is not a positive number.
    """
    runs = parameters.runs or 1
    metrics = {name: _first(metric, runs) for name, metric in metrics.items()}
    assessments = assess(metrics, parameters, Moment(runs, last=True, planned_runs=runs))
    plan = plan_of(assessments, metrics, parameters, runs)
    standings: dict[Cell, Standing] = {}
    for name, assessment in assessments.items():
        if not assessment.exact:
            standings.update(_standings(name, assessment, plan, parameters))
    return decision(metrics, parameters, assessments, standings, plan, rounds=runs)


def _first(metric: GatingMetric, runs: int) -> GatingMetric:
    cases = {
        case: scores if scores.candidate is None else replace(scores, candidate=scores.candidate[:runs])
        for case, scores in metric.cases.items()
    }
    return replace(metric, cases=cases)


def _standings(
    name: str, assessment: Assessment, plan: ConfirmationPlan, parameters: Parameters
) -> dict[Cell, Standing]:
    return {
        (name, pair.case): standing(
            pair.baseline,
            pair.candidate,
            t=plan.t,
            need=plan.need.get((name, pair.case)),
            case_drop=parameters.case_drop,
        )
        for pair in assessment.scores.pairs
    }

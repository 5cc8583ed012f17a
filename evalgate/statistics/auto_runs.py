"""Plan the next runs, and decide once no further run is needed.

The next runs are another round of all cases (`runs: auto`), or follow-up runs: further runs of single cases
that may have broken. With a fixed number of runs, follow-up runs are possible, too.

`runs: auto` runs every case once in each round, and stops once the average is good enough. Luck makes some
averages look good enough, so averages at the stop tend to be too high. `estimate_early_stop_bias` estimates
this excess for an agent that did not change, and the caller subtracts the estimate. The estimate assumes that
averages are normally distributed, with variances from the runs of each case in baseline and candidate.

`plan_next_step` is pure and holds no state. At each call it recomputes the next step from all runs made so
far, so an interrupted run goes on from the same point, and the same scores give the same answer.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.statistics.case_regression import Cell, ConfirmationPlan, RegressionStatus, classify_case
from evalgate.statistics.mean_difference import MeanDifference, compute_pooled_variance
from evalgate.statistics.metric_assessment import AnalysisStage, Assessment, build_assessments
from evalgate.statistics.metric_decisions import (
    Decision,
    build_decision,
    count_runs_per_case,
    plan_confirmation,
)
from evalgate.statistics.parameters import EPSILON, MetricRule, Parameters
from evalgate.statistics.score_pairs import Pair, Score, ScoreTable, Thousandths, normalize_scores
from evalgate.statistics.threshold_test import compute_normal_quantile

_MOST_ROUNDS = 10  # with more rounds the bias is below 0.001, and each round takes more time to compute
_REACH = 6.0  # standard deviations: range of sums below 0, and of the baseline's errors from end to end
_STEPS = 60  # number of different sums after each round
_NODES = 13  # number of different errors of the baseline
_NORMAL = NormalDist()


def estimate_early_stop_bias(
    pairs: Sequence[Pair], *, max_drop: float, rounds: int, min_runs: int = 1
) -> float:
    """Estimate the bias of the candidate's average if `runs: auto` stopped after `rounds` rounds.

    A run stops early after a lucky round, so its average is too high. After several rounds the average can be
    too low, and the bias negative, because only bad rounds lead to another round. The bias is a share of the
    metric's range.

    The estimate assumes that the agent did not change, and that another round follows while the drop is at
    least half of `max_drop`. Return 0 if `rounds` is above 10, because the bias is below 0.001 then. Return 0
    also if all scores of each case are equal.

    Args:
        pairs: scores of baseline and candidate for each case.
        max_drop: smallest drop of the average that closes the gate.
        rounds: number of rounds after which the run stopped.
        min_runs: fewest rounds after which the run could stop.
    """
    total = math.fsum(pair.weight for pair in pairs)
    spreads = [
        ((pair.weight / total) ** 2 * compute_pooled_variance(pair), len(pair.baseline)) for pair in pairs
    ]
    deviation = math.sqrt(math.fsum(spread for spread, _ in spreads))
    error = math.sqrt(math.fsum(spread / runs for spread, runs in spreads))
    # Without luck an early stop does not change the average.
    if deviation == 0 or rounds > _MOST_ROUNDS:
        return 0.0
    mass = moment = 0.0
    for weight, shift in _generate_baseline_errors(error):
        stopped, summed = _compute_stop_moments(deviation, shift - max_drop / 2, rounds, min_runs)
        mass += weight * stopped
        moment += weight * summed
    return moment / mass / rounds if mass > 0 else 0.0


def _generate_baseline_errors(deviation: float) -> Iterator[tuple[float, float]]:
    """Yield (normal density, error) for 13 errors of the baseline's average, to integrate over the error.

    The errors are evenly spaced from -3 to 3 times `deviation`, the standard deviation of the error.
    """
    for at in range(_NODES):
        z = _REACH * (at / (_NODES - 1) - 0.5)
        yield _NORMAL.pdf(z), z * deviation


def _compute_stop_moments(deviation: float, limit: float, rounds: int, min_runs: int) -> tuple[float, float]:
    """Return (p, p·m): the chance p of a stop after exactly `rounds` rounds, and the mean sum m at this stop.

    The sum adds up the averages of all rounds so far. Each round's average has the mean 0 and the standard
    deviation `deviation`. The run stops after round k if k is at least `min_runs`, and the sum is above k
    times `limit`.
    """
    reached = [(1.0, 0.0)]
    for done in range(1, rounds):
        most = done * limit if done >= min_runs else _REACH * deviation * math.sqrt(done)
        reached = _propagate_sums(reached, deviation, most, done)
    least, mass, moment = rounds * limit, 0.0, 0.0
    for weight, summed in reached:
        z = (least - summed) / deviation
        chance = 1 - _NORMAL.cdf(z)
        mass += weight * chance
        moment += weight * (summed * chance + deviation * _NORMAL.pdf(z))
    return mass, moment


def _propagate_sums(
    reached: Sequence[tuple[float, float]], deviation: float, most: float, rounds: int
) -> list[tuple[float, float]]:
    """Return the distribution of the sum after round number `rounds`, as pairs (probability, sum).

    A sum adds up the averages of all rounds so far. `reached` has the pairs before this round, and
    `deviation` is the standard deviation of a round's average. The result has only sums up to `most`, because
    the run stops at a larger sum.
    """
    lowest = min(-_REACH * deviation * math.sqrt(rounds), most - deviation)
    step = (most - lowest) / _STEPS
    found = []
    for at in range(_STEPS):
        summed = lowest + (at + 0.5) * step
        density = math.fsum(weight * _NORMAL.pdf((summed - before) / deviation) for weight, before in reached)
        found.append((density * step / deviation, summed))
    return found


@frozen
class NextRuns:
    """Runs that are needed before a decision."""

    runs: Mapping[str, tuple[int, ...]]
    """Maps a case id to the numbers (from 1) of its next runs; never empty. All runs can be made at once."""
    why: Literal["round", "follow_up"]
    """`round`: each case gets the runs that it lacks for the present round. `follow_up`: each case that may
    have broken gets one more run."""


Step: TypeAlias = NextRuns | Decision


def plan_next_step(tables: Mapping[str, ScoreTable], parameters: Parameters) -> Step:
    """Return the next runs to make, or the decision if no further runs are needed.

    After a `NextRuns`, the caller makes these runs, appends the scores (None without a score) to
    `CaseScores.candidate`, and calls again, at most `max_runs + confirm_runs` times. With fixed `runs`, every
    case gets this number of runs in one round. Only cases that may have broken get more.

    With `runs: auto`, another round follows while a minimum, pass^k or a required proof is undecided, or a
    drop of half of `max_drop` or more may still reach `max_drop` (`futility`). No round follows after
    `max_runs` rounds, after a failed average, minimum or pass^k, or with `fail_fast` after a case broke. A
    deterministic metric (`is_deterministic`) needs only the first `min_runs` rounds. After k rounds, averages
    use only the first k runs of every case, so that follow-up runs of failed cases do not change them.

    Raises:
        InvalidInputError: for a score outside 0 to 1 or a weight that is not a positive number.
        ValueError: `runs` is None and `max_runs` is below 1.
    """
    first, most = _get_round_bounds(parameters)
    plan: ConfirmationPlan | None = None
    statuses: dict[Cell, RegressionStatus] = {}
    for rounds in range(first, most + 1):
        if wanted := _find_missing_runs(tables, rounds):
            return NextRuns(wanted, "round")
        last = rounds == most
        assessments = build_assessments(tables, parameters, AnalysisStage(rounds, last, most))
        # A failed average closes the gate by itself, so no case needs a follow-up run then.
        failed = any(assessment.failed for assessment in assessments.values())
        # Built after the first round only: a cell's share of `case_alpha` must not depend on the number of
        # rounds that the averages take.
        if plan is None:
            plan = plan_confirmation(assessments, tables, parameters, max(first, parameters.confirm_runs))
            if not failed or parameters.runs:
                statuses = _classify_all_cells(tables, plan, assessments, parameters)
                unsettled = [case for (_, case), status in statuses.items() if status == "rerun"]
                if not failed and unsettled:
                    made = count_runs_per_case(tables)
                    return NextRuns({case: (made[case] + 1,) for case in unsettled}, "follow_up")
        broke = parameters.fail_fast and "broken" in statuses.values()
        settled = all(
            _is_settled(assessments[name], tables[name].rule, parameters, rounds) for name in tables
        )
        if failed or broke or settled or last:
            return build_decision(tables, parameters, assessments, statuses, plan, rounds=rounds)
    raise ValueError(f"max_runs is {parameters.max_runs}: at least one run is needed")


def decide_available_runs(tables: Mapping[str, ScoreTable], parameters: Parameters) -> Decision:
    """Decide from the existing runs alone: for a run that ended early, and for stored runs.

    With fixed `runs`, the averages use this number of runs of each case, even if some runs are missing. With
    `runs: auto` they use the first k runs of each case: k is the smallest number of runs of a case, at least
    1. A case that would need further runs to confirm that it broke is only a suspect.

    Raises:
        InvalidInputError: for a score outside 0 to 1 or a weight that is not a positive number.
        ValueError: `runs` is None and `max_runs` is below 1.
    """
    step = plan_next_step(tables, parameters)
    if isinstance(step, Decision):
        return step
    first, most = _get_round_bounds(parameters)
    rounds = parameters.runs or max(1, min(count_runs_per_case(tables).values()))
    assessments = build_assessments(tables, parameters, AnalysisStage(rounds, last=True, planned_runs=most))
    plan = plan_confirmation(assessments, tables, parameters, max(first, parameters.confirm_runs))
    statuses = _classify_all_cells(tables, plan, assessments, parameters)
    return build_decision(tables, parameters, assessments, statuses, plan, rounds=rounds)


def _get_round_bounds(parameters: Parameters) -> tuple[int, int]:
    """Return (first, last): the runs per case at the first and at the last comparison of the averages."""
    return parameters.first_runs, parameters.runs or parameters.max_runs


def _find_missing_runs(tables: Mapping[str, ScoreTable], rounds: int) -> dict[str, tuple[int, ...]]:
    return {
        case: tuple(range(made + 1, rounds + 1))
        for case, made in count_runs_per_case(tables).items()
        if made < rounds
    }


def _is_settled(assessment: Assessment, rule: MetricRule, parameters: Parameters, rounds: int) -> bool:
    """Return True if this metric needs no further round: nothing about it is undecided."""
    if assessment.lacks_scores or (assessment.is_exact and assessment.change is not None):
        return True
    undecided = any(
        part.verdict == "inconclusive"
        and (part.kind in {"minimum", "reliability"} or part.reason == "unproven")
        for part in assessment.checks
    )
    if undecided:
        return False
    change = assessment.change
    if change is None or rule.max_drop is None or change.drop < rule.max_drop / 2 - EPSILON:
        return True
    return is_futile(change, rule.max_drop, rounds, parameters)


def is_futile(change: MeanDifference, max_drop: float, rounds: int, parameters: Parameters) -> bool:
    """Return True if the chance that the drop reaches `max_drop` by the last round is `futility` or less.

    The remaining rounds are assumed to have the same drop on average, and to vary as the runs of each case
    did. Return False if `futility` is 0, if the drop has reached `max_drop`, or if no round is left.
    """
    left = 1 / rounds - 1 / parameters.max_runs
    if change.drop >= max_drop - EPSILON or left <= 0 or not parameters.futility:
        return False
    reach = compute_normal_quantile(parameters.futility) * change.run_deviation * math.sqrt(left)
    return change.drop + reach <= max_drop - EPSILON


def _classify_all_cells(
    tables: Mapping[str, ScoreTable],
    plan: ConfirmationPlan,
    assessments: Mapping[str, Assessment],
    parameters: Parameters,
) -> dict[Cell, RegressionStatus]:
    """Return the status of each (metric, case) pair that is tested by statistics.

    The test is repeated after each run of the case, from the first round on. The first result other than
    `rerun` is the status. If every test returns `rerun`, the status is `rerun` while the case may get further
    runs, and `suspect` afterwards.
    """
    return {
        (name, pair.case): _find_first_status(
            tables[name].cases[pair.case].candidate or (),
            pair.baseline,
            plan.need.get((name, pair.case)),
            plan.t,
            parameters,
        )
        for name, assessment in assessments.items()
        if tables[name].rule.judges_cases and not assessment.is_exact and not assessment.lacks_scores
        for pair in assessment.scores.pairs
    }


def _find_first_status(
    runs: Sequence[Score],
    baseline: Thousandths,
    need: int | None,
    t: float,
    parameters: Parameters,
) -> RegressionStatus:
    first, _ = _get_round_bounds(parameters)
    # The first run after which the case needed no follow-up run decides. Later rounds, made for the average,
    # run the case too. They must give it no second chance to pass the test, and no second risk to fail it.
    for count in range(min(first, len(runs)), len(runs) + 1):
        scores = normalize_scores(runs[:count])
        if not scores:  # the judge failed on all of its first runs
            continue
        status = classify_case(
            baseline, scores, t=t, need=need, case_drop=parameters.case_drop, limit=parameters.follow_up_limit
        )
        if status != "rerun":
            return status
    return "rerun" if len(runs) < max(first, parameters.confirm_runs) else "suspect"

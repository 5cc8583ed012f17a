"""Estimate the drops that a gate can detect, and simulate the gate on the stored runs of a suite.

A trial draws a baseline and a candidate, with replacement, from the stored runs of each case. So the two
differ only by luck. Then the trial compares them as the gate does (`simulate_procedure`). To simulate a drop
of known size, some scores of the candidate are replaced with 0. No agent is called, and the same seed returns
the same figures.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.types import MetricVerdict
from evalgate.statistics.auto_runs import NextRuns, plan_next_step
from evalgate.statistics.case_regression import Cell, build_confirmation_plan
from evalgate.statistics.mean_difference import compare_means, estimate_detectable_growth
from evalgate.statistics.metric_decisions import Decision, decide_without_follow_ups
from evalgate.statistics.parameters import EPSILON, MetricRule, Parameters
from evalgate.statistics.power_planning import estimate_detectable_drop
from evalgate.statistics.score_pairs import (
    EQUAL_WEIGHTS,
    UNIT,
    CaseScores,
    Pair,
    Score,
    ScoreTable,
    Thousandths,
    compute_score_mean,
    normalize_scores,
)

_MOST_RUNS = 50


@frozen
class DetectableDrop:
    """Estimate of the drops of one metric that the gate can detect, made from a baseline's stored runs.

    Only cases that have a score of the metric count.
    """

    cases: int
    average: float
    runs: tuple[int, int]
    """Smallest and largest number of stored runs with a score that a case has."""
    notice: float | None
    """Size from which drops of the average are caught about four times in five. None: no drop is caught as
    often (in JSON there is no infinity)."""
    unconfirmable: Mapping[str, int | None]
    """Cases with too few stored runs to confirm a break, and the number of stored runs that would suffice.

    All further stored runs are assumed to pass. None: 49 further runs are too few. Cases that always passed
    and cases with a mean below `case_drop` are left out.
    """


def estimate_detectable_drops(
    history: Mapping[str, Mapping[str, Sequence[Score]]],
    parameters: Parameters,
    max_drops: Mapping[str, float],
    weights: Mapping[str, float] = EQUAL_WEIGHTS,
) -> dict[str, DetectableDrop]:
    """Estimate for each metric the smallest drop that the gate would catch.

    Metrics without any score are left out.

    Args:
        history: stored scores, the oldest first: `history[METRIC][CASE_ID]`.
        parameters: parameters of the gate.
        max_drops: maps every metric of `history` to the smallest drop of its average that is too large.
        weights: maps a case id to the weight of the case; a case that is missing has the weight 1.

    Raises:
        InvalidInputError: for a score outside 0 to 1.
    """
    cells = {
        (metric, case): found
        for metric, cases in history.items()
        for case, scores in cases.items()
        if (found := normalize_scores(scores[-parameters.baseline_keep :], case))
    }
    lacking = _find_unconfirmable(cells, parameters)
    metrics = dict.fromkeys(metric for metric, _ in cells)
    return {
        metric: _estimate_detectable_drop(
            {case: scores for (name, case), scores in cells.items() if name == metric},
            {case: runs for (name, case), runs in lacking.items() if name == metric},
            parameters,
            max_drops[metric],
            len(metrics),
            weights,
        )
        for metric in metrics
    }


def _estimate_detectable_drop(
    cases: Mapping[str, Thousandths],
    lacking: Mapping[str, int | None],
    parameters: Parameters,
    max_drop: float,
    metrics: int,
    weights: Mapping[str, float],
) -> DetectableDrop:
    pairs = _pair_with_itself(cases, weights)
    if parameters.deterministic and all(scores[0] == scores[-1] for scores in cases.values()):
        smallest = max_drop  # compared exactly: this drop closes the gate, and no smaller one
    else:
        smallest = estimate_detectable_drop(pairs, parameters, max_drop=max_drop, metrics=metrics)
    counts = [len(scores) for scores in cases.values()]
    average = _compute_weighted_mean(
        {case: compute_score_mean(scores) for case, scores in cases.items()}, weights
    )
    notice = smallest if math.isfinite(smallest) else None
    return DetectableDrop(len(cases), average, (min(counts), max(counts)), notice, lacking)


def estimate_stored_growth(
    shares: Mapping[str, Sequence[Score]],
    parameters: Parameters,
    max_drop: float,
    weights: Mapping[str, float] = EQUAL_WEIGHTS,
) -> float:
    """Return the smallest drop of the mean share of budget figures that is caught about four times in five.

    The estimate uses stored runs only. The shares are computed from the logarithms of figures such as tokens
    (`LogShares`), so the share drops if the figures grow.

    Args:
        shares: stored shares by case, the oldest first; at least one share is not None.
        parameters: parameters of the gate.
        max_drop: smallest drop that is too large.
        weights: maps a case id to the weight of the case; a case that is missing has the weight 1.
    """
    kept = {case: normalize_scores(each[-parameters.baseline_keep :], case) for case, each in shares.items()}
    pairs = _pair_with_itself({case: scores for case, scores in kept.items() if scores}, weights)
    planned = parameters.runs or parameters.max_runs
    change = compare_means(pairs, alpha=parameters.alpha, is_figure=True, planned_runs=planned)
    return estimate_detectable_growth(change, max_drop, parameters.alpha * parameters.averages_share)


def _pair_with_itself(cases: Mapping[str, Thousandths], weights: Mapping[str, float]) -> list[Pair]:
    """Return pairs in which the candidate has the baseline's scores, as if nothing had changed."""
    return [Pair(case, scores, scores, weights.get(case, 1.0)) for case, scores in cases.items()]


def _compute_weighted_mean(means: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the weighted mean of the cases' means; `means` must not be empty."""
    total = math.fsum(weights.get(case, 1.0) for case in means)
    return math.fsum(weights.get(case, 1.0) * mean for case, mean in means.items()) / total


def _find_unconfirmable(cells: Mapping[Cell, Thousandths], parameters: Parameters) -> dict[Cell, int | None]:
    most = parameters.confirm_runs
    if parameters.runs:
        most = max(parameters.runs, most) if parameters.follow_up else parameters.runs
    plan = build_confirmation_plan(
        cells, case_alpha=parameters.case_alpha, case_drop=parameters.case_drop, confirm_runs=most
    )
    least = parameters.case_drop - EPSILON
    low = [cell for cell, scores in cells.items() if compute_score_mean(scores) >= least]
    full = round(parameters.pass_score * UNIT)
    return {
        cell: _find_runs_needed(cells[cell], len(low), parameters, most)
        for cell in low
        if cell not in plan.need and min(cells[cell]) < full
    }


def _find_runs_needed(scores: Thousandths, sharers: int, parameters: Parameters, most: int) -> int | None:
    """Return the number of stored runs of a case, `scores` included, with which a break can be confirmed.

    All further stored runs are assumed to pass. Return None if 49 further runs are too few. `sharers` is the
    number of (metric, case) pairs that share `case_alpha`. `most` is the largest number of candidate runs of
    a case.
    """
    for more in range(1, _MOST_RUNS):
        plan = build_confirmation_plan(
            {("", ""): (*scores, *(UNIT,) * more)},
            case_alpha=parameters.case_alpha / sharers,
            case_drop=parameters.case_drop,
            confirm_runs=most,
        )
        if plan.need:
            return len(scores) + more
    return None


StoredRun: TypeAlias = Mapping[str, Score]
"""Scores of one run of a case, by metric."""

_CAUGHT = 0.80  # a drop caught less often is not detected reliably
_FINEST = 0.01  # one point


@frozen
class TrialSummary:
    """Results of several trials; `failed` and `inconclusive` are shares of the trials, 0 to 1."""

    repeats: int
    failed: float
    inconclusive: float
    runs_per_case: float
    """Mean number of candidate runs of a case in a trial."""


@frozen
class GateSensitivity:
    """False-alarm rate of a gate and the smallest drop that it catches."""

    unchanged: TrialSummary
    """Trials with an unchanged agent: `failed` is the measured false-alarm rate."""
    smallest_drop: float | None
    """Smallest drop, in steps of 0.01, with which 80 % of the trials or more fail if all metrics drop by as
    much. None: even with a drop of 1, fewer trials fail."""


def simulate_procedure(
    metrics: Sequence[str],
    rules: Mapping[str, MetricRule],
    baseline: Mapping[str, Sequence[StoredRun]],
    answer: Callable[[str], StoredRun],
    parameters: Parameters,
    weights: Mapping[str, float] = EQUAL_WEIGHTS,
) -> Decision:
    """Decide as the gate does, with runs made by the function `answer` instead of an agent.

    Args:
        metrics: names of the gating metrics.
        rules: maps a metric to its rule; a metric that is missing gets the default rule.
        baseline: maps a case id to its stored runs.
        answer: function that gets a case id, and returns the scores of one new run.
        parameters: parameters of the gate.
        weights: maps a case id to the weight of the case; a case that is missing has the weight 1.

    Raises:
        InvalidInputError: for a score outside 0 to 1.
    """
    made: dict[str, list[StoredRun]] = {case: [] for case in baseline}
    while True:
        tables = {
            name: _build_gating_metric(name, rules.get(name, MetricRule()), baseline, made, weights)
            for name in metrics
        }
        step = _decide_step(tables, made, parameters)
        if isinstance(step, Decision):
            return step
        for case, numbers in step.runs.items():
            made[case].extend(answer(case) for _ in numbers)


def measure_gate_sensitivity(
    history: Mapping[str, Sequence[StoredRun]],
    rules: Mapping[str, MetricRule],
    parameters: Parameters,
    *,
    weights: Mapping[str, float] = EQUAL_WEIGHTS,
    repeats: int = 400,
    seed: int = 0,
) -> GateSensitivity:
    """Measure the false-alarm rate of a gate and the smallest drop that it catches, by trials on stored runs.

    `history` maps case ids to stored runs. At least one case must have a stored run; cases without one are
    left out. In each of the `repeats` trials, a case has as many baseline runs as it has stored runs.
    `weights` maps case ids to weights; a case that is missing has the weight 1.

    Raises:
        InvalidInputError: for a score outside 0 to 1.
    """
    stored = {case: tuple(runs) for case, runs in history.items() if runs}
    unchanged = simulate_trials(stored, rules, parameters, weights=weights, repeats=repeats, seed=seed)
    return GateSensitivity(
        unchanged, _find_smallest_drop(stored, rules, parameters, weights, repeats=repeats, seed=seed)
    )


def simulate_trials(
    history: Mapping[str, Sequence[StoredRun]],
    rules: Mapping[str, MetricRule],
    parameters: Parameters,
    *,
    drop: float = 0.0,
    weights: Mapping[str, float] = EQUAL_WEIGHTS,
    repeats: int = 400,
    seed: int = 0,
) -> TrialSummary:
    """Simulate the gate `repeats` times for an agent that lowers the average of every metric by `drop`.

    Apart from this drop, the agent's runs are like the stored runs in `history`, which must have at least one
    case, and at least one run of each case. If the average of a metric is smaller than `drop`, it falls to 0.
    `weights` maps case ids to weights; a case that is missing has the weight 1.

    Raises:
        InvalidInputError: for a score outside 0 to 1.
    """
    verdicts: list[MetricVerdict] = []
    runs = 0
    for repeat in range(repeats):
        dice = random.Random(f"{seed}/{repeat}")  # noqa: S311 - reproducible, and guards no secret
        outcome = _simulate_trial(history, rules, parameters, weights, dice, drop)
        verdicts.append(outcome.verdict)
        runs += outcome.cost.spent
    return TrialSummary(
        repeats,
        verdicts.count("fail") / repeats,
        verdicts.count("inconclusive") / repeats,
        runs / repeats / len(history),
    )


def _simulate_trial(
    history: Mapping[str, Sequence[StoredRun]],
    rules: Mapping[str, MetricRule],
    parameters: Parameters,
    weights: Mapping[str, float],
    dice: random.Random,
    drop: float,
) -> Decision:
    # Both sides are drawn, because with a fixed baseline the trials would not vary by the baseline's luck.
    baseline = {case: dice.choices(runs, k=len(runs)) for case, runs in history.items()}
    metrics = tuple(dict.fromkeys(name for runs in history.values() for run in runs for name in run))
    means = {name: _compute_metric_mean(history, name, weights) for name in metrics}

    def draw_answer(case: str) -> StoredRun:
        run, luck = dice.choice(history[case]), dice.random()
        # A score becomes 0 with the chance drop / mean, which lowers the average by `drop`.
        return {
            name: 0.0 if score is not None and luck * means[name] < drop else score
            for name, score in run.items()
        }

    return simulate_procedure(metrics, rules, baseline, draw_answer, parameters, weights)


def _compute_metric_mean(
    history: Mapping[str, Sequence[StoredRun]], metric: str, weights: Mapping[str, float]
) -> float:
    means = {
        case: sum(scores) / len(scores)
        for case, runs in history.items()
        if (scores := [score for run in runs if (score := run.get(metric)) is not None])
    }
    return _compute_weighted_mean(means, weights) if means else 0.0


def _find_smallest_drop(
    history: Mapping[str, Sequence[StoredRun]],
    rules: Mapping[str, MetricRule],
    parameters: Parameters,
    weights: Mapping[str, float],
    *,
    repeats: int,
    seed: int,
) -> float | None:
    """Return the smallest drop, in steps of 0.01, with which 80 % of the trials or more fail.

    Return None if fewer trials fail even with a drop of 1. The search is a bisection. It assumes that a
    larger drop fails at least as often as a smaller drop, which is true apart from luck.
    """
    # Every drop gets the same seed: the trials differ in the drop alone, so luck hardly matters.
    missed, caught = 0, round(1 / _FINEST) + 1
    while caught - missed > 1:
        points = (missed + caught) // 2
        drop = points * _FINEST
        found = simulate_trials(
            history, rules, parameters, drop=drop, weights=weights, repeats=repeats, seed=seed
        )
        missed, caught = (missed, points) if found.failed >= _CAUGHT else (points, caught)
    return caught * _FINEST if caught * _FINEST <= 1 else None


def _build_gating_metric(
    metric: str,
    rule: MetricRule,
    baseline: Mapping[str, Sequence[StoredRun]],
    made: Mapping[str, Sequence[StoredRun]],
    weights: Mapping[str, float],
) -> ScoreTable:
    cases = {
        case: CaseScores(
            [run.get(metric) for run in runs], [run.get(metric) for run in made[case]], weights.get(case, 1.0)
        )
        for case, runs in baseline.items()
    }
    return ScoreTable(cases, rule)


def _decide_step(
    tables: Mapping[str, ScoreTable], made: Mapping[str, Sequence[StoredRun]], parameters: Parameters
) -> NextRuns | Decision:
    if parameters.runs is None or parameters.follow_up:
        return plan_next_step(tables, parameters)
    if any(len(runs) < parameters.runs for runs in made.values()):
        numbers = tuple(range(1, parameters.runs + 1))
        return NextRuns(dict.fromkeys(made, numbers), "round")
    return decide_without_follow_ups(tables, parameters)

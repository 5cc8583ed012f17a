"""Check the averages of all metrics against the baseline, and against minima for the mean and pass^k."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.types import MetricVerdict, ThresholdEstimate
from evalgate.statistics.mean_difference import MeanDifference, compare_means
from evalgate.statistics.multiple_testing import compute_hochberg_levels, compute_holm_levels
from evalgate.statistics.parameters import EPSILON, MetricRule, Parameters, is_within_level
from evalgate.statistics.score_pairs import (
    Pair,
    PairedScores,
    ScoreTable,
    pair_cases,
)
from evalgate.statistics.threshold_test import (
    compare_mean_with_minimum,
    compare_reliability_with_minimum,
)

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


@frozen
class RuleCheck:
    """Result of one check of a metric."""

    kind: Literal["data", "average", "cases", "minimum", "reliability"]
    verdict: MetricVerdict
    reason: Reason


INTERIM_DIVISOR = 10
"""Number by which the significance level for a fail is divided in every round before the last one."""


@frozen
class AnalysisStage:
    """Point of a run at which metrics are assessed: after a number of rounds (one run of every case each)."""

    rounds: int
    """Number of first runs of each case that are used; later runs are follow-ups."""
    last: bool
    """True: no further round will follow, so the level is not divided by `INTERIM_DIVISOR`."""
    planned_runs: int
    """Largest number of rounds. With `runs: auto`, `MeanDifference.planned_deviation` is computed for this
    number of runs of each case."""


@frozen
class SignificanceLevels:
    """Levels with which the p of one metric's drop is compared."""

    fail: float
    """A drop that is too large fails if its p is at most this level."""
    doubt: float
    """A drop that is too large, but does not fail, is inconclusive if its p is at most this level. Luck alone
    often causes drops with a larger p."""


@frozen
class Assessment:
    """Results of all checks of one metric after some rounds, without the checks of single cases."""

    scores: PairedScores
    checks: tuple[RuleCheck, ...]
    """Results of the checks, at least one."""
    change: MeanDifference | None
    """Change of the average; None if there is nothing to compare or too little data."""
    level: float | None
    """Level that the p of the change was compared with; None if the change was not tested by statistics."""
    minimum: ThresholdEstimate | None
    """Comparison with the minimum; None if no minimum is asked for, or too few runs have a score."""
    reliability: ThresholdEstimate | None
    """Comparison of pass^k with its minimum. None if no pass^k is asked for, too few runs have a score, or a
    case has fewer than k scores."""
    is_exact: bool
    """True if the metric is compared without statistics, because the agent is declared deterministic and all
    runs of each case agree on each side."""

    @property
    def failed(self) -> bool:
        """Return True if a check of the average, the minimum or pass^k fails; then the gate closes."""
        return any(part.verdict == "fail" for part in self.checks)

    @property
    def lacks_scores(self) -> bool:
        """Return True if every check is inconclusive for lack of data; further rounds cannot change this."""
        return all(part.kind == "data" and part.verdict == "inconclusive" for part in self.checks)


def build_assessments(
    tables: Mapping[str, ScoreTable], parameters: Parameters, stage: AnalysisStage
) -> dict[str, Assessment]:
    """Return the assessment of each metric, from the first `stage.rounds` runs of every case.

    The significance level is divided among the metrics that are tested.

    Raises:
        InvalidInputError: for a score outside 0 to 1 or a weight that is not a positive number.
    """
    scores = {
        name: pair_cases(table.cases, keep=parameters.baseline_keep, first=stage.rounds, runs=stage.rounds)
        for name, table in tables.items()
    }
    changes = {
        name: change
        for name, table in tables.items()
        if (change := _compare_metric_means(scores[name], table.rule, parameters, stage)) is not None
    }
    # AUTO tests after every round, and repeated tests find something by luck. So a fail before the last round
    # needs stronger evidence.
    alpha = parameters.alpha * parameters.averages_share / (1 if stage.last else INTERIM_DIVISOR)
    tested = {
        name: change.p for name, change in changes.items() if not is_deterministic(scores[name], parameters)
    }
    levels = compute_holm_levels(tested, alpha)
    # The metrics share the level for doubt, too: four metrics must not quadruple the doubt about one agent.
    doubts = (
        compute_hochberg_levels(tested, parameters.doubt)
        if parameters.doubt < 1
        else dict.fromkeys(tested, 1.0)
    )
    tests = {name: SignificanceLevels(levels[name], doubts[name]) for name in tested}
    return {
        name: _build_assessment(
            scores[name], table.rule, parameters, stage, changes.get(name), tests.get(name)
        )
        for name, table in tables.items()
    }


def is_deterministic(scores: PairedScores, parameters: Parameters) -> bool:
    """Return True if the agent is declared deterministic, and its scores do not contradict this.

    Scores contradict if the runs of a case differ within the baseline or within the candidate.
    """
    return parameters.deterministic and not has_disagreeing_runs(scores)


def has_disagreeing_runs(scores: PairedScores) -> bool:
    """Return True if some case has different scores within its baseline runs or within its candidate runs."""
    return any(side[0] != side[-1] for pair in scores.pairs for side in (pair.baseline, pair.candidate))


def _has_too_few_scores(scores: PairedScores, parameters: Parameters) -> bool:
    return scores.missing > parameters.max_missing * scores.planned + EPSILON


def _compare_metric_means(
    scores: PairedScores, rule: MetricRule, parameters: Parameters, stage: AnalysisStage
) -> MeanDifference | None:
    if rule.max_drop is None or not scores.pairs or _has_too_few_scores(scores, parameters):
        return None
    return compare_means(
        scores.pairs,
        alpha=parameters.alpha,
        is_figure=rule.is_figure,
        planned_runs=None if parameters.runs else stage.planned_runs,
    )


def _build_assessment(
    scores: PairedScores,
    rule: MetricRule,
    parameters: Parameters,
    stage: AnalysisStage,
    change: MeanDifference | None,
    level: SignificanceLevels | None,
) -> Assessment:
    exact = is_deterministic(scores, parameters)
    if _has_too_few_scores(scores, parameters):
        # If the baseline has no case to compare with, this is the reason, not the missing scores.
        has_baseline = bool(scores.pairs) or "no_score" in scores.unpaired.values()
        part = RuleCheck("data", "inconclusive", "missing_runs" if has_baseline else "no_baseline")
        return Assessment(scores, (part,), None, None, None, None, exact)
    cases = tuple(scores.measured.values())
    alpha = parameters.alpha if stage.last else parameters.alpha / INTERIM_DIVISOR
    # All cases with a score count, new and changed cases too, because a minimum needs no baseline.
    minimum = reliability = None
    if cases and rule.min_score is not None:
        minimum = compare_mean_with_minimum(cases, rule.min_score, alpha=alpha, require=rule.require)
    if cases and rule.reliability is not None:
        reliability = compare_reliability_with_minimum(
            cases, rule.reliability, alpha=alpha, require=rule.require
        )
    parts = (
        *_check_average(rule, change, level, scores.pairs),
        *_check_thresholds(rule, minimum, reliability),
    )
    nothing = RuleCheck("data", "pass", "nothing_asked")
    fail = level.fail if level else None
    return Assessment(scores, parts or (nothing,), change, fail, minimum, reliability, exact)


def _check_average(
    rule: MetricRule, change: MeanDifference | None, level: SignificanceLevels | None, pairs: Sequence[Pair]
) -> Iterator[RuleCheck]:
    if rule.max_drop is None:
        return
    if change is None:
        yield RuleCheck("data", "inconclusive", "no_baseline")
    elif level is not None:
        verdict, reason = decide_mean_verdict(change, rule, level.fail, level.doubt)
        can_tell = reason != "likely_luck" or can_detect_total_drop(
            pairs, level.doubt, is_figure=rule.is_figure
        )
        if not can_tell:
            verdict, reason = "inconclusive", "noisy_drop"
        yield RuleCheck("average", verdict, reason)
    elif is_drop_excessive(change.drop, rule.max_drop):
        yield RuleCheck("average", "fail", "exact_fell")
    else:
        yield RuleCheck("average", "pass", "exact_held")


def is_drop_excessive(drop: float, limit: float) -> bool:
    """Return True if the drop is above 0 and at least `limit`; rounding errors are tolerated."""
    return drop > EPSILON and drop >= limit - EPSILON


def decide_mean_verdict(
    change: MeanDifference, rule: MetricRule, level: float, doubt: float = 1.0
) -> tuple[MetricVerdict, Reason]:
    """Return the verdict on the change of an average, and its reason.

    - A drop of `max_drop` or more fails if its p is at most `level`. Otherwise it is inconclusive if its p is
      at most `doubt`, or if proof is required. Otherwise it passes.
    - A smaller drop or a rise passes, with one exception: it is inconclusive if proof is required and the
      interval of the drop reaches beyond `max_drop`.
    """
    limit = rule.max_drop or 0.0
    if is_drop_excessive(change.drop, limit):
        return _decide_drop_verdict(change, rule, level, doubt)
    proven = change.high <= limit + EPSILON
    if rule.require == "proof" and not proven:
        return "inconclusive", "unproven"
    if change.same:
        return "pass", "unchanged"
    if change.drop <= -max(limit, EPSILON) + EPSILON and is_within_level(change.rise_p, level):
        return "pass", "better"
    if change.drop > EPSILON and is_within_level(change.p, level):
        return "pass", "small_drop"
    return "pass", "proven" if proven else "no_sign"


def _decide_drop_verdict(
    change: MeanDifference, rule: MetricRule, level: float, doubt: float
) -> tuple[MetricVerdict, Reason]:
    """Return the verdict on a drop of `max_drop` or more, and its reason."""
    if is_within_level(change.p, level):
        return "fail", "average_fell"
    doubtful = rule.require == "proof" or is_within_level(change.p, doubt)
    return ("inconclusive", "noisy_drop") if doubtful else ("pass", "likely_luck")


def can_detect_total_drop(pairs: Sequence[Pair], doubt: float, *, is_figure: bool = False) -> bool:
    """Return True if the largest possible drop would have a p of at most `doubt`.

    After the largest drop, all candidate runs score 0 (below 0 if `is_figure`). With few runs, such as
    one run on each side of two cases, even this drop has a larger p. Then luck can explain every drop.
    """
    # -1 thousandth: a figure may be larger than all stored figures, and then its share is smaller than 0.
    lowest = -1 if is_figure else 0
    worst = [replace(pair, candidate=(lowest,) * len(pair.candidate)) for pair in pairs]
    return is_within_level(compare_means(worst, alpha=doubt, is_figure=is_figure).p, doubt)


_THRESHOLD_REASONS: Mapping[Literal["minimum", "reliability"], Mapping[MetricVerdict, Reason]] = {
    "minimum": {"pass": "meets_minimum", "fail": "below_minimum", "inconclusive": "near_minimum"},
    "reliability": {"pass": "reliable", "fail": "unreliable", "inconclusive": "near_reliable"},
}


def _check_thresholds(
    rule: MetricRule, minimum: ThresholdEstimate | None, reliability: ThresholdEstimate | None
) -> Iterator[RuleCheck]:
    if rule.min_score is not None:
        yield _check_estimate("minimum", minimum) or RuleCheck("data", "inconclusive", "missing_runs")
    if rule.reliability is not None:
        too_few = RuleCheck("reliability", "inconclusive", "too_few_runs")
        yield _check_estimate("reliability", reliability) or too_few


def _check_estimate(
    kind: Literal["minimum", "reliability"], estimate: ThresholdEstimate | None
) -> RuleCheck | None:
    if estimate is None:
        return None
    return RuleCheck(kind, estimate.verdict, _THRESHOLD_REASONS[kind][estimate.verdict])

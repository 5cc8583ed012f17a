"""Summarise scored runs per metric, with baseline deltas and significance tests."""

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from evalgate.config.schema.gate import GateConfig
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import UNIT, Range
from evalgate.core.types import CaseMetric, CaseResult, Effort, Flip, MetricSummary
from evalgate.gating.verdict import mark_regressions
from evalgate.metrics.aggregation import grouped, summarise

if TYPE_CHECKING:
    from evalgate.gating.sampling import Sampling


_EPSILON = 1e-9  # a mean is a sum: its last bits are noise


def flip(
    score: float | None,
    threshold: float,
    members: Sequence[tuple[CaseResult, CaseMetric]],
    known: Range = UNIT,
) -> Flip | None:
    """The distance, and the fewest runs that would need the best score; the worst where the threshold is met.

    `members` are the cases of the mean, those without a score included. None without a mean, or for scores
    beyond their range, where one run can make any difference.
    """
    # Arrays: there may be hundreds of thousands, beside a record that fills the memory.
    weights, counts, scores = array("d"), array("Q"), array("d")
    for case, metric in members:
        if metric.score is not None:
            found = _scores(case, metric)
            weights.append(case.weight)
            counts.append(len(found))
            scores.extend(found)
    low, high = known.low, known.high
    if score is None or any(not low <= each <= high for each in scores):
        return None
    rising, distance = score < threshold, abs(score - threshold)
    total, rest = math.fsum(weights), iter(scores)
    gains = array(
        "d",
        (
            weight / total * ((high - each) if rising else each - low) / count
            for weight, count in zip(weights, counts, strict=True)
            for each in islice(rest, count)
        ),
    )
    return Flip(threshold, distance, _fewest(gains, distance - _EPSILON if rising else distance + _EPSILON))


def _scores(case: CaseResult, metric: CaseMetric) -> list[float]:
    name = metric.name
    return [
        each.score
        for run in case.runs
        if not run.confirms
        for each in run.metrics
        if each.name == name and each.score is not None
    ]


def _fewest(gains: Iterable[float], distance: float) -> int | None:
    """How many of the largest gains reach so far; None: all of them do not."""
    reached = 0.0
    for count, gain in enumerate(sorted(gains, reverse=True), 1):
        reached += gain
        if reached >= distance:
            return count
    return None


Results: TypeAlias = Callable[[int | None], tuple[CaseResult, ...]]
"""Every case in file order. Runs beyond so many rounds only confirm; None: all of them count."""


@frozen
class Worth:
    """What the runs are worth."""

    metrics: tuple[MetricSummary, ...]
    cases: tuple[CaseResult, ...]
    rounds: int
    """Runs of every case that the means rest on."""
    effort: Effort | None = None
    notices: tuple[str, ...] = ()


def worth(
    policy: GateConfig, runs: int | Literal["auto"], results: Results, sampling: "Sampling | None"
) -> Worth:
    """All that can be said of the results before the verdict."""
    cases = results(None)
    decision = sampling.decision(cases) if sampling else None
    if sampling is None or decision is None:
        rounds = min((len(case.runs) for case in cases), default=0) if runs == "auto" else runs
        cases = _counting(sampling, results, rounds)
        beyond = sampling.scores_beyond_range(cases) if sampling else ()
        return Worth(_beside(policy, cases, sampling), cases, rounds, notices=tuple(beyond))
    from evalgate.gating.statistics_adapter import (
        corrections_told,
        effort_of,
        judged,
        means_below_thresholds,
        notices_of,
        with_corrections,
        words_for,
    )

    rounds = max(metric.rounds for metric in decision.metrics.values())
    changes, excesses = sampling.line_changes(cases, decision), sampling.excesses(cases, decision)
    cases = _counting(sampling, results, rounds)
    blocking = policy.on_inconclusive == "fail"
    words = words_for(sampling.baseline, cases, sampling.policy.parameters, blocking=blocking)
    found = judged(_beside(policy, cases, sampling), cases, decision, words, changes)
    metrics = with_corrections(grouped(cases), found.metrics, excesses)
    effort = effort_of(decision) if sampling.is_auto else None
    notices = (
        *sampling.scores_beyond_range(cases),
        *notices_of(decision, sampling.policy.parameters),
        *means_below_thresholds(metrics),
        *corrections_told(metrics),
    )
    return Worth(metrics, found.cases, rounds, effort, notices)


def _counting(sampling: "Sampling | None", results: Results, rounds: int) -> tuple[CaseResult, ...]:
    """Return the cases with their means over so many rounds; runs beyond them only follow up."""
    if sampling is None or not sampling.follows_up:
        return results(None) if sampling is None else sampling.classified(results(None))
    return sampling.classified(results(rounds))


def _beside(
    policy: GateConfig, cases: tuple[CaseResult, ...], sampling: "Sampling | None"
) -> tuple[MetricSummary, ...]:
    """The summaries with plain differences: all that can be said of scores beyond 0 to 1."""
    metrics = tuple(
        replace(summary, flip=flip(summary.score, summary.minimum or 0.0, members, Range(*summary.range)))
        for summary, members in zip(summarise(cases), grouped(cases).values(), strict=True)
    )
    baseline = sampling.baseline if sampling else None
    if baseline is None:
        return metrics
    from evalgate.gating.comparison import add_deltas

    return mark_regressions(add_deltas(metrics, cases, baseline), policy)

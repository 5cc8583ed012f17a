"""Summarise scored runs per metric, with baseline deltas and significance tests."""

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from evalgate.config.schema.gate import GateConfig
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import UNIT_RANGE, Range
from evalgate.core.types import CaseMetric, CaseResult, Margin, MetricSummary, SamplingCost
from evalgate.gating.verdict import flag_regressions
from evalgate.metrics.aggregation import group_by_metric, summarize_metrics

if TYPE_CHECKING:
    from evalgate.gating.sampling import AdaptiveRuns


_EPSILON = 1e-9  # a mean is a sum: its last bits are noise


def compute_threshold_margin(
    score: float | None,
    threshold: float,
    members: Sequence[tuple[CaseResult, CaseMetric]],
    known: Range = UNIT_RANGE,
) -> Margin | None:
    """Return the distance of a mean from its threshold, and the fewest runs that could turn the result.

    Such runs would score best if the mean is below the threshold, and worst otherwise. `members` are the
    cases of the mean, those without a score included. Return None without a mean, or for scores outside
    their range, where one run can make any difference.
    """
    # Arrays: there may be hundreds of thousands of scores, next to a record that fills the memory.
    weights, counts, scores = array("d"), array("Q"), array("d")
    for case, metric in members:
        if metric.score is not None:
            found = _list_run_scores(case, metric)
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
    return Margin(
        threshold, distance, _count_fewest_runs(gains, distance - _EPSILON if rising else distance + _EPSILON)
    )


def _list_run_scores(case: CaseResult, metric: CaseMetric) -> list[float]:
    name = metric.name
    return [
        each.score
        for run in case.runs
        if not run.confirms
        for each in run.metrics
        if each.name == name and each.score is not None
    ]


def _count_fewest_runs(gains: Iterable[float], distance: float) -> int | None:
    """Count the largest gains that together reach `distance`, or return None if all of them do not."""
    reached = 0.0
    for count, gain in enumerate(sorted(gains, reverse=True), 1):
        reached += gain
        if reached >= distance:
            return count
    return None


ResultsByRounds: TypeAlias = Callable[[int | None], tuple[CaseResult, ...]]
"""Function that returns every case in file order. Runs beyond the given number of rounds only confirm;
None: all runs count."""


@frozen
class RunSummary:
    """Summary of all scored runs."""

    metrics: tuple[MetricSummary, ...]
    cases: tuple[CaseResult, ...]
    rounds: int
    """Runs of every case that the means are computed from."""
    effort: SamplingCost | None = None
    notices: tuple[str, ...] = ()


def summarize_runs(
    policy: GateConfig, runs: int | Literal["auto"], results: ResultsByRounds, sampling: "AdaptiveRuns | None"
) -> RunSummary:
    """Summarise scored runs per metric, with baseline deltas, significance tests and notices.

    `results` returns the cases. `sampling` is None if comparing plain means is enough.
    """
    cases = results(None)
    decision = sampling.decide_runs(cases) if sampling else None
    if sampling is None or decision is None:
        rounds = min((len(case.runs) for case in cases), default=0) if runs == "auto" else runs
        cases = _limit_rounds(sampling, results, rounds)
        beyond = sampling.list_range_notices(cases) if sampling else ()
        return RunSummary(
            _summarize_with_deltas(policy, cases, sampling), cases, rounds, notices=tuple(beyond)
        )
    from evalgate.gating.statistics_adapter import (
        annotate_results,
        apply_corrections,
        build_message_context,
        describe_corrections,
        describe_low_means,
        list_decision_notices,
    )

    rounds = max(metric.rounds for metric in decision.metrics.values())
    changes, excesses = (
        sampling.find_line_differences(cases, decision),
        sampling.compute_excesses(cases, decision),
    )
    cases = _limit_rounds(sampling, results, rounds)
    blocking = policy.on_inconclusive == "fail"
    words = build_message_context(sampling.baseline, cases, sampling.policy.parameters, blocking=blocking)
    found = annotate_results(_summarize_with_deltas(policy, cases, sampling), cases, decision, words, changes)
    metrics = apply_corrections(group_by_metric(cases), found.metrics, excesses)
    effort = decision.cost if sampling.is_auto else None
    notices = (
        *sampling.list_range_notices(cases),
        *list_decision_notices(decision, sampling.policy.parameters),
        *describe_low_means(metrics),
        *describe_corrections(metrics),
    )
    return RunSummary(metrics, found.cases, rounds, effort, notices)


def _limit_rounds(
    sampling: "AdaptiveRuns | None", results: ResultsByRounds, rounds: int
) -> tuple[CaseResult, ...]:
    """Return the cases with their means over `rounds` rounds; runs beyond them only follow up."""
    if sampling is None or not sampling.follows_up:
        return results(None) if sampling is None else sampling.classify_failures(results(None))
    return sampling.classify_failures(results(rounds))


def _summarize_with_deltas(
    policy: GateConfig, cases: tuple[CaseResult, ...], sampling: "AdaptiveRuns | None"
) -> tuple[MetricSummary, ...]:
    """Return the summaries with plain differences; scores outside 0 to 1 get no more than these."""
    metrics = tuple(
        replace(
            summary,
            flip=compute_threshold_margin(summary.score, summary.minimum or 0.0, members, summary.range),
        )
        for summary, members in zip(summarize_metrics(cases), group_by_metric(cases).values(), strict=True)
    )
    baseline = sampling.baseline if sampling else None
    if baseline is None:
        return metrics
    from evalgate.gating.comparison import add_deltas

    return flag_regressions(add_deltas(metrics, cases, baseline), policy)

"""Summarize all cases of an evaluation: mean and margin of each metric, totals, and flaky cases."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from operator import attrgetter
from typing import Any, NamedTuple, overload

from evalgate.core.formatting import join_first, pluralize
from evalgate.core.means import EPSILON, compute_weighted_mean, round_mean_to_limit
from evalgate.core.sanitize import shorten_text
from evalgate.core.score_ranges import UNIT_RANGE, Range
from evalgate.core.types import (
    NON_AGENT_OUTCOMES,
    CaseMetric,
    CaseResult,
    Margin,
    MetricSummary,
    RunMetric,
    Status,
    Totals,
    TurnMetric,
    Usage,
)


class MetricKey(NamedTuple):
    """Properties by which metrics are grouped. Each key has one `MetricSummary`, a row in reports."""

    name: str
    fingerprint: str
    threshold: float
    scope: str
    min_mean: float | None
    gates: bool = True


_MOST_NAMED = 5
_QUOTED = 300  # characters of a reason, as in the verdict


_get_key = attrgetter(*MetricKey._fields)
"""Function that returns the fields of `MetricKey` from a `CaseMetric`, as a plain tuple.

Building a `MetricKey` takes twice the time."""


class MetricGroup(Sequence[tuple[CaseResult, CaseMetric]]):
    """The pairs (case, metric) of all cases with the same `MetricKey`.

    The cases and the metrics are in two lists, which need a fifth of the memory of a list of pairs.
    """

    def __init__(self) -> None:
        self.cases: list[CaseResult] = []
        self.metrics: list[CaseMetric] = []

    def __len__(self) -> int:
        return len(self.cases)

    @overload
    def __getitem__(self, index: int) -> tuple[CaseResult, CaseMetric]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[CaseResult, CaseMetric]]: ...

    def __getitem__(
        self, index: int | slice
    ) -> tuple[CaseResult, CaseMetric] | list[tuple[CaseResult, CaseMetric]]:
        if isinstance(index, slice):
            return list(zip(self.cases[index], self.metrics[index], strict=True))
        return self.cases[index], self.metrics[index]

    def __iter__(self) -> Iterator[tuple[CaseResult, CaseMetric]]:
        return zip(self.cases, self.metrics, strict=True)


def group_by_metric(cases: Sequence[CaseResult]) -> dict[MetricKey, MetricGroup]:
    """Group the metrics of the gating cases by `MetricKey`; a case is in one group for each of its metrics.

    The groups are in the order of their first cases. Cases in quarantine, and imported cases without a
    review, do not gate and are left out.
    """
    groups: dict[MetricKey, MetricGroup] = {}
    for case in cases:
        for metric in case.metrics if case.gates else ():
            key: Any = _get_key(metric)
            group = groups.get(key)
            if group is None:
                group = groups[MetricKey(*key)] = MetricGroup()
            group.cases.append(case)
            group.metrics.append(metric)
    return groups


def summarize_metrics(
    cases: Sequence[CaseResult], *, with_margins: bool = False
) -> tuple[MetricSummary, ...]:
    """Return a summary for each `MetricKey` of the gating cases, in the order in which the keys first occur.

    A metric has several summaries if its definition, threshold, scope or required mean differs between cases,
    for example because eval sets have their own thresholds files. If `with_margins` is True, `flip` of each
    summary is the distance of the mean from the required mean (`minimum`).
    """
    groups = group_by_metric(cases)
    times = Counter((key.name, key.scope) for key in groups)
    summaries = []
    for key, group in groups.items():
        summary = _summarize_metric(key.name, key.scope, group, split=times[key.name, key.scope] > 1)
        if with_margins:
            margin = compute_threshold_margin(summary.score, summary.minimum or 0.0, group, summary.range)
            summary = replace(summary, flip=margin)
        summaries.append(summary)
    return tuple(summaries)


def _summarize_metric(name: str, scope: str, members: MetricGroup, *, split: bool) -> MetricSummary:
    metrics = members.metrics
    scores = [metric.score for metric in metrics if metric.score is not None]
    weights = [case.weight for case, metric in members if metric.score is not None]
    threshold = metrics[0].threshold
    score = round_mean_to_limit(compute_weighted_mean(scores, weights), scores, threshold) if scores else None
    scored = [metric for metric in metrics if metric.score is not None]
    min_mean = metrics[0].min_mean  # equal for all members, because it is part of the group's key
    status: Status = "not_evaluated"
    if score is not None:
        met = metrics[0].range.is_met(score, threshold if min_mean is None else min_mean - EPSILON)
        # By a framework's rule or by pass@k, every case may pass although the mean is below the threshold.
        met = met or (min_mean in {None, threshold} and all(m.status == "passed" for m in scored))
        # With a baseline, `gating.significance` may replace this status.
        status = "passed" if met else "failed"
    return MetricSummary(
        name=name,
        score=score,
        threshold=threshold,
        status=status,
        baseline=None,
        delta=None,
        n=sum(
            metric.status != "not_evaluated" or any(run.outcome != "answered" for run in case.runs)
            for case, metric in members
        ),
        errors=sum(metric.status == "errored" for metric in metrics),
        eval_sets=tuple(dict.fromkeys(case.eval_set_id for case in members.cases)) if split else (),
        scope=scope,
        range=metrics[0].range,
        min_mean=None if min_mean == threshold else min_mean,
        agreement=_compute_self_agreement(name, members.cases),
        gates=metrics[0].gates,
    )


def compute_threshold_margin(
    score: float | None,
    threshold: float,
    members: Sequence[tuple[CaseResult, CaseMetric]],
    score_range: Range = UNIT_RANGE,
) -> Margin | None:
    """Return the distance of a mean from its threshold, and the fewest runs that could move it across.

    `score` is the mean. `members` are its cases, also those without a score. To count the runs, their scores
    are replaced by the highest score of `score_range` if the mean is below the threshold, else by the lowest.
    The number is None if the mean stays on its side of the threshold even when all scores are replaced.

    Return None if `score` is None. Also return None if the score of a run is outside `score_range`, because a
    single run could then move the mean by any amount.
    """
    # Arrays save memory: there may be hundreds of thousands of scores, besides the record itself.
    weights, counts, scores = array("d"), array("Q"), array("d")
    for case, metric in members:
        if metric.score is not None:
            found = _list_run_scores(case, metric.name)
            weights.append(case.weight)
            counts.append(len(found))
            scores.extend(found)
    low, high = score_range
    if score is None or (scores and not low <= min(scores) <= max(scores) <= high):
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
        threshold, distance, _count_fewest_runs(gains, distance - EPSILON if rising else distance + EPSILON)
    )


def _list_run_scores(case: CaseResult, name: str) -> list[float]:
    return [
        each.score
        for run in case.runs
        if not run.confirms
        for each in run.metrics
        if each.name == name and each.score is not None
    ]


def _count_fewest_runs(gains: Iterable[float], distance: float) -> int | None:
    """Return the smallest number of gains with a sum of `distance` or more; None if all sum to less.

    A gain is the amount by which one run can move the mean.
    """
    reached = 0.0
    for count, gain in enumerate(sorted(gains, reverse=True), 1):
        reached += gain
        if reached >= distance:
            return count
    return None


def _compute_self_agreement(name: str, cases: Sequence[CaseResult]) -> float | None:
    """Return the agreement between a judge's samples for the same question, from 0 to 1.

    `name` is the name of the judged metric. Return None if no question has two samples.
    """
    judged = [run for case in cases for run in case.runs if run.judge is not None]
    if not judged:
        return None
    from evalgate.llm.sample_agreement import compute_self_agreement, read_sample_scores

    metrics: Iterator[RunMetric | TurnMetric] = chain.from_iterable(
        (*run.metrics, *chain.from_iterable(turn.metrics for turn in run.turns)) for run in judged
    )
    return compute_self_agreement(
        read_sample_scores(each.details) for each in metrics if each.details and each.name == name
    )


def compute_totals(cases: Sequence[CaseResult]) -> Totals:
    """Count the cases by status, and sum the usage of agent and simulated users over all runs.

    The usage of earlier attempts at a run is included, the usage of judges is not.
    """
    runs = [run for case in cases for run in case.runs]
    usage = Usage()
    for run in runs:
        for each in run.usages:
            usage += each
    statuses = [case.status for case in cases]
    return Totals(
        cases=len(cases),
        passed=statuses.count("passed"),
        failed=statuses.count("failed"),
        errored=statuses.count("errored"),
        not_evaluated=statuses.count("not_evaluated"),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
        known_usd=usage.known_usd,
    )


def compute_lost_share(case: CaseResult) -> float:
    """Return the share of a case's runs in which no metric has a score, 0 to 1; 1 if the case has no run.

    Follow-up runs do not count.
    """
    runs = [run for run in case.runs if not run.confirms]
    lost = sum(all(metric.score is None for metric in run.metrics) for run in runs)
    return lost / len(runs) if runs else 1.0


def describe_inconsistent_cases(cases: Sequence[CaseResult]) -> str:
    """Return a sentence about gating cases with both passed and failed runs; "" if there are no such cases.

    Runs that were cut off, or in which a service or a judge failed, do not count.
    """
    repeated = [case for case in cases if len(case.runs) > 1 and case.gates]
    flipping = [case for case in repeated if _has_inconsistent_runs(case)]
    if not flipping:
        return ""
    names = ", ".join(case.eval_id for case in flipping[:5]) + (", …" if len(flipping) > 5 else "")
    return f"{pluralize(len(flipping), 'case')} did not end the same way in every run: {names}."


def describe_partly_scored_cases(cases: Sequence[CaseResult]) -> Iterator[str]:
    """Yield a sentence for each metric that lacks a score in some, but not all, runs of a gating case.

    Follow-up runs and runs without an answer do not count.
    """
    found: dict[str, list[tuple[CaseResult, list[RunMetric]]]] = {}
    for case in cases:
        runs = [run for run in case.runs if not run.confirms and run.outcome == "answered"]
        if not case.gates or all(each.score is not None for run in runs for each in run.metrics):
            continue  # fast path: nearly all cases end here
        for metric in case.metrics:
            own = [each for run in runs for each in run.metrics if each.name == metric.name]
            if metric.score is not None and any(each.score is None for each in own):
                found.setdefault(metric.name, []).append((case, own))
    for name, members in found.items():
        results = [each for _, own in members for each in own]
        unscored = [each for each in results if each.score is None]
        of = f"of {pluralize(len(results), 'run')} of {pluralize(len(members), 'case')}"
        ids = join_first([case.eval_id for case, _ in members], _MOST_NAMED)
        reason = next((each.reason for each in unscored if each.reason), "")
        first = f" The first reason: {shorten_text(reason, _QUOTED)}" if reason else ""
        yield f"{name} has no score in {len(unscored):,} {of} ({ids}): its mean is that of the rest.{first}"


def _has_inconsistent_runs(case: CaseResult) -> bool:
    # Runs that were cut off, or in which a service or a judge failed, do not show how the agent behaves.
    conclusive = [
        run
        for run in case.runs
        if run.outcome not in NON_AGENT_OUTCOMES
        and all(each.gating_status != "errored" for each in run.metrics)
    ]
    endings = {
        run.outcome == "answered" and all(each.gating_status != "failed" for each in run.metrics)
        for run in conclusive
    }
    return len(endings) > 1

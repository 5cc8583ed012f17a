"""Measure the flakiness of the cases in a baseline: the disagreement between their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from evalgate.core.formatting import join_quoted
from evalgate.core.frozen import frozen
from evalgate.core.plugin_registry import FINAL_STATE
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import Baseline, BaselineRun, CaseKey

MetricThresholds: TypeAlias = Mapping[str, float | None]
"""By metric, the worst score that passes; None: the metric is only reported, and fails no run."""


@frozen
class BaselineThresholds:
    """Thresholds of metrics for all cases, and deviating thresholds of single cases."""

    common: MetricThresholds
    own: Mapping[CaseKey, MetricThresholds] = field(default_factory=dict)
    """By case, only the thresholds that differ from `common`."""
    remark: str = ""
    """Sentence about thresholds of single cases that are not known; "" if all are known."""

    def get_thresholds(self, case: CaseKey) -> MetricThresholds:
        """Return the thresholds of a case by metric: the common thresholds, overridden by the case's own."""
        return {**self.common, **self.own.get(case, {})}


@frozen
class Flakiness:
    """Flakiness of one case over its stored runs."""

    runs: int
    """Number of runs that count; all other fields are computed from these runs."""
    passed: int
    flip_rate: float | None
    """Chance that one of two random runs of the case passes and the other fails; None below two runs.

    It is the unbiased estimate 2·c·(n−c)/(n·(n−1)) for c passed of n runs: 1 for one passed of two runs, and
    at most 0.5 for many runs. The order of the runs does not matter.
    """
    latest_passes: int
    """Number of passed runs since the last failed run. A high number shows that the case has recovered."""


def measure_baseline_flakiness(
    baseline: Baseline, thresholds: BaselineThresholds, pass_score: float
) -> dict[tuple[str, str], Flakiness]:
    """Return the flakiness of each case with at least two runs that count, by (eval set id, case id).

    A run without an answer failed. An answered run passed if every score that counts meets its threshold. A
    run without any score that counts is left out.

    The score of a metric with an entry in `thresholds` counts, unless the entry is None. A metric without an
    entry must reach `pass_score`, a share of the metric's range from 0 to 1. Its score does not count if
    lower scores are better.
    """
    found = {
        case.key: measure_flakiness([score_run_pass(run, own, pass_score) for run in case.runs])
        for case in baseline.cases
        for own in [thresholds.get_thresholds(case.key)]
    }
    return {key: flakiness for key, flakiness in found.items() if flakiness.runs > 1}


def measure_flakiness(runs: Sequence[float | None]) -> Flakiness:
    """Return the flakiness of a case from its runs, the oldest first.

    A run is 1.0 if it passed, 0.0 if it failed, and None if it does not count.
    """
    passes = [run == 1.0 for run in runs if run is not None]
    n, passed = len(passes), sum(passes)
    rate = 2 * passed * (n - passed) / (n * (n - 1)) if n > 1 else None
    trailing = next((index for index, good in enumerate(reversed(passes)) if not good), n)
    return Flakiness(n, passed, rate, trailing)


def score_run_pass(run: BaselineRun, thresholds: MetricThresholds, pass_score: float | None) -> float | None:
    """Return 1.0 for a passed run, 0.0 for a failed run, None for a run that does not count.

    A run without an answer failed. An answered run passed if every score that counts meets its threshold. A
    run without any score that counts does not count.

    The score of a metric with an entry in `thresholds` counts, unless the entry is None. A metric without an
    entry must reach `pass_score`, a share of the metric's range from 0 to 1. Its score does not count if
    `pass_score` is None, or if lower scores are better.
    """
    if run.outcome != "answered":
        return 0.0
    met = [
        known.is_met(score, threshold)
        for name, score in run.scores.items()
        if score is not None
        for known in [get_score_range(name)]
        # A budget metric without a threshold cannot fail: a `pass_score` of 1.0 would mean the figure 0.
        for assumed in [None if pass_score is None or known.lower_is_better else known.to_score(pass_score)]
        for threshold in [thresholds.get(name, assumed)]
        if threshold is not None
    ]
    return float(all(met)) if met else None


def describe_assumed_thresholds(baseline: Baseline, thresholds: MetricThresholds, pass_score: float) -> str:
    """Return a sentence about metrics that count as failed although their thresholds are not known.

    Such a metric has a score below `pass_score`, and no entry in `thresholds`. `pass_score` is a share of the
    metric's range from 0 to 1. Return "" if there is no such metric. Checks, the final session state and
    budgets are never named.
    """
    scores = (item for case in baseline.cases for run in case.runs for item in run.scores.items())
    names = {
        name
        for name, score in scores
        if score is not None and name not in thresholds and name != FINAL_STATE
        if not name.startswith("check/")
        for known in [get_score_range(name)]
        if not known.lower_is_better and not known.is_met(score, known.to_score(pass_score))
    }
    if not names:
        return ""
    return (
        f"No threshold of {join_quoted(sorted(names))} is known here, so runs below "
        f"`gate.statistics.pass_score` ({pass_score:g}) count as failed. Name the file that has it with "
        "--thresholds, and the baseline with --to, or write it under `criteria`."
    )

"""Compare scored runs with the baseline, by plain means and by significance tests; find changed cases."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evalgate.config.schema.gate import GateConfig
from evalgate.core.frozen import frozen
from evalgate.core.means import EPSILON
from evalgate.core.score_ranges import Range
from evalgate.core.types import Baseline, CaseResult, Comparison, Criterion, MetricSummary, SamplingCost
from evalgate.metrics.metric_summaries import summarize_metrics

if TYPE_CHECKING:
    from evalgate.gating.statistical_policy import StatisticalPolicy
    from evalgate.statistics.metric_decisions import Decision


@frozen
class ScoredRuns:
    """All cases of a run with their scores, before the comparison with a baseline."""

    cases: tuple[CaseResult, ...]
    """Cases in file order. The mean of a case is over its first `rounds` runs, without follow-up runs."""
    rounds: int
    """Number of runs of every case that count for the means."""
    statistics: "StatisticalPolicy | None" = None
    """Settings of the statistics; None if comparing plain means is enough."""
    decision: "Decision | None" = None
    """Decision of the statistics on these runs; None if the statistics can judge no metric."""


@frozen
class ComparedRuns:
    """Scored runs, compared with their baseline, from which the verdict is decided."""

    metrics: tuple[MetricSummary, ...]
    cases: tuple[CaseResult, ...]
    baseline_comparison: Comparison | None = None
    """Changed cases and metrics since the baseline; None without a baseline."""
    effort: SamplingCost | None = None
    """Number of runs that `runs: auto` took; None with a fixed number of runs."""
    notices: tuple[str, ...] = ()


def compare_runs(
    scored: ScoredRuns,
    baseline: Baseline | None,
    gate: GateConfig,
    *,
    whole_sets: Collection[str] | None = None,
    with_power: bool = True,
) -> ComparedRuns:
    """Compare scored runs with the baseline, by plain means and by significance tests.

    If `scored` has no settings of the statistics, the runs are only summarized. For a metric that the
    statistics judge, `apply_decision` sets `status`, `flip`, `regressed`, `baseline` and `delta`. For all
    other metrics these come from plain means.

    `whole_sets` has the ids of the eval sets of which every case was run; None: all eval sets.

    `with_power` is False if only the verdict is wanted. Then the drops that the gate catches reliably are not
    estimated, because the estimate takes longer than all the rest.
    """
    if scored.statistics is None:  # there is no baseline then, and no rule that needs statistics
        return ComparedRuns(summarize_metrics(scored.cases, with_margins=True), scored.cases)
    # Imported here, because a run without a baseline does not need the statistics.
    from evalgate.gating.case_changes import add_deltas, build_comparison
    from evalgate.gating.failure_classification import classify_failures
    from evalgate.gating.significance import apply_decision

    # First of all: a case's follow-up decides how the case is compared, and its part in the verdict.
    cases = classify_failures(scored.cases, baseline, scored.statistics)
    metrics = summarize_metrics(cases, with_margins=True)
    if baseline is not None:
        # Kept for metrics that the statistics do not judge, such as those with scores outside their range.
        metrics = flag_regressions(add_deltas(metrics, cases, baseline), gate, scored.statistics.criteria)
    found = apply_decision(replace(scored, cases=cases), metrics, baseline, gate, with_power=with_power)
    return replace(
        found,
        baseline_comparison=(
            build_comparison(found.cases, baseline, whole_sets=whole_sets) if baseline else None
        ),
    )


def flag_regressions(
    metrics: Sequence[MetricSummary], gate: GateConfig, criteria: Mapping[str, Criterion]
) -> tuple[MetricSummary, ...]:
    """Return the summaries, with `regressed` set if a gating metric's mean dropped by its limit or more."""
    return tuple(
        replace(metric, regressed=metric.gates and has_dropped(metric, gate, criteria)) for metric in metrics
    )


def has_dropped(metric: MetricSummary, gate: GateConfig, criteria: Mapping[str, Criterion]) -> bool:
    """Return True if the mean dropped by the metric's limit or more.

    Return False if there is no mean to compare with. Also return False with `gate.max_regression: 1`, which
    allows any drop.
    """
    if gate.max_regression >= 1:
        return False
    limit = compute_drop_limit(metric, gate, criteria)
    return metric.delta is not None and -metric.delta >= max(limit - EPSILON, EPSILON)


def compute_drop_limit(metric: MetricSummary, gate: GateConfig, criteria: Mapping[str, Criterion]) -> float:
    """Return the smallest drop of a plain mean that is a regression, in the unit of the metric's scores.

    If every drop is allowed, return the width of the metric's range.
    """
    share = find_excessive_drop(criteria.get(metric.name), metric.range, gate.max_regression)
    # A score outside the range can fall by more than the width of the range. If only the metric's own limit
    # spans the range, such a drop is a regression.
    return (1 if share is None else share) * metric.range.width


def find_excessive_drop(
    criterion: Criterion | None, score_range: Range, of_all: float | None
) -> float | None:
    """Return the smallest drop of a metric's mean that is too large, as a share of the metric's range.

    Return None if every drop is allowed. A limit as wide as the range allows every drop.

    Args:
        criterion: criterion of the metric. Its `max_regression` takes precedence over `of_all`.
        score_range: range of the metric's scores.
        of_all: limit for metrics without a `max_regression`, as a share of the range. None and 1 allow every
            drop of every metric.
    """
    if of_all is None or of_all >= 1:
        return None
    if criterion is None or criterion.max_regression is None:
        return of_all
    share = criterion.max_regression / score_range.width
    return share if share < 1 else None

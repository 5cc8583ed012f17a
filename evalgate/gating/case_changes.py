"""Compare the cases of a run with the baseline's, matched by the ids of eval set and case.

A case is `changed` if its input or its expectations differ from the baseline's. Then it is neither better nor
worse, because its scores cannot be compared.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from evalgate.baselines.history import find_newest_sources
from evalgate.core.formatting import pluralize
from evalgate.core.means import compute_mean, compute_weighted_mean
from evalgate.core.types import (
    AGENT_FAULT_OUTCOMES,
    AverageRunUsage,
    Baseline,
    BaselineCase,
    BaselineRun,
    CaseChange,
    CaseKey,
    CaseMetric,
    CaseResult,
    Change,
    Comparison,
    MetricSummary,
    RunResult,
    Status,
)
from evalgate.datasets.fingerprint import is_other_judge
from evalgate.statistics.case_permutation_test import compute_case_p
from evalgate.statistics.score_pairs import UNIT

MOST_POINTS = 12
"""Most points of a trend. Each point is one earlier run of evalgate that the baseline stores."""


def compute_trend(members: Sequence[tuple[CaseMetric, BaselineCase, float]]) -> tuple[float, ...]:
    """Return the weighted mean of a metric in each of the newest stored runs of evalgate, oldest first.

    The result has at most `MOST_POINTS` means. `members` has (metric, stored case, weight) for each case. A
    run of evalgate in which a case has no score is left out, because its mean would be over fewer cases.
    """
    by_source: dict[int, list[float]] = {}
    for metric, old, _ in members:
        for source, scores in _group_by_source(metric, old.runs).items():
            by_source.setdefault(source, []).append(compute_mean(scores))
    weights = [weight for _, _, weight in members]
    whole = [
        compute_weighted_mean(by_source[at], weights)
        for at in sorted(by_source)
        if len(by_source[at]) == len(members)
    ]
    return tuple(whole[-MOST_POINTS:])


def _group_by_source(metric: CaseMetric, runs: Iterable[BaselineRun]) -> Mapping[int, list[float]]:
    found: dict[int, list[float]] = {}
    for run in runs:
        score = run.scores.get(metric.name)
        if score is not None:
            found.setdefault(run.source, []).append(score)
    return found


def compare_usage(
    pairs: Iterable[tuple[CaseResult, BaselineCase]],
) -> tuple[AverageRunUsage | None, AverageRunUsage | None]:
    """Return (usage in the baseline, usage now), the mean usage of a run on each side.

    Only cases with an answered run on both sides count. Return (None, None) if there is no such case.
    """
    sides = [(_select_answered_runs(old.runs), _select_answered_runs(case.runs)) for case, old in pairs]
    both = [(then, now) for then, now in sides if then and now]
    if not both:
        return None, None
    return _compute_mean_usage([then for then, _ in both]), _compute_mean_usage([now for _, now in both])


def _select_answered_runs(runs: Iterable[BaselineRun | RunResult]) -> list[BaselineRun | RunResult]:
    return [run for run in runs if run.outcome == "answered"]


def _compute_mean_usage(cases: Sequence[Sequence[BaselineRun | RunResult]]) -> AverageRunUsage:
    """Average the usage of each case's runs, then average the cases, so that all cases count equally.

    The cost is None if the cost of any run is unknown.
    """
    figures = [
        [compute_mean(column) for column in zip(*map(_list_usage_figures, runs), strict=True)]
        for runs in cases
    ]
    duration, tokens_in, tokens_out, cost = (compute_mean(column) for column in zip(*figures, strict=True))
    is_known = all(run.usage is None or run.usage.cost_usd is not None for runs in cases for run in runs)
    return AverageRunUsage(len(cases), duration, tokens_in, tokens_out, cost if is_known else None)


def _list_usage_figures(run: BaselineRun | RunResult) -> Iterator[float]:
    yield run.duration_s
    usage = run.usage
    yield from (usage.input_tokens, usage.output_tokens, usage.min_cost_usd) if usage else (0.0, 0.0, 0.0)


_LUCK = 0.05
"""Largest chance that the passes of a flaky case are luck, if the case is to count as newly passing."""


def build_comparison(
    cases: Sequence[CaseResult], baseline: Baseline, *, whole_sets: Collection[str] | None = None
) -> Comparison:
    """Build a comparison: the cases that differ from the baseline, mean usage, and changed metrics.

    `whole_sets` has the ids of the eval sets of which every case was run; None: all eval sets.
    Cases of other eval sets are never listed as removed.
    """
    before = baseline.index_cases()
    found = [(case, _build_case_change(case, before.get(case.key))) for case in cases]
    changes = [change for _, change in found if change]
    then, now = compare_usage(
        (case, old) for case in cases if (old := before.get(case.key)) and _is_comparable(case, old)
    )
    present, newest = {case.key for case in cases}, find_newest_sources(baseline)
    # A case that is missing in the newest gate run of its eval set was removed earlier, and reported then.
    gone = [
        old
        for old in baseline.cases
        if old.key not in present
        and (old.eval_set_id not in newest or any(run.source == newest[old.eval_set_id] for run in old.runs))
    ]
    removed = [old for old in gone if whole_sets is None or old.eval_set_id in whole_sets]
    changes += [CaseChange(old.eval_set_id, old.eval_id, "removed", before=old.status) for old in removed]
    return Comparison(
        source=baseline.path,
        created_at=baseline.sources[-1].created_at,
        commit=baseline.sources[-1].commit,
        version=baseline.version,
        branch=baseline.sources[-1].branch,
        gate_runs=len(baseline.sources),
        changes=tuple(changes),
        unchanged=sum(change is None and case.is_conclusive for case, change in found),
        then=then,
        now=now,
        left_out=len(gone) - len(removed),
        other_metrics=tuple(dict.fromkeys(_find_changed_metrics(cases, before, other_judge=False))),
        other_judges=tuple(dict.fromkeys(_find_changed_metrics(cases, before, other_judge=True))),
    )


def add_deltas(
    metrics: Sequence[MetricSummary], cases: Sequence[CaseResult], baseline: Baseline
) -> tuple[MetricSummary, ...]:
    """Return the summaries with their baseline mean, delta and trend, over the unchanged cases alone.

    A summary stays without a delta if no unchanged case has a score on both sides.
    """
    before = baseline.index_cases()
    return tuple(_add_delta_and_trend(metric, cases, before) for metric in metrics)


def _add_delta_and_trend(
    metric: MetricSummary, cases: Sequence[CaseResult], before: Mapping[CaseKey, BaselineCase]
) -> MetricSummary:
    course = compute_trend(
        [
            member
            for member in _select_comparable_metrics(metric, cases, before)
            if member[0].score is not None
        ]
    )
    return replace(_add_delta(metric, list(_pair_scores(metric, cases, before))), trend=course)


def _select_comparable_metrics(
    summary: MetricSummary, cases: Sequence[CaseResult], before: Mapping[CaseKey, BaselineCase]
) -> Iterator[tuple[CaseMetric, BaselineCase, float]]:
    """Yield (metric, stored case, weight) for each unchanged case with a stored score.

    The metric is that of `summary`. A stored score does not count if the metric has changed since.
    """
    for case in cases:
        old = before.get(case.key)
        for metric in case.metrics if old and _is_comparable(case, old) else ():
            if (
                old
                and _matches_summary(summary, case, metric)
                and _compute_baseline_score(metric, old) is not None
            ):
                yield metric, old, case.weight


def explain_missing_deltas(metrics: Sequence[MetricSummary], comparison: Comparison) -> str:
    """Return a sentence with the reason why no metric has a delta.

    Return "" if there is no metric, or if any metric has a delta. Also return "" if a metric got no verdict
    because too many of its runs lack a score: other sentences say this.
    """
    if not metrics or any(
        metric.delta is not None
        or (metric.judgement is not None and metric.judgement.reason == "missing_runs")
        for metric in metrics
    ):
        return ""
    return (
        f"Nothing could be compared with the baseline {comparison.source}: {_describe_obstacle(comparison)}."
    )


def describe_missing_checks(cases: Iterable[CaseResult], baseline: Baseline) -> str:
    """Return a sentence about checks that were scored in a case's newest stored runs and do not exist now.

    Return "" if no check is missing. Cases with another input or other expectations are left out.

    Only metrics named `check/…` are reported. The tested change can remove a check, because checks may be in
    a file next to the eval set. It cannot remove other metrics: their criteria come from the base branch.
    """
    before = baseline.index_cases()
    missing = Counter[str]()
    for case in cases:
        old = before.get(case.key)
        if old is None or not old.runs or not case.metrics or not _is_comparable(case, old):
            continue
        newest = max(run.source for run in old.runs)
        then = dict.fromkeys(name for run in old.runs if run.source == newest for name in run.scores)
        now = {metric.name for metric in case.metrics}
        missing.update(name for name in then if name.startswith("check/") and name not in now)
    if not missing:
        return ""
    found = (f"{name} ({pluralize(count, 'case')})" for name, count in missing.items())
    return f"The baseline has scores of checks that cases do not have any more: {', '.join(found)}."


def _describe_obstacle(comparison: Comparison) -> str:
    kinds = {change.change for change in comparison.changes if change.change != "removed"}
    if kinds and not comparison.unchanged and kinds <= {"new"}:
        return "it holds none of these cases"
    if kinds and not comparison.unchanged and kinds <= {"new", "changed"}:
        return "the cases that it holds ask or expect something else now"
    if comparison.other_judges:
        return "another model judged then, or was asked otherwise"
    if comparison.other_metrics:
        return "it holds no score of these metrics as they are now"
    return "no case has a score on both sides"


def _add_delta(metric: MetricSummary, pairs: Sequence[tuple[float, float, float]]) -> MetricSummary:
    if not pairs:
        return metric
    before, after, weights = zip(*pairs, strict=True)
    then, now = compute_weighted_mean(before, weights), compute_weighted_mean(after, weights)
    return replace(metric, baseline=then, delta=now - then, compared=len(pairs))


def _pair_scores(
    summary: MetricSummary, cases: Sequence[CaseResult], before: Mapping[CaseKey, BaselineCase]
) -> Iterator[tuple[float, float, float]]:
    """Yield (baseline score, score now, weight) for each unchanged case with both scores.

    The scores are those of the metric that `summary` summarizes.
    """
    for case in cases:
        old = before.get(case.key)
        if old is None or not _is_comparable(case, old):
            continue
        for metric in case.metrics:
            if not _matches_summary(summary, case, metric):
                continue
            then = _compute_baseline_score(metric, old)
            if then is not None and metric.score is not None:
                yield then, metric.score, case.weight


def _matches_summary(summary: MetricSummary, case: CaseResult, metric: CaseMetric) -> bool:
    min_mean = None if metric.min_mean == metric.threshold else metric.min_mean
    own = (metric.name, metric.threshold, metric.scope, min_mean, metric.gates)
    if own != (summary.name, summary.threshold, summary.scope, summary.min_mean, summary.gates):
        return False
    return not summary.eval_sets or case.eval_set_id in summary.eval_sets


def _compute_baseline_score(metric: CaseMetric, old: BaselineCase) -> float | None:
    """Return the mean score of the metric over those stored runs that have a score of it.

    Return None if no run has a score, or if the metric has changed.
    """
    if old.metric_fingerprints.get(metric.name) != metric.fingerprint:
        return None
    scores = [run.scores.get(metric.name) for run in old.runs]
    known = [score for score in scores if score is not None]
    return compute_mean(known) if known else None


def _find_changed_metrics(
    cases: Sequence[CaseResult], before: Mapping[CaseKey, BaselineCase], *, other_judge: bool
) -> Iterator[str]:
    """Yield the names of metrics that changed since the baseline in unchanged cases. Names may repeat.

    With `other_judge`, yield the metrics of which only the judge changed. Otherwise yield all other changed
    metrics, and the metrics that the baseline does not have.
    """
    for case in cases:
        old = before.get(case.key)
        if old is None or not _is_comparable(case, old):
            continue
        for metric in case.metrics:
            known = old.metric_fingerprints.get(metric.name)
            if known == metric.fingerprint:
                continue
            if is_other_judge(known or "", metric.fingerprint) == other_judge:
                yield metric.name


def _build_case_change(case: CaseResult, old: BaselineCase | None) -> CaseChange | None:
    kind = _classify_change(case, old)
    if kind is None:
        return None
    then = old.replies if old and kind == "newly_failing" else ()
    return CaseChange(case.eval_set_id, case.eval_id, kind, old.status if old else None, case.status, then)


def _classify_change(case: CaseResult, old: BaselineCase | None) -> Change | None:
    if old is None:
        return "new"
    if not _is_comparable(case, old):
        return "changed"
    then = _list_stored_passes(case, old)
    if 0 < sum(then) < len(then):
        return _classify_flaky_change(case, then)
    if _is_failure(case.status) and not _is_failure(old.status):
        return "newly_failing" if case.is_conclusive else None
    if case.status == "passed" and _is_failure(old.status):
        return "newly_passing"
    return None


def _classify_flaky_change(case: CaseResult, then: Sequence[bool]) -> Change | None:
    """Return the change of a case that has both passed and failed stored runs.

    A comparison of means would be misleading: a case that passed 6 of 10 stored runs may fail once by luck.

    - `newly_failing`: the case fails now, and this is new: the exact test of its scores calls it broken, or
      no stored run failed in the same way.
    - `flaky`: the case fails now, but as it already did in stored runs.
    - `newly_passing`: the case passes now, and so many passes are hardly luck.
    - None: the case passes now, but maybe by luck; or the result is not clear: a judge failed, for example.
    """
    if _is_failure(case.status):
        broke = any(each.standing is not None and each.standing.status == "broken" for each in case.metrics)
        if broke or (case.follow_up is not None and case.follow_up.outcome != "excused"):
            return "newly_failing"
        return "flaky" if case.is_conclusive else None
    if case.status != "passed":
        return None
    passes = sum(
        run.outcome == "answered" and all(each.status == "passed" for each in run.metrics if each.gates)
        for run in case.runs
    )
    now = [UNIT] * passes + [0] * (len(case.runs) - passes)
    before = [UNIT if passed else 0 for passed in then]
    # The sides are swapped: the p is the chance of so many passes by luck, not of so many failures.
    is_luck = compute_case_p(tuple(sorted(now)), tuple(sorted(before))) > _LUCK
    return None if is_luck else "newly_passing"


def _list_stored_passes(case: CaseResult, old: BaselineCase) -> list[bool]:
    """Return a value for each stored run that crashed or has a score: True if it meets today's thresholds.

    Only scores of gating metrics that did not change count. A crash is False.
    """
    metrics = [
        metric
        for metric in case.metrics
        if metric.gates and old.metric_fingerprints.get(metric.name) == metric.fingerprint
    ]
    found = []
    for run in old.runs:
        known = [(score, each) for each in metrics if (score := run.scores.get(each.name)) is not None]
        if run.outcome in AGENT_FAULT_OUTCOMES:
            found.append(False)
        elif known:
            found.append(all(each.range.is_met(score, each.threshold) for score, each in known))
    return found


def _is_failure(status: Status) -> bool:
    return status in {"failed", "errored"}


def _is_comparable(case: CaseResult, old: BaselineCase) -> bool:
    return case.fingerprint == old.fingerprint

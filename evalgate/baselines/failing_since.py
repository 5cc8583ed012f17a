"""Find breaks (cases that passed until a commit and have failed since), and measure how flaky cases are.

A break is neither luck nor flakiness. A later run is compared only with the runs since the break, so that
the next change is not blamed for the break. The stored case keeps the commit of its break, because the
baseline drops the passed runs in time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import comb
from typing import TypeAlias

from evalgate.core.formatting import build_case_quote, join_first, join_quoted, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.registry import FINAL_STATE
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import (
    Baseline,
    BaselineCase,
    BaselineRun,
    BaselineSource,
    CaseKey,
    CaseResult,
    FailingSince,
)
from evalgate.statistics.threshold_test import Flakiness, measure_flakiness

Limits: TypeAlias = Mapping[str, float | None]
"""The worst passing score of each metric; None: the metric is only reported, and fails no run."""


@frozen
class BaselineLimits:
    """The limits that hold for all cases, and the limits of single cases."""

    common: Limits
    own: Mapping[CaseKey, Limits] = field(default_factory=dict)
    """By case, only the limits that differ from `common`."""
    remark: str = ""
    """Sentence about limits of single cases that are not known; "" if all are known."""

    def get_limits(self, case: CaseKey) -> Limits:
        """Return the limits that hold for a case."""
        return {**self.common, **self.own.get(case, {})}


def measure_baseline_flakiness(
    baseline: Baseline, limits: BaselineLimits, pass_score: float
) -> dict[tuple[str, str], Flakiness]:
    """Return the flakiness of each case with at least two runs that count, by ids of eval set and case.

    A run passes if the agent answered and every score meets its limit. A metric without a limit must reach
    `pass_score`, a share of the metric's range from 0 to 1; if a lower score is better, the metric does not
    count. A metric with the limit None does not count either. An answered run without a score that counts
    is left out.
    """
    history = {
        case.key: [score_run_pass(run, own, pass_score) for run in case.runs]
        for case in baseline.cases
        for own in [limits.get_limits(case.key)]
    }
    by_name = measure_flakiness({"\0".join(key): runs for key, runs in history.items()})
    return {key: by_name["\0".join(key)] for key in history if by_name["\0".join(key)].runs > 1}


def score_run_pass(run: BaselineRun, thresholds: Limits, pass_score: float | None) -> float | None:
    """Return 1.0 for a run that passed, 0.0 for a failed run, None for an answered run that does not count.

    `measure_baseline_flakiness` describes the rule. If `pass_score` is None, a metric that is not in
    `thresholds` does not count: the case has it no longer.
    """
    if run.outcome != "answered":
        return 0.0
    met = [
        known.is_met(score, limit)
        for name, score in run.scores.items()
        if score is not None
        for known in [get_score_range(name)]
        # A budget that has no limit any more cannot fail: its best figure, 0, is no threshold.
        for assumed in [None if pass_score is None or known.lower_is_better else known.to_score(pass_score)]
        for limit in [thresholds.get(name, assumed)]
        if limit is not None
    ]
    return float(all(met)) if met else None


def describe_assumed_limits(baseline: Baseline, thresholds: Limits, pass_score: float) -> str:
    """Return a sentence with the metrics that are not in `thresholds` and have a score below `pass_score`.

    Runs with such a score count as failed. `pass_score` is a share of the metric's range from 0 to 1. Return
    "" if there is no such metric. Checks, the final session state and budgets are never named.
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


_LUCK = 0.05
"""Failures at the end are a break if luck alone puts all of them there with at most this probability."""

_FEWEST = 2
"""Fewest failed runs of a break: any case may fail once."""

_NAMED = 5
_SHOWN_OF_COMMIT = 12

Thresholds: TypeAlias = Mapping[tuple[str, str], Limits]
"""The limits of each case, by ids of eval set and case."""


def collect_thresholds(cases: Sequence[CaseResult]) -> Thresholds:
    """Return the thresholds of each case; the threshold of a metric that does not gate is None."""
    return {
        case.key: {each.name: each.threshold if each.gates else None for each in case.metrics}
        for case in cases
    }


def find_break(
    case: BaselineCase,
    sources: Sequence[BaselineSource],
    thresholds: Limits,
    pass_score: float | None = None,
) -> FailingSince | None:
    """Return the gate run since which a case fails on the default branch; None if the case did not break.

    A case broke if an older run passed, and every run of its newest gate runs failed: at least two runs, and
    so many that luck alone would put only failures at the end with a probability of at most 5 %. A break
    that the case already stores stays as long as every run since the break has failed. Answered runs without
    a score that counts are left out. `score_run_pass` describes `thresholds` and `pass_score`.
    """
    by_source = _group_outcomes(case.runs, thresholds, pass_score)
    streak = _find_failing_sources(by_source)
    if not streak:
        return None
    known = case.failing_since
    if known is not None and all(at in streak for at in _find_sources_since(known, by_source, sources)):
        return known
    failed = sum(len(by_source[at]) for at in streak)
    runs = sum(map(len, by_source.values()))
    failures = sum(not passed for outcomes in by_source.values() for passed in outcomes)
    if (
        failures == runs
        or failed < _FEWEST
        or comb(runs - failed, failures - failed) > _LUCK * comb(runs, failures)
    ):
        return None
    first = sources[streak[0]]
    return FailingSince(first.created_at, first.commit, first.branch)


def mark_breaks(after: Baseline, before: Baseline, thresholds: Thresholds) -> Baseline:
    """Return `after` with `failing_since` set for each case in `thresholds`: its break, or None.

    `after` holds one more gate run than `before`. A break that `before` knows stays as long as the case is
    unchanged and fails, even after the baseline dropped the runs that passed. It ends with the metrics that
    showed it: if they were removed or changed, earlier runs do not fail any more. Cases that are not in
    `thresholds` stay as they are.
    """
    known = before.index_cases()

    def mark_case(case: BaselineCase) -> BaselineCase:
        key = case.key
        old = known.get(key)
        if key not in thresholds:
            return case
        since = old.failing_since if old is not None and old.fingerprint == case.fingerprint else None
        if since is not None:
            newest = max(run.source for run in case.runs)
            earlier = tuple(run for run in case.runs if run.source != newest)
            # Without the new gate run: its failure alone would not show since when the case fails.
            since = find_break(
                replace(case, runs=earlier, failing_since=since), after.sources, thresholds[key]
            )
        found = find_break(replace(case, failing_since=since), after.sources, thresholds[key])
        return case if found == case.failing_since else replace(case, failing_since=found)

    return replace(after, cases=tuple(map(mark_case, after.cases)))


def drop_runs_before_breaks(baseline: Baseline, thresholds: Thresholds) -> Baseline:
    """Return the baseline with `failing_since` set for each case that broke, without runs before the break.

    All other cases, and cases that are not in `thresholds`, keep their runs and get `failing_since` None.
    `thresholds` hold all metrics of a case: others that it had once do not count.
    """

    def drop_case_runs(case: BaselineCase) -> BaselineCase:
        own = thresholds.get(case.key)
        found = find_break(case, baseline.sources, own) if own is not None else None
        if found is None:
            return replace(case, failing_since=None) if case.failing_since else case
        since = frozenset(_find_sources_since(found, {run.source: () for run in case.runs}, baseline.sources))
        runs = tuple(run for run in case.runs if run.source in since)
        return replace(case, runs=runs, failing_since=found)

    return replace(baseline, cases=tuple(map(drop_case_runs, baseline.cases)))


def describe_already_failing(cases: Sequence[CaseResult], baseline: Baseline) -> Iterator[str]:
    """Yield a sentence for each break on the default branch, with at most five ids of the broken cases.

    Only the `cases` of this run that failed or errored count, and not those that this change altered: the
    case itself, or a metric that it missed.
    """
    before = baseline.index_cases()
    found: dict[FailingSince, list[str]] = {}
    quote = build_case_quote(case.key for case in cases)
    for case in cases:
        old = before.get(case.key)
        since = old.failing_since if old is not None and _fails_as_before(case, old) else None
        if since is not None:
            found.setdefault(since, []).append(quote(case.key))
    for since, names in found.items():
        them = "it" if len(names) == 1 else "them"
        what = f"{pluralize(len(names), 'case')} already failing on {format_failing_since(since)}"
        yield f"{what}: {join_first(names, _NAMED)}. This change did not break {them}."


def _fails_as_before(case: CaseResult, old: BaselineCase) -> bool:
    """Return True if the case failed or errored, and is what it was, as are the metrics that it missed."""
    if case.status not in {"failed", "errored"} or case.fingerprint != old.fingerprint:
        return False
    missed = (metric for metric in case.metrics if metric.gating_status == "failed")
    return all(old.metric_fingerprints.get(metric.name) == metric.fingerprint for metric in missed)


def format_failing_since(since: FailingSince) -> str:
    """Return text such as `main since 0123456789ab (2026-11-03)`."""
    day = (since.created_at or "")[:10]
    commit = (since.commit or "")[:_SHOWN_OF_COMMIT]
    when = (
        f"{commit} ({day})" if commit and day else commit or (f"the run of {day}" if day else "an older run")
    )
    return f"{since.branch or 'main'} since {when}"


def _group_outcomes(
    runs: Sequence[BaselineRun], thresholds: Limits, pass_score: float | None
) -> dict[int, list[bool]]:
    """Return, by index of the source, whether each run passed; the oldest source is first.

    Answered runs without a score that counts are left out.
    """
    found: dict[int, list[bool]] = {}
    for run in runs:
        if (passed := score_run_pass(run, thresholds, pass_score)) is not None:
            found.setdefault(run.source, []).append(bool(passed))
    return dict(sorted(found.items()))


def _find_failing_sources(by_source: Mapping[int, Sequence[bool]]) -> list[int]:
    """Return the indexes of all sources after the last source in which a run passed, the oldest first."""
    found: list[int] = []
    for at in reversed(list(by_source)):
        if any(by_source[at]):
            break
        found.append(at)
    return found[::-1]


def _find_sources_since(
    known: FailingSince, by_source: Mapping[int, object], sources: Sequence[BaselineSource]
) -> Iterator[int]:
    """Yield the indexes in `by_source` of the source in which the case broke, and of all later sources."""
    return (at for at in by_source if (sources[at].created_at or "") >= (known.created_at or ""))

"""Find breaks: cases that passed until a commit and have failed since.

A case counts as broken only if luck or flakiness can hardly explain its failures. Later runs are compared
only with the runs since the break, so that the next change is not blamed for the break. After the case was
fixed, they are compared with all runs but those of the break, so that a change cannot break it again unseen.

The stored case keeps the commit of its break, because the baseline drops the passed runs after some time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from math import comb
from typing import TypeAlias

from evalgate.baselines.flakiness import MetricThresholds, score_run_pass
from evalgate.core.formatting import build_case_quote, join_first, pluralize
from evalgate.core.types import (
    Baseline,
    BaselineCase,
    BaselineRun,
    BaselineSource,
    CaseResult,
    FailingSince,
)

_LUCK = 0.05
"""Significance level: the failures at the end count as a break if a random order of all runs would end with
as many failures with at most this probability."""

_LUCK_OF_A_FIX = 0.01
"""The same level for a break that was fixed. It is smaller, because such a break may be anywhere among the
runs, and because leaving out failures makes a case look better than it is."""

_FEWEST = 2
"""Minimum number of failed runs of a break, because any case may fail once; also of passed runs of a fix."""

_NAMED = 5
_SHOWN_OF_COMMIT = 12

CaseThresholds: TypeAlias = Mapping[tuple[str, str], MetricThresholds]
"""Mapping from (eval set id, case id) to the case's thresholds by metric."""


def collect_case_thresholds(cases: Sequence[CaseResult]) -> CaseThresholds:
    """Return the thresholds of each case by metric. The threshold of a metric that does not gate is None."""
    return {
        case.key: {each.name: each.threshold if each.gates else None for each in case.metrics}
        for case in cases
    }


def find_break(
    case: BaselineCase,
    sources: Sequence[BaselineSource],
    thresholds: MetricThresholds,
    pass_score: float | None = None,
) -> FailingSince | None:
    """Return the time, commit and branch since which a case fails; None if the case did not break.

    A case broke if all of this is true:

    - A run of the case passed, and in all later gate runs (calls of the gate) every run of the case failed.
    - At least two runs failed in these later gate runs.
    - In a random order of all runs, so many failures in a row at the end have a chance of at most 5 %. Runs
      of an earlier break that was fixed are left out.

    A break that is stored in `case` is kept as long as all runs since this break have failed. An answered run
    is left out if none of its scores counts.

    Args:
        case: The case with its runs.
        sources: The gate runs of the baseline.
        thresholds: The worst score that passes, by metric; None for a metric that does not count.
        pass_score: Share of a metric's range, from 0 to 1, which a metric without an entry in `thresholds`
            must reach; None: such metrics do not count.
    """
    by_source = _group_outcomes(case.runs, thresholds, pass_score)
    return _find_break(case, sources, _drop_fixed_breaks(by_source))


def _find_break(
    case: BaselineCase, sources: Sequence[BaselineSource], by_source: Mapping[int, Sequence[bool]]
) -> FailingSince | None:
    """Return the break at the end of `by_source`, which must have no runs of breaks that were fixed."""
    streak = _find_failing_sources(by_source)
    if not streak:
        return None
    known = case.failing_since
    if known is not None and all(at in streak for at in _find_sources_since(known, by_source, sources)):
        return known
    if len(streak) == len(by_source) or not _is_beyond_luck(by_source, streak, _LUCK):
        return None
    first = sources[streak[0]]
    return FailingSince(first.created_at, first.commit, first.branch)


def _drop_fixed_breaks(by_source: Mapping[int, Sequence[bool]]) -> Mapping[int, Sequence[bool]]:
    """Return the outcomes without those of the gate runs in which a case was broken, if it was fixed later.

    A break was fixed if all of this is true:

    - Every run failed in one or more gate runs in a row, at least two runs.
    - Every run passed in one or more gate runs directly after them, at least two runs.
    - Luck explains neither: so many failures at the end of the runs until then, and so many passes at the end
      of the runs since the break, have a chance of at most 1 % in a random order. A case that never passed
      before the fix needs no test of its failures.

    Other failures are evidence of flakiness, and stay.
    """
    if all(map(all, by_source.values())):
        return by_source
    kept = dict[int, Sequence[bool]]()
    groups = groupby(by_source, lambda at: set(by_source[at]))
    streaks = [(outcomes, list(group)) for outcomes, group in groups]
    for (outcomes, streak), (next_outcomes, next_streak) in pairwise([*streaks, (set(), [])]):
        runs = {at: by_source[at] for at in streak}
        until_then, since = kept | runs, runs | {at: by_source[at] for at in next_streak}
        is_fixed_break = (
            (outcomes, next_outcomes) == ({False}, {True})
            and _is_beyond_luck(since, next_streak, _LUCK_OF_A_FIX)
            and sum(map(len, runs.values())) >= _FEWEST
            and (not kept or _is_beyond_luck(until_then, streak, _LUCK_OF_A_FIX))
        )
        kept = kept if is_fixed_break else until_then
    return kept


def _is_beyond_luck(by_source: Mapping[int, Sequence[bool]], streak: Sequence[int], luck: float) -> bool:
    """Return True if luck hardly explains that the runs end with the equal outcomes of `streak`.

    The streak must have at least two runs, and a chance of at most `luck` in a random order of all runs.
    """
    length, runs = sum(len(by_source[at]) for at in streak), sum(map(len, by_source.values()))
    outcome = by_source[streak[-1]][0]
    alike = sum(list(outcomes).count(outcome) for outcomes in by_source.values())
    return length >= _FEWEST and comb(runs - length, alike - length) <= luck * comb(runs, alike)


def mark_breaks(after: Baseline, before: Baseline, case_thresholds: CaseThresholds) -> Baseline:
    """Return a copy of `after` in which `failing_since` of each case is its break, or None without a break.

    Cases that are not in `case_thresholds` stay as they are. `after` must be `before` with one more gate run.

    A break that `before` knows is kept as long as the case is unchanged and fails, even if the baseline has
    dropped the runs that passed. The break ends if the metrics that failed were removed or changed: without
    the scores of these metrics, the earlier runs do not count as failed.
    """
    known = before.index_cases()

    def mark_case(case: BaselineCase) -> BaselineCase:
        key = case.key
        old = known.get(key)
        if key not in case_thresholds:
            return case
        since = old.failing_since if old is not None and old.fingerprint == case.fingerprint else None
        if since is not None:
            newest = max(run.source for run in case.runs)
            earlier = tuple(run for run in case.runs if run.source != newest)
            # Without the new gate run, because its failure alone does not confirm the known break.
            since = find_break(
                replace(case, runs=earlier, failing_since=since), after.sources, case_thresholds[key]
            )
        found = find_break(replace(case, failing_since=since), after.sources, case_thresholds[key])
        return case if found == case.failing_since else replace(case, failing_since=found)

    return replace(after, cases=tuple(map(mark_case, after.cases)))


def keep_comparable_runs(
    baseline: Baseline, case_thresholds: CaseThresholds, pass_score: float | None = None
) -> Baseline:
    """Return a copy of the baseline with only the runs that a new run can be compared with.

    A broken case loses the runs before its break, and its `failing_since` is set to the break. Any other case
    loses the runs of breaks that were fixed, and its `failing_since` becomes None. A case that is not in
    `case_thresholds` keeps its runs. A metric that is not in the thresholds of its case must reach
    `pass_score`, a share of the metric's range from 0 to 1; if `pass_score` is None, it does not count.
    """

    def keep_case_runs(case: BaselineCase) -> BaselineCase:
        own = case_thresholds.get(case.key)
        by_source = {} if own is None else _group_outcomes(case.runs, own, pass_score)
        comparable = _drop_fixed_breaks(by_source)
        found = _find_break(case, baseline.sources, comparable)
        if found is not None:
            kept = set(_find_sources_since(found, {run.source: () for run in case.runs}, baseline.sources))
        elif len(comparable) < len(by_source):
            kept = {run.source for run in case.runs} - (by_source.keys() - comparable.keys())
        else:
            return replace(case, failing_since=None) if case.failing_since else case
        return replace(case, runs=tuple(run for run in case.runs if run.source in kept), failing_since=found)

    return replace(baseline, cases=tuple(map(keep_case_runs, baseline.cases)))


def describe_already_failing(cases: Sequence[CaseResult], baseline: Baseline) -> Iterator[str]:
    """Yield a sentence for each break on the default branch, with the ids of at most five broken cases.

    A case counts if it gates and failed or errored in this run, and if the definitions of the case and of its
    failed metrics are the same as in the baseline.
    """
    before = baseline.index_cases()
    found: dict[FailingSince, list[str]] = {}
    quote = build_case_quote(case.key for case in cases)
    for case in cases:
        old = before.get(case.key)
        since = old.failing_since if old is not None and case.gates and _fails_as_before(case, old) else None
        if since is not None:
            found.setdefault(since, []).append(quote(case.key))
    for since, names in found.items():
        them = "it" if len(names) == 1 else "them"
        what = f"{pluralize(len(names), 'case')} already failing on {format_failing_since(since)}"
        yield f"{what}: {join_first(names, _NAMED)}. This change did not break {them}."


def _fails_as_before(case: CaseResult, old: BaselineCase) -> bool:
    """Return True if the case failed or errored, and nothing in its definition has changed since `old`.

    The definition of the case, and of each gating metric that failed, must be that of the stored case. Scores
    and messages may differ.
    """
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
    runs: Sequence[BaselineRun], thresholds: MetricThresholds, pass_score: float | None
) -> dict[int, list[bool]]:
    """Return the outcomes of the runs by index of their gate run (call of the gate): True if passed.

    The oldest gate run, with the lowest index, is first. An answered run is left out if none of its scores
    counts.
    """
    found: dict[int, list[bool]] = {}
    for run in runs:
        if (passed := score_run_pass(run, thresholds, pass_score)) is not None:
            found.setdefault(run.source, []).append(bool(passed))
    return dict(sorted(found.items()))


def _find_failing_sources(by_source: Mapping[int, Sequence[bool]]) -> list[int]:
    """Return the indexes of the gate runs that came after the last one in which a run of the case passed.

    The oldest is first. If no run passed, return all indexes in `by_source`.
    """
    found: list[int] = []
    for at in reversed(list(by_source)):
        if any(by_source[at]):
            break
        found.append(at)
    return found[::-1]


def _find_sources_since(
    known: FailingSince, by_source: Mapping[int, object], sources: Sequence[BaselineSource]
) -> Iterator[int]:
    """Yield the indexes in `by_source` of the gate runs that are not older than the break `known`."""
    return (at for at in by_source if (sources[at].created_at or "") >= (known.created_at or ""))

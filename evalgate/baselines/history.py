"""Keep the runs of a baseline over time: add the runs of each gate run, and drop the oldest gate runs.

A gate run is one call of the gate, with runs of many cases. Runs are neither averaged nor selected by their
scores: a baseline of the best runs would turn ordinary later runs into regressions.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime

from evalgate.baselines.failing_since import collect_case_thresholds, mark_breaks
from evalgate.core.failures.divergence import Criteria
from evalgate.core.failures.run_divergences import find_run_divergence, has_failed
from evalgate.core.types import (
    NON_AGENT_OUTCOMES,
    Baseline,
    BaselineCase,
    BaselineRun,
    BaselineSource,
    CaseResult,
    Record,
    Reply,
    RunResult,
    TrackedFiles,
)

DEFAULT_KEEP = 20
"""Default number of gate runs (calls of the gate) that a baseline keeps of each eval set."""

STALE_DAYS = 14
"""Age of a baseline in days above which a notice is shown: an agent's model may change over time."""

_LONGEST_REPLIES = 4096
"""Maximum length of a case's stored replies in characters.

Reports show only ten lines, and every run of the gate reads the replies of all cases."""


def build_baseline(record: Record, source: BaselineSource | None = None, path: str = "") -> Baseline:
    """Build a baseline from the runs of `record` alone.

    Follow-up runs are left out, because only cases that looked bad got such runs. Runs that say nothing about
    the agent (`NON_AGENT_OUTCOMES`) are left out, too. A case stays even if all its runs are left out.

    Args:
        record: The record of a gate run.
        source: Time, commit and branch of the gate run; None: only the time of the record is stored.
        path: The name of the baseline for reports.
    """
    criteria = record.index_criteria()
    cases = tuple(build_baseline_case(case, criteria) for case in record.cases)
    return Baseline(cases, (source or BaselineSource(record.created_at),), path, files=record.files)


def hash_record(record: Record) -> str:
    """Return 16 hexadecimal digits that identify a gate run: a hash of its time, duration and cases."""
    cases = [asdict(replace(case, replies=())) for case in build_baseline(record).cases]
    # Without divergences, which older releases did not store: the same record must have the same hash.
    for case in cases:
        for run in case["runs"]:
            del run["divergence"]
    known = [record.created_at, record.duration_s, cases]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]


def add_run(
    before: Baseline | None, record: Record, source: BaselineSource, *, keep: int = DEFAULT_KEEP
) -> Baseline:
    """Return `before` with a record added as a gate run; unchanged if `before` has this gate run already.

    A gate run is one call of the gate. The digest of `source` identifies the gate run. If `before` is None,
    the baseline of the record alone is returned.

    - If the fingerprint of a case changed, the older runs of the case are dropped.
    - If a metric of a case changed, the older runs lose the scores of this metric.
    - If a stored run of a case is newer than the record, nothing is dropped. The record then adds its runs
      only if the fingerprints of the case and its metrics are the same.

    Of each eval set only the newest `keep` gate runs are kept, by their time. After that, cases without runs
    are dropped. In the cases of the record, `failing_since` is set: to the gate run since which the case
    fails, or to None.
    """
    fresh = build_baseline(record, source)
    if before is None:
        return fresh
    after = _add_source(before, fresh)
    if after is before:
        return before
    in_time = prune_runs(after, keep=len(after.sources))
    return prune_runs(mark_breaks(in_time, before, collect_case_thresholds(record.cases)), keep=keep)


def split_baseline(baseline: Baseline) -> tuple[Baseline, ...]:
    """Split a baseline into one baseline for each gate run (call of the gate), in the order of `sources`.

    `join_baselines` is the reverse.
    """
    newest = find_newest_sources(baseline)
    return tuple(
        Baseline(
            tuple(
                _restrict_to_source(case, at)
                for case in baseline.cases
                if any(run.source == at for run in case.runs)
            ),
            (source,),
            files=tuple(each for each in baseline.files if newest.get(each.eval_set_id) == at),
        )
        for at, source in enumerate(baseline.sources)
    )


def join_baselines(parts: Iterable[Baseline]) -> Baseline | None:
    """Join baselines, each with one gate run, into one baseline. Return None if there are no baselines.

    If a case changed between two gate runs, the older runs of the case are dropped. If a metric of a case
    changed, the older runs lose the scores of this metric.
    """
    found: Baseline | None = None
    for part in sorted(parts, key=lambda each: (each.sources[0].created_at or "", each.sources[0].digest)):
        found = _add_source(found, part) if found is not None else part
    return prune_runs(found, keep=len(found.sources)) if found is not None else None


def replace_runs(record: Record, source: BaselineSource, reason: str) -> Baseline:
    """Build a baseline from `record` alone, which a person accepted for `reason`; earlier runs are lost."""
    return build_baseline(record, replace(source, accepted=reason))


def prune_runs(baseline: Baseline, *, keep: int) -> Baseline:
    """Return the baseline with only the newest `keep` gate runs of each eval set, and only cases with runs.

    Gate runs and runs are sorted by time. A gate run without runs is dropped from `sources`. If there is no
    run at all, the newest gate run stays in `sources`.
    """
    order = sorted(range(len(baseline.sources)), key=lambda at: (baseline.sources[at].created_at or "", at))
    rank = {at: number for number, at in enumerate(order)}
    kept = _find_kept_sources(baseline.cases, rank, keep)
    cases = [
        (case, [run for run in case.runs if (case.eval_set_id, run.source) in kept])
        for case in baseline.cases
    ]
    used = {run.source for _, runs in cases for run in runs} or {order[-1]}
    index = {at: number for number, at in enumerate(at for at in order if at in used)}
    moved = ((case, [replace(run, source=index[run.source]) for run in runs]) for case, runs in cases if runs)
    return replace(
        baseline,
        cases=tuple(
            replace(case, runs=tuple(sorted(runs, key=lambda run: run.source))) for case, runs in moved
        ),
        sources=tuple(baseline.sources[at] for at in index),
    )


def select_earlier_runs(baseline: Baseline, created_at: str) -> Baseline | None:
    """Return the baseline with only the gate runs before `created_at` (ISO 8601); None if no run is left.

    A break of a case that happened later is left out, too.
    """
    old = {at for at, source in enumerate(baseline.sources) if (source.created_at or "") < created_at}

    def restrict_case(case: BaselineCase) -> BaselineCase:
        since = case.failing_since
        is_known = since is not None and (since.created_at or "") < created_at
        runs = tuple(run for run in case.runs if run.source in old)
        return replace(case, runs=runs, failing_since=since if is_known else None)

    cases = [restrict_case(case) for case in baseline.cases]
    if not any(case.runs for case in cases):
        return None
    return prune_runs(replace(baseline, cases=tuple(cases)), keep=len(baseline.sources))


def find_newest_sources(baseline: Baseline) -> Mapping[str, int]:
    """Return, by eval set id, the index in `sources` of the last gate run with runs of the eval set.

    Eval sets without runs are left out.
    """
    found: dict[str, int] = {}
    for case in baseline.cases:
        for run in case.runs:
            found[case.eval_set_id] = max(found.get(case.eval_set_id, 0), run.source)
    return found


def compute_age_days(sources: Iterable[BaselineSource], now: datetime) -> int | None:
    """Return the whole days from the newest gate run to `now`, at least 0.

    `now` must have a time zone. Return None if no source has a time, or if one of the times cannot be read
    or has no time zone.
    """
    try:
        times = [datetime.fromisoformat(each.created_at) for each in sources if each.created_at]
        return max((now - max(times)).days, 0) if times else None
    except (TypeError, ValueError):  # a time that cannot be read, or one without a zone
        return None


def describe_staleness(baseline: Baseline, now: datetime) -> Iterator[str]:
    """Yield a notice if the baseline's newest run is older than `STALE_DAYS`.

    Yield a second notice, with the reason, if a person accepted the last gate run as the baseline.
    """
    days = compute_age_days(baseline.sources, now)
    if days is not None and days > STALE_DAYS:
        yield (
            f"The newest run in the baseline is {days} days old: a model that drifted since looks like a "
            "change of the agent. Save a fresh run of the default branch."
        )
    last = baseline.sources[-1]
    if last.accepted:
        yield f"The baseline was accepted on {(last.created_at or '')[:10]}: {last.accepted}"


def _add_source(before: Baseline, fresh: Baseline) -> Baseline:
    """Return `before` with the single gate run of `fresh` added; `before` itself if it has this gate run.

    The digest of the source identifies a gate run. A gate run without a digest is always added.
    """
    [source] = fresh.sources
    if source.digest and any(each.digest == source.digest for each in before.sources):
        return before
    new = len(before.sources)
    cases = before.index_cases()
    for case in fresh.cases:
        moved = replace(case, runs=tuple(replace(run, source=new) for run in case.runs))
        old = cases.get(case.key)
        cases[case.key] = _merge_cases(old, moved, is_late=_is_late(old, before, source)) if old else moved
    return replace(
        before,
        cases=tuple(cases.values()),
        sources=(*before.sources, source),
        files=_merge_files(before, fresh),
    )


def _merge_files(before: Baseline, fresh: Baseline) -> tuple[TrackedFiles, ...]:
    """Return the tracked files of all eval sets of the two baselines, one entry for each eval set.

    An eval set in both baselines gets the paths of both, and the digests of `fresh`. If `fresh` has cases of
    an eval set but no files for it, the eval set gets no entry, even if `before` has files for it.
    """
    run = {case.eval_set_id for case in fresh.cases}
    new = {each.eval_set_id: each for each in fresh.files}
    old = {each.eval_set_id: each for each in before.files}
    names = [name for name in {**old, **new} if name in new or name not in run]
    found = ([each[name] for each in (old, new) if name in each] for name in names)
    return tuple(
        replace(each[-1], paths=tuple(sorted({path for part in each for path in part.paths})))
        for each in found
    )


def _restrict_to_source(case: BaselineCase, at: int) -> BaselineCase:
    """Return the case with only the runs and metrics of the gate run with index `at`, which becomes index 0.

    The case must have a run of this gate run. Replies and `failing_since` are kept only if this is the newest
    gate run of the case.
    """
    runs = tuple(replace(run, source=0) for run in case.runs if run.source == at)
    asked = {name for run in runs for name in run.scores}
    prints = {name: found for name, found in case.metric_fingerprints.items() if name in asked}
    is_newest = at == max(run.source for run in case.runs)
    replies = case.replies if is_newest else ()
    since = case.failing_since if is_newest else None
    return replace(case, runs=runs, metric_fingerprints=prints, replies=replies, failing_since=since)


def build_baseline_case(case: CaseResult, criteria: Criteria) -> BaselineCase:
    """Build the stored form of a case; `criteria` (`Record.index_criteria`) serve to analyze failed runs."""
    return BaselineCase(
        eval_set_id=case.eval_set_id,
        eval_id=case.eval_id,
        status=case.status,
        fingerprint=case.fingerprint,
        metric_fingerprints={metric.name: metric.fingerprint for metric in case.metrics},
        runs=tuple(
            _build_baseline_run(run, case, criteria)
            for run in case.runs
            if not run.confirms and run.outcome not in NON_AGENT_OUTCOMES
        ),
        replies=_get_replies(case),
    )


def _get_replies(case: CaseResult) -> tuple[Reply | None, ...]:
    """Return the reply of each turn in the first answered run; () without such a run.

    A turn without a reply has None. If the replies are too long to store, return (), too.
    """
    run = next((run for run in case.runs if run.outcome == "answered"), None)
    replies = tuple(turn.actual for turn in run.turns) if run is not None else ()
    return replies if len(repr(replies)) <= _LONGEST_REPLIES else ()


def _build_baseline_run(run: RunResult, case: CaseResult, criteria: Criteria) -> BaselineRun:
    scores: dict[str, float | None] = {metric.name: None for metric in case.metrics}
    scores |= {metric.name: metric.score for metric in run.metrics}
    judge = run.judge.usage + run.judge.spared_usage if run.judge else None
    found = find_run_divergence(case, run, criteria) if has_failed(run) else None
    divergence = found.signature if found is not None else ""
    return BaselineRun(0, run.outcome, scores, run.duration_s, run.usage, run.user_usage, judge, divergence)


def _is_late(old: BaselineCase, before: Baseline, source: BaselineSource) -> bool:
    """Return True if a stored run of the case is newer than `source`, because a later job saved first."""
    times = [before.sources[run.source].created_at or "" for run in old.runs]
    return max(times, default="") > (source.created_at or "")


def _merge_cases(old: BaselineCase, new: BaselineCase, *, is_late: bool) -> BaselineCase:
    if not new.runs:
        return old
    prints = {**old.metric_fingerprints, **new.metric_fingerprints}
    others = [name for name, then in old.metric_fingerprints.items() if prints[name] != then]
    if is_late:
        outdated = others or old.fingerprint != new.fingerprint
        return old if outdated else replace(old, metric_fingerprints=prints, runs=(*old.runs, *new.runs))
    if old.fingerprint != new.fingerprint:
        return new
    runs = tuple(run for run in map(_build_score_filter(others), old.runs) if run.scores)
    return replace(new, metric_fingerprints=prints, runs=(*runs, *new.runs))


def _build_score_filter(names: Sequence[str]) -> Callable[[BaselineRun], BaselineRun]:
    def drop_scores(run: BaselineRun) -> BaselineRun:
        return replace(run, scores={name: score for name, score in run.scores.items() if name not in names})

    return drop_scores


def _find_kept_sources(
    cases: Iterable[BaselineCase], rank: Mapping[int, int], keep: int
) -> frozenset[tuple[str, int]]:
    """Return (eval set id, index of the gate run) for the newest `keep` gate runs of each eval set.

    `rank` is the position of each index in the order of time; the oldest gate run has position 0.
    """
    by_set: dict[str, set[int]] = {}
    for case in cases:
        by_set.setdefault(case.eval_set_id, set()).update(run.source for run in case.runs)
    return frozenset(
        (eval_set_id, at)
        for eval_set_id, sources in by_set.items()
        for at in sorted(sources, key=rank.__getitem__)[-keep:]
    )

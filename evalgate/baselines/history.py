"""The runs of a baseline over time: fresh ones are added, old ones fall off the end, nothing is averaged.

Never the best of: a standard that only ever rises turns luck into regressions.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import TypeAlias

from evalgate.baselines.breaks import mark_breaks, thresholds_of
from evalgate.core.types import (
    NOT_THE_AGENTS_FAULT,
    Baseline,
    BaselineCase,
    BaselineRun,
    BaselineSource,
    CaseMetric,
    CaseResult,
    Record,
    Reply,
    RunResult,
)

KEPT = 20
"""Gate runs that a baseline keeps of each eval set, unless told otherwise."""

STALE_DAYS = 14
"""A model behind an agent drifts: an older baseline is said aloud."""

_LONGEST_REPLIES = 4096
"""Characters of one case: reports show ten lines of it, and every run reads the baseline."""

_Key: TypeAlias = tuple[str, str]


def baseline_of(record: Record, source: BaselineSource | None = None, path: str = "") -> Baseline:
    """The baseline that later runs are held against when `record` alone is the standard.

    Runs that followed up a suspicion are left out: they were made because a case looked bad. So are those
    that say nothing about the agent.
    """
    cases = tuple(map(case_of, record.cases))
    return Baseline(cases, (source or BaselineSource(record.created_at),), path)


def digest_of(record: Record) -> str:
    """Tells a record from every other that holds different runs, or was made at another time."""
    cases = [asdict(replace(case, replies=())) for case in baseline_of(record).cases]
    known = [record.created_at, record.duration_s, cases]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]


def added(before: Baseline | None, record: Record, source: BaselineSource, *, keep: int = KEPT) -> Baseline:
    """The baseline with the runs of one more record; the same when it holds them already.

    A case that asks something else than before starts anew, and so does a metric with other options. What
    the record does not have stays as it was. Of each eval set the newest `keep` gate runs are kept, by their
    time.
    """
    fresh = baseline_of(record, source)
    if before is None:
        return fresh
    after = _with(before, fresh)
    if after is before:
        return before
    in_time = pruned(after, keep=len(after.sources))
    return pruned(mark_breaks(in_time, before, thresholds_of(record.cases)), keep=keep)


def parted(baseline: Baseline) -> tuple[Baseline, ...]:
    """A baseline for each gate run, in their order; `together` makes them one again."""
    return tuple(
        Baseline(tuple(_only(case, at) for case in baseline.cases if _ran(case, at)), (source,))
        for at, source in enumerate(baseline.sources)
    )


def together(parts: Iterable[Baseline]) -> Baseline | None:
    """One baseline of several gate runs, each a baseline of its own; None of none.

    What changed on the way counts as when they are `added` one after the other, by their time.
    """
    found: Baseline | None = None
    for part in sorted(parts, key=lambda each: (each.sources[0].created_at or "", each.sources[0].digest)):
        found = _with(found, part) if found is not None else part
    return pruned(found, keep=len(found.sources)) if found is not None else None


def accepted(record: Record, source: BaselineSource, reason: str) -> Baseline:
    """The record as the new standard, in the place of all that was known, because a person says so."""
    return baseline_of(record, replace(source, accepted=reason))


def pruned(baseline: Baseline, *, keep: int) -> Baseline:
    """The newest `keep` gate runs of each eval set; cases that none of them has are gone."""
    order = sorted(range(len(baseline.sources)), key=lambda at: (baseline.sources[at].created_at or "", at))
    age = {at: number for number, at in enumerate(order)}
    kept = _kept_sources(baseline.cases, age, keep)
    cases = [
        (case, [run for run in case.runs if (case.eval_set_id, run.source) in kept])
        for case in baseline.cases
    ]
    used = {run.source for _, runs in cases for run in runs} or {order[-1]}
    index = {at: number for number, at in enumerate(at for at in order if at in used)}
    return replace(
        baseline,
        cases=tuple(replace(case, runs=_in_order(runs, index)) for case, runs in cases if runs),
        sources=tuple(baseline.sources[at] for at in index),
    )


def before(baseline: Baseline, created_at: str) -> Baseline | None:
    """What the baseline held when something was made; None: nothing."""
    old = {at for at, source in enumerate(baseline.sources) if (source.created_at or "") < created_at}
    cases = [
        replace(case, runs=tuple(run for run in case.runs if run.source in old)) for case in baseline.cases
    ]
    if not any(case.runs for case in cases):
        return None
    return pruned(replace(baseline, cases=tuple(cases)), keep=len(baseline.sources))


def newest(baseline: Baseline) -> Mapping[str, int]:
    """Eval set → index of the newest source that has one of its cases."""
    found: dict[str, int] = {}
    for case in baseline.cases:
        for run in case.runs:
            found[case.eval_set_id] = max(found.get(case.eval_set_id, 0), run.source)
    return found


def days_old(baseline: Baseline, now: datetime) -> int | None:
    """Whole days since the newest gate run in it; None when nobody knows."""
    try:
        times = [datetime.fromisoformat(each.created_at) for each in baseline.sources if each.created_at]
        return max((now - max(times)).days, 0) if times else None
    except (TypeError, ValueError):  # no time, or one without a zone
        return None


def remarks(baseline: Baseline, now: datetime) -> Iterator[str]:
    """What whoever is held against the baseline should know of it, in whole sentences."""
    days = days_old(baseline, now)
    if days is not None and days > STALE_DAYS:
        yield (
            f"The newest run in the baseline is {days} days old: a model that drifted since looks like a "
            "change of the agent. Save a fresh run of the default branch."
        )
    last = baseline.sources[-1]
    if last.accepted:
        yield f"The baseline was accepted on {(last.created_at or '')[:10]}: {last.accepted}"


def _with(before: Baseline, fresh: Baseline) -> Baseline:
    """The baseline with one more gate run, the only one of `fresh`; the same when it holds that already."""
    [source] = fresh.sources
    if source.digest and any(each.digest == source.digest for each in before.sources):
        return before
    new = len(before.sources)
    cases = {_key(case): case for case in before.cases}
    for case in fresh.cases:
        moved = replace(case, runs=tuple(replace(run, source=new) for run in case.runs))
        old = cases.get(_key(case))
        cases[_key(case)] = _joined(old, moved, is_late=_is_late(old, before, source)) if old else moved
    return replace(before, cases=tuple(cases.values()), sources=(*before.sources, source))


def _ran(case: BaselineCase, at: int) -> bool:
    return any(run.source == at for run in case.runs)


def _only(case: BaselineCase, at: int) -> BaselineCase:
    """The case as the gate run at `at` had it."""
    runs = tuple(replace(run, source=0) for run in case.runs if run.source == at)
    asked = {name for run in runs for name in run.scores}
    prints = {name: found for name, found in case.metric_fingerprints.items() if name in asked}
    is_newest = at == max(run.source for run in case.runs)
    replies = case.replies if is_newest else ()
    since = case.failing_since if is_newest else None
    return replace(case, runs=runs, metric_fingerprints=prints, replies=replies, failing_since=since)


def case_of(case: CaseResult) -> BaselineCase:
    """What `baseline_of` keeps of a case."""
    return BaselineCase(
        eval_set_id=case.eval_set_id,
        eval_id=case.eval_id,
        status=case.status,
        fingerprint=case.fingerprint,
        metric_fingerprints={metric.name: metric.fingerprint for metric in case.metrics},
        runs=tuple(_run(run, case.metrics) for run in case.runs if _tells(run)),
        replies=_replies(case),
    )


def _replies(case: CaseResult) -> tuple[Reply | None, ...]:
    """Of the first run that was answered."""
    run = next((run for run in case.runs if run.outcome == "answered"), None)
    replies = tuple(turn.actual for turn in run.turns) if run is not None else ()
    return replies if len(repr(replies)) <= _LONGEST_REPLIES else ()


def _tells(run: RunResult) -> bool:
    return not run.confirms and run.outcome not in NOT_THE_AGENTS_FAULT


def _run(run: RunResult, asked: Iterable[CaseMetric]) -> BaselineRun:
    scores: dict[str, float | None] = {metric.name: None for metric in asked}
    scores |= {metric.name: metric.score for metric in run.metrics}
    judge = run.judge.usage + run.judge.spared_usage if run.judge else None
    return BaselineRun(0, run.outcome, scores, run.duration_s, run.usage, run.user_usage, judge)


def _is_late(old: BaselineCase, before: Baseline, source: BaselineSource) -> bool:
    """The baseline has a newer gate run of the case: the record was made by a job that was overtaken."""
    times = [before.sources[run.source].created_at or "" for run in old.runs]
    return max(times, default="") > (source.created_at or "")


def _joined(old: BaselineCase, new: BaselineCase, *, is_late: bool) -> BaselineCase:
    if not new.runs:
        return old
    prints = {**old.metric_fingerprints, **new.metric_fingerprints}
    others = [name for name, then in old.metric_fingerprints.items() if prints[name] != then]
    if is_late:
        outdated = others or old.fingerprint != new.fingerprint
        return old if outdated else replace(old, metric_fingerprints=prints, runs=(*old.runs, *new.runs))
    if old.fingerprint != new.fingerprint:
        return new
    runs = tuple(run for run in map(_without(others), old.runs) if run.scores)
    return replace(new, metric_fingerprints=prints, runs=(*runs, *new.runs))


def _without(names: Sequence[str]) -> Callable[[BaselineRun], BaselineRun]:
    def forget(run: BaselineRun) -> BaselineRun:
        return replace(run, scores={name: score for name, score in run.scores.items() if name not in names})

    return forget


def _kept_sources(
    cases: Iterable[BaselineCase], age: Mapping[int, int], keep: int
) -> frozenset[tuple[str, int]]:
    """Eval set and source of every run that stays."""
    by_set: dict[str, set[int]] = {}
    for case in cases:
        by_set.setdefault(case.eval_set_id, set()).update(run.source for run in case.runs)
    return frozenset(
        (eval_set_id, at)
        for eval_set_id, sources in by_set.items()
        for at in sorted(sources, key=age.__getitem__)[-keep:]
    )


def _in_order(runs: Iterable[BaselineRun], index: Mapping[int, int]) -> tuple[BaselineRun, ...]:
    moved = (replace(run, source=index[run.source]) for run in runs)
    return tuple(sorted(moved, key=lambda run: run.source))


def _key(case: BaselineCase) -> _Key:
    return case.eval_set_id, case.eval_id

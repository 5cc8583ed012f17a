"""Whether the runs of a shard are runs that it can have made: what contradicts itself was not."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from evalgate.errors import Problem
from evalgate.model import CaseResult, Record, RunMetric, RunResult
from evalgate.numbers import mean_as_added
from evalgate.plan import Plan
from evalgate.protocols import MeanOfTurns
from evalgate.score import BoundMetric
from evalgate.scoring.ranges import Range
from evalgate.suites import Places
from evalgate.writtencase import WrittenRun


def find_contradictions(
    plan: Plan, records: Sequence[tuple[str, Record]], *, may_follow_up: bool
) -> Iterator[Problem]:
    """Yield every run that is doubled, missing, or worth something else than its turns and scores say.

    Args:
        plan: What the shards were parts of.
        records: File and content of each, of the cases that it should hold.
        may_follow_up: Whether a shard may have made further runs of some cases.
    """
    heads = list(Places(plan.suites).heads())
    # Of the metrics of each suite, made once: most cases have no thresholds of their own.
    expected = {id(suite.metrics): _expect(suite.metrics) for suite in plan.suites}
    for path, record in records:
        is_whole = record.verdict.status != "error"  # one that is not whole is refused for that
        for index, case in zip(record.shard.cases if record.shard else (), record.cases, strict=False):
            suite, head = heads[index]
            bound = suite.metrics_of(head)
            scores = expected.get(id(bound)) or _expect(bound)
            wanted = plan.fixed_runs if is_whole else 0
            sentences = [*_count(case, wanted, plan.fixed_runs, may_follow_up=may_follow_up)]
            sentences += [f"run {run.run}: {sentence}" for run in case.runs for sentence in _run(run, scores)]
            for sentence in sentences:
                yield Problem(path, 0, 0, f"{case.eval_id}: {sentence}: run the shard again")


class _Expected(NamedTuple):
    """What the score of one metric must be like."""

    bound: BoundMetric
    is_mean: bool
    """The score of a run is the mean of those of its turns."""


def _expect(metrics: Sequence[BoundMetric]) -> Mapping[str, _Expected]:
    # `isinstance` with a protocol looks for each of its members: too slow for each score.
    found = {each.name: _Expected(each, isinstance(each.metric, MeanOfTurns)) for each in metrics}
    return dict(sorted(found.items()))


def _count(case: CaseResult, wanted: int, fixed: int, *, may_follow_up: bool) -> Iterator[str]:
    numbers = [run.run for run in case.runs]
    if wanted == fixed and numbers == [*range(1, fixed + 1)]:
        return  # as nearly every case is
    times = Counter(numbers)
    doubled = [number for number, count in times.items() if count > 1]
    if doubled:
        yield f"run {min(doubled)} is given {times[min(doubled)]} times"
    missing = [number for number in range(1, wanted + 1) if number not in times]
    if missing:
        yield f"run {missing[0]} of {wanted} is missing"
    others = [number for number in times if number < 1 or (number > fixed and not may_follow_up)]
    if others:
        yield f"run {min(others)} is none of {fixed}"


def _run(run: RunResult, scores: Mapping[str, _Expected]) -> Iterator[str]:
    asked = list(scores) if run.outcome == "answered" else []
    if sorted(metric.name for metric in run.metrics) != asked:
        yield f"{run.outcome}, but not with the metrics that were asked of it"
        return
    turns = _scores_of_turns(run) if run.metrics else {}
    for metric in run.metrics:
        yield from _metric(metric, scores[metric.name], turns.get(metric.name, ()))


def _metric(metric: RunMetric, expected: _Expected, turns: Sequence[float | None]) -> Iterator[str]:
    bound = expected.bound
    if not _goes_with_status(metric, bound):
        yield f"{metric.name} is {metric.status} with a score of {metric.score}"
    elif metric.score is not None and expected.is_mean and turns:
        score = Range(*bound.criterion.range).clamp(mean_as_added([each or 0.0 for each in turns]))
        if not math.isclose(score, metric.score, abs_tol=1e-9):
            yield f"{metric.name} is {metric.score}, and {score} by its turns"


def _goes_with_status(metric: RunMetric, bound: BoundMetric) -> bool:
    if metric.score is None or metric.status in {"errored", "not_evaluated"}:
        return metric.score is None and metric.status in {"errored", "not_evaluated"}
    return not metric.literal or metric.status == bound.status(metric.score)


def _scores_of_turns(run: RunResult) -> Mapping[str, Sequence[float | None]]:
    """Return the scores of each metric, turn by turn; no object is made of what was said."""
    found: dict[str, list[float | None]] = {}
    written = run.said_as_json() if isinstance(run, WrittenRun) else None
    if written is None:
        for turn in run.turns:
            for each in turn.metrics:
                found.setdefault(each.name, []).append(each.score)
        return found
    for value in written:
        metrics = value.get("metrics", ()) if isinstance(value, dict) else ()
        for metric in metrics:
            found.setdefault(metric["name"], []).append(metric["score"])
    return found

"""Merge the records of all shards of a run: check that they match the plan, and decide the verdict."""

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from evalgate import __version__
from evalgate.core.errors import InvalidInputError, NoVerdictError, Problem
from evalgate.core.formatting import pluralize
from evalgate.core.means import compute_sequential_mean
from evalgate.core.protocols import AveragesTurns
from evalgate.core.types import CaseResult, ModelUsage, PlanId, Record, RunMetric, RunResult
from evalgate.datasets.large.lazy_runs import ShardRun
from evalgate.datasets.results_encoder import encode_turns
from evalgate.metrics.scoring import BoundMetric, describe_edited_score
from evalgate.runner.checkpoint.journal import FinishedRuns
from evalgate.runner.checkpoint.plan_id import compute_plan_id
from evalgate.runner.pipeline import (
    NO_CONTROL_WITHOUT_BASELINE,
    NO_TRACKED_FILES,
    add_notice,
    build_merged_record,
    read_baseline,
)
from evalgate.runner.plan import Plan
from evalgate.runner.record_builder import RunTiming
from evalgate.runner.result_collector import CaseIndex
from evalgate.runner.run_strategy import choose_statistics
from evalgate.runner.sharding import list_case_keys

_OTHER_SPLIT = (
    "the baseline changed between the shards, and they divided the cases by its durations. Run all shards "
    "again with the same baseline"
)
_NO_CONTROL_OF_SHARDS = (
    "Shards make no control runs, so the comparison with the baseline decides. To make them, run the cases "
    "that failed without --shard."
)


def merge_shards(plan: Plan, records: Sequence[tuple[str, Record]]) -> Record:
    """Merge the records of all shards of a run, and decide the verdict; return the merged record.

    `records` holds the file name and the record of each shard. It must not be empty.

    Raises:
        InvalidInputError: a shard is given twice, belongs to another run, or has runs that contradict the
            plan; a case is in several shards; or the baseline or the anchor (an older, fixed baseline) cannot
            be used.
        NoVerdictError: a shard is missing or incomplete, or a case is in no shard.
    """
    baseline = read_baseline(plan)
    judge_usage = sum((record.judge for _, record in records if record.judge), ModelUsage())
    statistics = choose_statistics(plan, baseline)
    finished = _collect_finished_runs(plan, records, may_follow_up=statistics is not None)
    timing = RunTiming(
        min(record.created_at for _, record in records),
        max(record.duration_s for _, record in records),
    )
    record = build_merged_record(plan, finished, judge_usage, baseline, timing)
    record = _restore_written_cases(record, records)
    if plan.agent.settings.track_files:
        record = add_notice(record, NO_TRACKED_FILES)
    if plan.control_source is None or record.verdict.status != "fail":
        return record
    return add_notice(record, NO_CONTROL_WITHOUT_BASELINE if baseline is None else _NO_CONTROL_OF_SHARDS)


def _collect_finished_runs(
    plan: Plan, records: Sequence[tuple[str, Record]], *, may_follow_up: bool
) -> FinishedRuns:
    """Check the records of the shards, and return their runs by the index of the case in the plan.

    If `may_follow_up` is True, a shard may have made more runs of a case than planned.

    Raises:
        InvalidInputError: a shard is given twice, belongs to another run, or has runs that contradict the
            plan; or a case is in several shards. The error also lists what is missing or incomplete.
        NoVerdictError: shards are missing or incomplete, or cases are in no shard; all else is right.
    """
    wrong = dict.fromkeys([*_find_foreign_shards(plan, records), *_find_duplicate_shards(records)])
    incomplete = list(_find_incomplete_shards(records))
    if not wrong:
        found = _find_contradictions(plan, records, may_follow_up=may_follow_up)
        wrong = dict.fromkeys([*_find_shared_cases(plan, records), *found])
        incomplete = incomplete or list(_find_lost_cases(plan, records))
    if wrong:
        raise InvalidInputError([*wrong, *incomplete])
    if incomplete:
        raise NoVerdictError("\n".join(map(str, incomplete)))
    return {
        index: case.runs
        for _, record in records
        if record.shard is not None
        for index, case in zip(record.shard.cases, record.cases, strict=True)
    }


def _restore_written_cases(record: Record, records: Sequence[tuple[str, Record]]) -> Record:
    """Return the merged record; each case that equals the case in its shard's record is this same object.

    The shard's object still has its JSON text, so the case need not be encoded again.
    """
    cases = list(record.cases)
    for _, part in records:
        if part.shard is not None:
            for index, case in zip(part.shard.cases, part.cases, strict=True):
                if cases[index] == case:
                    cases[index] = case
    return replace(record, cases=tuple(cases))


def _find_foreign_shards(plan: Plan, records: Sequence[tuple[str, Record]]) -> Iterator[Problem]:
    own, cases = compute_plan_id(plan), list_case_keys(plan)
    for path, record in records:
        shard = record.shard
        if shard is None:
            yield Problem(path, 0, 0, "is no shard: it was not made with --shard")
        elif record.evalgate_version != __version__:
            version = record.evalgate_version
            yield Problem(
                path, 0, 0, f"was made by evalgate {version}, and this is {__version__}: merge with it"
            )
        elif shard.plan != own:
            found = _describe_difference(shard.plan, own, _describe_cases(record, plan))
            yield Problem(path, 0, 0, f"is a shard of another run: {found} differ from what is here")
        elif [cases[index] for index in shard.cases if index < len(cases)] != [
            case.key for case in record.cases
        ]:
            yield Problem(path, 0, 0, "does not hold the cases of its shard: it was edited")


def _describe_cases(record: Record, plan: Plan) -> str:
    """Return a phrase that names the likely difference between the cases of a shard and those of the plan.

    It is the first of these that differs: the number of runs, or the options that select cases. If neither
    differs, the phrase is `eval sets`.
    """
    if record.runs != plan.runs:
        return f"runs of each case ({record.runs} in the shard, {plan.runs} here)"
    there, here = (
        "all" if each.selection is None else f"`{shlex.join(each.selection.options)}`"
        for each in (record, plan)
    )
    return "eval sets" if there == here else f"selected cases ({there} in the shard, {here} here)"


def _describe_difference(then: PlanId, now: PlanId, cases: str) -> str:
    pairs = (
        (cases, then.eval_sets, now.eval_sets),
        ("thresholds", then.thresholds, now.thresholds),
        ("agent or its code", then.agent, now.agent),
    )
    return " and ".join(what for what, one, other in pairs if one != other)


def _find_duplicate_shards(records: Sequence[tuple[str, Record]]) -> Iterator[Problem]:
    shards = [(path, record.shard) for path, record in records if record.shard is not None]
    counts = {shard.count for _, shard in shards}
    if len(counts) > 1:
        yield Problem("", 0, 0, f"the shards are of different runs: of {_format_numbers(counts)} parts")
        return
    times = Counter(shard.index for _, shard in shards)
    for path, shard in shards:
        if times[shard.index] > 1:
            yield Problem(path, 0, 0, f"shard {shard.index} is given {times[shard.index]} times")


def _find_incomplete_shards(records: Sequence[tuple[str, Record]]) -> Iterator[Problem]:
    shards = [record.shard for _, record in records if record.shard is not None]
    for path, record in records:
        if record.shard is not None and record.verdict.status == "error":
            yield Problem(path, 0, 0, f"is not whole: {record.verdict.reasons[0]}")
    count = max((shard.count for shard in shards), default=1)
    missing = set(range(1, count + 1)) - {shard.index for shard in shards}
    if missing and len({shard.count for shard in shards}) == 1:
        yield Problem("", 0, 0, f"shard {_format_numbers(missing)} of {count} is missing")


def _find_shared_cases(plan: Plan, records: Sequence[tuple[str, Record]]) -> Iterator[Problem]:
    """Yield one problem if cases are in several shards. It names the first case and the case's files."""
    files: dict[int, list[str]] = {}
    for path, record in records:
        for index in record.shard.cases if record.shard else ():
            files.setdefault(index, []).append(path)
    shared = sorted(index for index, paths in files.items() if len(paths) > 1)
    if shared:
        where = ", ".join(files[shared[0]])
        cases = _format_cases(plan, shared)
        yield Problem("", 0, 0, f"{cases} in more than one shard ({where}): {_OTHER_SPLIT}")


def _find_lost_cases(plan: Plan, records: Sequence[tuple[str, Record]]) -> Iterator[Problem]:
    """Yield one problem if cases of the plan are in no shard. It names the first case."""
    assigned = {index for _, record in records if record.shard for index in record.shard.cases}
    lost = [index for index, _ in enumerate(list_case_keys(plan)) if index not in assigned]
    if lost:
        yield Problem("", 0, 0, f"{_format_cases(plan, lost)} in no shard: {_OTHER_SPLIT}")


def _format_cases(plan: Plan, indices: Sequence[int]) -> str:
    """Return the beginning of a sentence about the cases at `indices`: `greets and 2 other cases are`."""
    _, first = list_case_keys(plan)[indices[0]]
    others = len(indices) - 1
    return f"{first} and {pluralize(others, 'other case')} are" if others else f"{first} is"


def _format_numbers(numbers: Sequence[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


# --- contradictions between a shard and the plan ------------------------------------------------------------


def _find_contradictions(
    plan: Plan, records: Sequence[tuple[str, Record]], *, may_follow_up: bool
) -> Iterator[Problem]:
    """Yield a problem for each contradiction between a plan and the runs of its shards.

    Contradictions are:
    - Runs of a case are repeated, missing or not planned. For each of the three, one run is named.
    - A run lacks an expected metric, or has a metric that is not expected.
    - A score does not fit the status or the range of its metric, or is not the mean of the turns' scores.

    Args:
        plan: The plan that the shards are parts of.
        records: File name and record of each shard.
        may_follow_up: True if a shard may have made further runs of some cases.
    """
    planned = list(CaseIndex(plan.suites).iter_cases())
    # Built once for each suite, because most cases have no thresholds of their own.
    expected = {id(suite.metrics): _expect(suite.metrics) for suite in plan.suites}
    for path, record in records:
        is_whole = record.verdict.status != "error"  # `_collect_finished_runs` refuses incomplete shards
        for index, case in zip(record.shard.cases if record.shard else (), record.cases, strict=False):
            suite, planned_case = planned[index]
            bound = suite.get_metrics(planned_case)
            scores = expected.get(id(bound)) or _expect(bound)
            wanted = plan.first_runs if is_whole else 0
            sentences = [*_check_run_numbers(case, wanted, plan.first_runs, may_follow_up=may_follow_up)]
            sentences += [
                f"run {run.run}: {sentence}" for run in case.runs for sentence in _check_run(run, scores)
            ]
            for sentence in sentences:
                yield Problem(path, 0, 0, f"{case.eval_id}: {sentence}: run the shard again")


class _Expected(NamedTuple):
    """Metric that every answered run of a case must have."""

    bound: BoundMetric
    is_mean: bool
    """True: the metric's score for a run must be the mean of its scores for the run's turns."""


def _expect(metrics: Sequence[BoundMetric]) -> Mapping[str, _Expected]:
    # Built here and not for each score, because `isinstance` with a protocol is slow.
    found = {each.name: _Expected(each, isinstance(each.metric, AveragesTurns)) for each in metrics}
    return dict(sorted(found.items()))


def _check_run_numbers(case: CaseResult, expected: int, fixed: int, *, may_follow_up: bool) -> Iterator[str]:
    numbers = [run.run for run in case.runs]
    if expected == fixed and numbers == [*range(1, fixed + 1)]:
        return  # the usual case, at little cost
    times = Counter(numbers)
    doubled = [number for number, count in times.items() if count > 1]
    if doubled:
        yield f"run {min(doubled)} is given {times[min(doubled)]} times"
    missing = [number for number in range(1, expected + 1) if number not in times]
    if missing:
        yield f"run {missing[0]} of {expected} is missing"
    others = [number for number in times if number < 1 or (number > fixed and not may_follow_up)]
    if others:
        yield f"run {min(others)} is none of {fixed}"


def _check_run(run: RunResult, scores: Mapping[str, _Expected]) -> Iterator[str]:
    asked = list(scores) if run.outcome == "answered" else []
    if sorted(metric.name for metric in run.metrics) != asked:
        yield f"{run.outcome}, but not with the metrics that were asked of it"
        return
    turns = _collect_turn_scores(run) if run.metrics else {}
    for metric in run.metrics:
        yield from _check_metric(metric, scores[metric.name], turns.get(metric.name, ()))


def _check_metric(metric: RunMetric, expected: _Expected, turns: Sequence[float | None]) -> Iterator[str]:
    criterion = expected.bound.criterion
    edited = describe_edited_score(metric, criterion.range, criterion.threshold, criterion.implementation)
    if edited:
        yield edited
    elif metric.score is not None and expected.is_mean and turns:
        score = criterion.range.clamp(compute_sequential_mean([each or 0.0 for each in turns]))
        if not math.isclose(score, metric.score, abs_tol=1e-9):
            yield f"{metric.name} is {metric.score}, and {score} by its turns"


def _collect_turn_scores(run: RunResult) -> Mapping[str, Sequence[float | None]]:
    """Return the scores of each metric in the order of the turns, without decoding the conversation."""
    scores = run.turn_scores if isinstance(run, ShardRun) else None
    if scores is None:
        metrics = [metric for turn in encode_turns(run) for metric in turn.get("metrics", ())]
        scores = [(metric["name"], metric["score"]) for metric in metrics]
    found: dict[str, list[float | None]] = {}
    for name, score in scores:
        found.setdefault(name, []).append(score)
    return found

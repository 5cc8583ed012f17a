"""Split a run into shards, read their records, check that each matches the plan, and merge them."""

import glob
import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import heapify, heapreplace
from pathlib import Path
from typing import NamedTuple

from evalgate import __version__
from evalgate.core.errors import InvalidInputError, NoVerdictError, Problem
from evalgate.core.exit_codes import ExitCode
from evalgate.core.formatting import compute_sequential_mean
from evalgate.core.protocols import AveragesTurns
from evalgate.core.types import (
    AgentInfo,
    Baseline,
    CaseResult,
    PlanId,
    Record,
    RunMetric,
    RunResult,
    Shard,
    Verdict,
)
from evalgate.datasets.large.stored_results import ShardRun, read_shard_case
from evalgate.datasets.results_encoder import encode_turns
from evalgate.datasets.results_io import is_shard_intact, load_record, read_record_bytes, split_record
from evalgate.llm.budget_guard import describe_budget_shortfall
from evalgate.metrics.aggregation import compute_totals, summarize_metrics
from evalgate.metrics.scoring import BoundMetric
from evalgate.runner.checkpoint.journal import FinishedRuns
from evalgate.runner.checkpoint.plan_id import compute_plan_id
from evalgate.runner.evaluation import Evaluation
from evalgate.runner.plan import Plan
from evalgate.runner.record_builder import RunTiming
from evalgate.runner.suites import CaseIndex
from evalgate.system.files import is_readable_name


def estimate_case_seconds(cases: Sequence[tuple[str, str]], baseline: Baseline | None) -> list[float]:
    """Estimate each case's seconds per run from the baseline.

    Cases that the baseline does not have get the mean of its cases, or 1 second without a baseline. `cases`
    are (eval set id, case id).
    """
    known: dict[tuple[str, str], float] = {}
    for case in baseline.cases if baseline else ():
        if case.runs:
            known[case.eval_set_id, case.eval_id] = sum(run.duration_s for run in case.runs) / len(case.runs)
    usual = sum(known.values()) / len(known) if known else 1.0
    return [known.get(case, usual) for case in cases]


def assign_cases(seconds: Sequence[float], count: int) -> tuple[tuple[int, ...], ...]:
    """Return the sorted case indices of each of `count` shards, each case in one shard.

    `seconds` are the expected durations of the cases. Cases are assigned from the longest to the shortest,
    each to the shard with the least load. So the longest shard takes at most 4/3 of the best possible time
    (Graham 1969, "Bounds on Multiprocessing Timing Anomalies"). The same input gives the same shares on
    every machine.
    """
    found: list[list[int]] = [[] for _ in range(count)]
    busy = [(0.0, 0, shard) for shard in range(count)]
    heapify(busy)
    for index in sorted(range(len(seconds)), key=lambda index: (-seconds[index], index)):
        load, cases, shard = busy[0]
        found[shard].append(index)
        heapreplace(busy, (load + seconds[index], cases + 1, shard))
    return tuple(tuple(sorted(indices)) for indices in found)


def find_contradictions(
    plan: Plan, records: Sequence[tuple[str, Record]], *, may_follow_up: bool
) -> Iterator[Problem]:
    """Yield the contradictions between a plan and the runs of its shards.

    A case may have runs that are repeated, missing or not planned; one run of each kind is named. A run may
    lack metrics. It may also have a score that contradicts the metric's status or the scores of the turns.

    Args:
        plan: The plan that the shards are parts of.
        records: File name and record of each shard.
        may_follow_up: True if a shard may have made further runs of some cases.
    """
    planned = list(CaseIndex(plan.suites).iter_cases())
    # Of the metrics of each suite, made once: most cases have no thresholds of their own.
    expected = {id(suite.metrics): _expect(suite.metrics) for suite in plan.suites}
    for path, record in records:
        is_whole = record.verdict.status != "error"  # `collect_finished_runs` refuses others
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
    """Metric of a case; `is_mean` is True if its score for a run is the mean of the turns' scores."""

    bound: BoundMetric
    is_mean: bool
    """The score of a run is the mean of the scores of its turns."""


def _expect(metrics: Sequence[BoundMetric]) -> Mapping[str, _Expected]:
    # Here and not for each score: `isinstance` with a protocol is slow, as it looks for each member.
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
    bound = expected.bound
    if not _matches_status(metric, bound):
        yield f"{metric.name} is {metric.status} with a score of {metric.score}"
    elif metric.score is not None and expected.is_mean and turns:
        score = bound.criterion.range.clamp(compute_sequential_mean([each or 0.0 for each in turns]))
        if not math.isclose(score, metric.score, abs_tol=1e-9):
            yield f"{metric.name} is {metric.score}, and {score} by its turns"


def _matches_status(metric: RunMetric, bound: BoundMetric) -> bool:
    if metric.score is None or metric.status in {"errored", "not_evaluated"}:
        return metric.score is None and metric.status in {"errored", "not_evaluated"}
    return not metric.literal or metric.status == bound.decide_score_status(metric.score)


def _collect_turn_scores(run: RunResult) -> Mapping[str, Sequence[float | None]]:
    """Return the scores of each metric, turn by turn, without decoding the run's conversation."""
    scores = run.turn_scores if isinstance(run, ShardRun) else None
    if scores is None:
        metrics = [metric for turn in encode_turns(run) for metric in turn.get("metrics", ())]
        scores = [(metric["name"], metric["score"]) for metric in metrics]
    found: dict[str, list[float | None]] = {}
    for name, score in scores:
        found.setdefault(name, []).append(score)
    return found


def build_shard(plan: Plan, index: int, count: int, baseline: Baseline | None) -> Shard:
    """Choose the cases of shard `index` (1-based) of `count`; every machine gets the same result.

    Raises:
        InvalidInputError: the number of runs is not known beforehand (`runs: auto`).
    """
    if plan.runs == "auto":
        raise InvalidInputError(
            "`runs: auto` looks at all cases before it runs one again, so it cannot be sharded: give --runs N"
        )
    cases = _list_case_keys(plan)
    share = assign_cases(estimate_case_seconds(cases, baseline), count)[index - 1]
    return Shard(index, count, share, len(cases), compute_plan_id(plan))


def build_shard_record(plan: Plan, evaluation: Evaluation, shard: Shard, made: RunTiming) -> Record:
    """Build the record of a shard, with its results but without a verdict on the agent."""
    results = evaluation.collect_results()
    cases = tuple(results[index] for index in shard.cases)
    return Record(
        evalgate_version=__version__,
        created_at=made.created_at,
        duration_s=made.duration_s,
        agent=AgentInfo(plan.agent.settings.kind, plan.agent.name),
        runs=plan.first_runs,
        verdict=_build_shard_verdict(plan, evaluation, shard, cases),
        metrics=summarize_metrics(cases),
        cases=cases,
        totals=compute_totals(cases),
        notices=plan.judge_resolver.models.notices,
        shard=shard,
        judge=evaluation.judge_usage,
        selection=plan.selection,
    )


def _build_shard_verdict(
    plan: Plan, evaluation: Evaluation, shard: Shard, cases: Sequence[CaseResult]
) -> Verdict:
    name = f"Shard {shard.index} of {shard.count}"
    if evaluation.interrupted:
        return Verdict("error", ExitCode.INTERRUPTED, (f"{name} was interrupted. Resume it with --resume.",))
    if evaluation.unreachable:
        return Verdict(
            "error",
            ExitCode.NO_VERDICT,
            (f"{name}: the agent could not be reached: {evaluation.unreachable}",),
        )
    if plan.label_check is not None and (phrases := plan.label_check.unreliable):
        return Verdict("error", ExitCode.NO_VERDICT, tuple(f"{name}: {each}." for each in phrases))
    health = evaluation.judge_health
    if health is not None and not health.is_reliable:
        sentence = f"{name}: {health.sentence}. {health.shortfall}"
        return Verdict("error", ExitCode.NO_VERDICT, (sentence,))
    undone = tuple(
        describe_budget_shortfall(cases, more_wanted=False, why=evaluation.spending.exhausted_budget)
    )
    if undone:
        return Verdict("error", ExitCode.NO_VERDICT, tuple(f"{name}: {sentence}" for sentence in undone))
    sentence = f"{name} is done. `evalgate merge` gives the verdict when all {shard.count} are."
    return Verdict("inconclusive", ExitCode.OPEN, (sentence,))


def collect_finished_runs(
    plan: Plan, records: Sequence[tuple[str, Record]], *, may_follow_up: bool
) -> FinishedRuns:
    """Return the runs of all shards, by the index of their case.

    `may_follow_up`: a shard may have made more runs of a case than the plan says.

    Raises:
        InvalidInputError: with every problem: a shard is given twice, belongs to another run, or
            contradicts itself.
        NoVerdictError: a shard is missing or did not come to its end.
    """
    wrong = dict.fromkeys([*_find_foreign_shards(plan, records), *_find_duplicate_shards(records)])
    incomplete = list(_find_incomplete_shards(records))
    if not wrong:
        wrong = dict.fromkeys(find_contradictions(plan, records, may_follow_up=may_follow_up))
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


def restore_written_cases(record: Record, records: Sequence[tuple[str, Record]]) -> Record:
    """Return the merged record, with the shards' own objects for cases that merging left unchanged.

    A shard's object keeps the JSON text that it was read from, so the text need not be encoded again.
    """
    cases = list(record.cases)
    for _, part in records:
        if part.shard is not None:
            for index, case in zip(part.shard.cases, part.cases, strict=True):
                if cases[index] == case:
                    cases[index] = case
    return replace(record, cases=tuple(cases))


def _find_foreign_shards(plan: Plan, records: Sequence[tuple[str, Record]]) -> Iterator[Problem]:
    own, cases = compute_plan_id(plan), _list_case_keys(plan)
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
    """Return what makes the cases of a shard differ from the plan's: an option, or the eval sets."""
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


def _format_numbers(numbers: Sequence[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _list_case_keys(plan: Plan) -> list[tuple[str, str]]:
    return [
        (suite.eval_set.eval_set_id, case.eval_id) for suite in plan.suites for case in suite.eval_set.cases
    ]


# --- reading the records of shards --------------------------------------------------------------------------


def find_shards(patterns: Sequence[str], *, folder: Path) -> tuple[str, ...]:
    """Return the paths of the shards' records, relative to `folder`. `patterns` name files, folders or globs.

    A folder stands for every `results.json` in it, at any depth. If it has none, it stands for
    `FOLDER/results.json`. A name that matches nothing stays as it is, so that reading it reports a missing
    file. The names keep their order, and the paths of one name are sorted.
    """
    return tuple(file for pattern in patterns for file in _expand_pattern(pattern, folder) or [pattern])


def _expand_pattern(pattern: str, folder: Path) -> list[str]:
    path = folder / pattern
    if path.is_dir():
        found = sorted(file.relative_to(path) for file in path.rglob("results.json"))
        return [str(Path(pattern) / file) for file in found or [Path("results.json")]]
    if path.exists() or not glob.has_magic(pattern):
        return [pattern]
    names = glob.glob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207  as eval sets are found
    return sorted(name for name in names if is_readable_name(folder / name))


def read_shard(path: Path, shown_as: str) -> Record:
    """Read the record of a shard. If this version of evalgate wrote it, conversations are parsed on access.

    Raises:
        InvalidInputError: the file cannot be read, or was edited after this version wrote it.
    """
    data = read_record_bytes(path, shown_as)
    record = None
    with suppress(InvalidInputError, ValueError):
        record = _read_current_version(data, shown_as)
    if record is None:  # not within the block, which keeps the memory of the failed attempt
        record = load_record(data, shown_as)
    if record.shard is not None and record.evalgate_version == __version__ and not is_shard_intact(data):
        message = "was changed since the shard wrote it: run the shard again, or take its file as it was"
        raise InvalidInputError([Problem(shown_as, 0, 0, message)])
    return record


def _read_current_version(data: bytes, shown_as: str) -> Record:
    record, lines = split_record(data, shown_as)
    if record.evalgate_version != __version__:
        raise ValueError("written by another version")
    return replace(record, cases=tuple(_iter_cases(lines)))


def _iter_cases(lines: Iterable[bytes]) -> Iterator[CaseResult]:
    for line in lines:
        if b"\n" in line:
            raise ValueError("written by another program")
        yield read_shard_case(line)

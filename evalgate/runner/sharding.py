"""Assign the cases of a run to shards, and build the record of one shard."""

from collections.abc import Sequence
from heapq import heapify, heapreplace

from evalgate import __version__
from evalgate.core.errors import InvalidInputError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.types import AgentInfo, Baseline, CaseKey, CaseResult, Record, Shard, Verdict
from evalgate.llm.budget_guard import describe_budget_shortfall
from evalgate.metrics.metric_summaries import compute_totals, summarize_metrics
from evalgate.runner.checkpoint.plan_id import compute_plan_id
from evalgate.runner.plan import Plan
from evalgate.runner.record_builder import RunTiming
from evalgate.runner.result_collector import ResultCollector


def estimate_case_seconds(cases: Sequence[tuple[str, str]], baseline: Baseline | None) -> list[float]:
    """Return, for each case, the expected seconds of one run, in the order of `cases`.

    `cases` are pairs (eval set id, case id). The estimate is the mean duration of the case's runs in the
    baseline. For a case without runs, it is the mean of all cases of the baseline that have runs. If no case
    has runs, it is 1 second.
    """
    known: dict[tuple[str, str], float] = {}
    for case in baseline.cases if baseline else ():
        if case.runs:
            known[case.eval_set_id, case.eval_id] = sum(run.duration_s for run in case.runs) / len(case.runs)
    usual = sum(known.values()) / len(known) if known else 1.0
    return [known.get(case, usual) for case in cases]


def assign_cases(seconds: Sequence[float], count: int) -> tuple[tuple[int, ...], ...]:
    """Assign each case to one of `count` shards, and return the sorted case indices (from 0) of each shard.

    `seconds` are the expected durations of the cases. Cases are assigned from the longest to the shortest,
    each to the shard with the least load. Thus the longest shard takes at most 4/3 of the best possible time
    (Graham 1969, "Bounds on Multiprocessing Timing Anomalies"). The result is the same on every machine.
    """
    found: list[list[int]] = [[] for _ in range(count)]
    busy = [(0.0, 0, shard) for shard in range(count)]
    heapify(busy)
    for index in sorted(range(len(seconds)), key=lambda index: (-seconds[index], index)):
        load, cases, shard = busy[0]
        found[shard].append(index)
        heapreplace(busy, (load + seconds[index], cases + 1, shard))
    return tuple(tuple(sorted(indices)) for indices in found)


def list_case_keys(plan: Plan) -> list[CaseKey]:
    """Return the key of every case of the plan, in the order of the plan."""
    return [
        (suite.eval_set.eval_set_id, case.eval_id) for suite in plan.suites for case in suite.eval_set.cases
    ]


def build_shard(plan: Plan, index: int, count: int, baseline: Baseline | None) -> Shard:
    """Choose the cases of shard `index` (from 1) of `count` shards; every machine gets the same result.

    Raises:
        InvalidInputError: the plan has `runs: auto`, so the number of runs is not known beforehand.
    """
    if plan.runs == "auto":
        raise InvalidInputError(
            "`runs: auto` looks at all cases before it runs one again, so it cannot be sharded: give --runs N"
        )
    cases = list_case_keys(plan)
    share = assign_cases(estimate_case_seconds(cases, baseline), count)[index - 1]
    return Shard(index, count, share, len(cases), compute_plan_id(plan))


def build_shard_record(plan: Plan, run_results: ResultCollector, shard: Shard, made: RunTiming) -> Record:
    """Build the record of a shard, with the results of its cases; `made` is the time of its runs.

    The record's verdict says only whether the shard is done, or why runs are missing. The verdict on the
    agent is decided when the shards are merged.
    """
    results = run_results.score_cases()
    cases = tuple(results[index] for index in shard.cases)
    return Record(
        evalgate_version=__version__,
        created_at=made.created_at,
        duration_s=made.duration_s,
        agent=AgentInfo(plan.agent.settings.kind, plan.agent.name),
        runs=plan.first_runs,
        verdict=_build_shard_verdict(plan, run_results, shard, cases),
        metrics=summarize_metrics(cases),
        cases=cases,
        totals=compute_totals(cases),
        notices=plan.judge_resolver.models.notices,
        shard=shard,
        judge=run_results.judge_usage,
        selection=plan.selection,
    )


def _build_shard_verdict(
    plan: Plan, run_results: ResultCollector, shard: Shard, cases: Sequence[CaseResult]
) -> Verdict:
    name = f"Shard {shard.index} of {shard.count}"
    if run_results.interrupted:
        return Verdict("error", ExitCode.INTERRUPTED, (f"{name} was interrupted. Resume it with --resume.",))
    if run_results.unreachable:
        return Verdict(
            "error",
            ExitCode.NO_VERDICT,
            (f"{name}: the agent could not be reached: {run_results.unreachable}",),
        )
    if plan.label_check is not None and (phrases := plan.label_check.unreliable):
        return Verdict("error", ExitCode.NO_VERDICT, tuple(f"{name}: {each}." for each in phrases))
    health = run_results.calibration_verdict
    if health is not None and not health.is_reliable:
        sentence = f"{name}: {health.sentence}. {health.shortfall}"
        return Verdict("error", ExitCode.NO_VERDICT, (sentence,))
    undone = tuple(
        describe_budget_shortfall(cases, more_wanted=False, why=run_results.spending.exhaustion_reason)
    )
    if undone:
        return Verdict("error", ExitCode.NO_VERDICT, tuple(f"{name}: {sentence}" for sentence in undone))
    sentence = f"{name} is done. `evalgate merge` gives the verdict when all {shard.count} are."
    return Verdict("inconclusive", ExitCode.OPEN, (sentence,))

"""Score stored runs with the metrics of a plan, which may differ from the metrics of the stored record."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from evalgate.core import plugin_registry
from evalgate.core.formatting import pluralize
from evalgate.core.protocols import LlmJudged
from evalgate.core.types import (
    CaseKey,
    CaseRun,
    EvalCase,
    Failure,
    Record,
    RunMetric,
    RunResult,
    UserMessage,
)
from evalgate.datasets.acceptance import is_never_accepted
from evalgate.metrics.scoring import score_run
from evalgate.runner.metric_binding import close_metrics
from evalgate.runner.pipeline import SilentProgress
from evalgate.runner.plan import Plan
from evalgate.runner.record_builder import RunTiming, build_record
from evalgate.runner.result_collector import CaseIndex, ResultCollector, RunStart
from evalgate.runner.run_strategy import choose_statistics
from evalgate.runner.scheduler import RunRequest
from evalgate.runner.suites import Suite

NO_RECORDING = "no_recording"
"""Kind of failure: the record has no run of the case, or a run with other user messages."""


async def score_record(record: Record, plan: Plan, redact_case: Callable[[EvalCase], EvalCase]) -> Record:
    """Score the runs of a record with the metrics of a plan, and decide the verdict without a baseline.

    `redact_case` redacts a case in the same way as the record was redacted, so that texts of both can be
    compared.
    """
    plan = plan.drop_baseline()
    run_results = ResultCollector(plan, SilentProgress(), RunStart())
    await score_stored_runs(run_results, collect_stored_runs(record, plan.suites, redact_case), redact_case)
    timing = RunTiming(record.created_at, record.duration_s)
    scored = build_record(plan, run_results, choose_statistics(plan, None), None, timing)
    unused = describe_unused_cases(record, plan.suites)
    return replace(scored, agent=record.agent, notices=(*scored.notices, *filter(None, [unused])))


async def score_accepted_run(suite: Suite, case: EvalCase, run: RunResult) -> Sequence[RunMetric]:
    """Score a stored run against `case`: a case of the suite that has other expectations now.

    Only evalgate's own metrics that ask no model are used, and no rules such as checks (`is_never_accepted`).
    """
    bound_metrics = [
        bound
        for bound in suite.get_metrics(case)
        if bound.criterion.implementation in plugin_registry.METRICS
        and not is_never_accepted(bound.name)
        and not isinstance(bound.metric, LlmJudged)
    ]
    scored = await score_run(case, build_case_run(case, run), bound_metrics)
    return scored.metrics


async def score_stored_runs(
    run_results: ResultCollector,
    stored: Mapping[int, Sequence[CaseRun]],
    redact_case: Callable[[EvalCase], EvalCase],
) -> None:
    """Score stored runs with the metrics of the plan, and add them to `run_results`.

    `stored` has the runs of each case, by the index of the case in the plan. If a judge is unreliable,
    nothing is scored. `redact_case` redacts a case in the same way as the stored runs were redacted.
    """
    plan = run_results.plan
    async with plan.judge_resolver.models, close_metrics(plan.bound_metrics):
        if not await run_results.is_judge_reliable():
            return
        slots = asyncio.Semaphore(plan.agent.settings.concurrency)

        async def score_in_slot(index: int, run: CaseRun) -> None:
            async with slots:
                request = RunRequest(redact_case(run_results.case_index.get_case(index)), run.run, index)
                await run_results.score_finished_run(request, run)

        async with asyncio.TaskGroup() as group:
            for index, runs in stored.items():
                for run in runs:
                    group.create_task(score_in_slot(index, run))


def collect_stored_runs(
    record: Record, suites: Sequence[Suite], redact_case: Callable[[EvalCase], EvalCase]
) -> Mapping[int, Sequence[CaseRun]]:
    """Return the stored runs of every case of the suites, by the index of the case.

    Follow-up runs (further runs that check a failure) are left out. A run has the outcome `not_run`, and a
    failure with the reason, in two cases: the user messages of the case have changed since the run, or the
    record has no run of the case. `redact_case` redacts a case in the same way as the record was redacted, so
    that the messages can be compared.
    """
    stored = {case.key: case.runs for case in record.cases}
    found: dict[int, Sequence[CaseRun]] = {}
    for index, (suite, case) in enumerate(CaseIndex(suites).iter_cases()):
        runs = [run for run in stored.get(_get_key(suite, case), ()) if not run.confirms]
        absent = _refuse_run(1, "the record has no run of this case")
        found[index] = [build_case_run(redact_case(case), run) for run in runs] or [absent]
    return found


def describe_unused_cases(record: Record, suites: Sequence[Suite]) -> str:
    """Return a notice about cases of the record that no suite contains; "" if there are no such cases."""
    known = {_get_key(suite, case) for suite, case in CaseIndex(suites).iter_cases()}
    unused = [case for case in record.cases if case.key not in known]
    if not unused:
        return ""
    verbs = ("is", "was") if len(unused) == 1 else ("are", "were")
    cases = pluralize(len(unused), "case")
    return f"{cases} of the record {verbs[0]} in none of the eval sets and {verbs[1]} not scored."


def _get_key(suite: Suite, case: EvalCase) -> CaseKey:
    return suite.eval_set.eval_set_id, case.eval_id


def build_case_run(case: EvalCase, run: RunResult) -> CaseRun:
    """Return a stored run as a `CaseRun`.

    If the user messages of the case have changed since the run, return a run with the outcome `not_run`.
    """
    written = [turn.user.text for turn in case.turns]
    # Turns after a failure were never run. An answered run has an entry for each turn, a reply or None.
    played = run.turns
    if run.outcome != "answered":
        played = tuple(takewhile(lambda turn: turn.actual is not None, played))
    for number, (turn, text) in enumerate(zip(played, written, strict=False), 1):
        if turn.user != text:
            return _refuse_run(run.run, f"the record answers another question in turn {number}")
    return CaseRun(
        run=run.run,
        outcome=run.outcome,
        replies=tuple(turn.actual for turn in played),
        duration_s=run.duration_s,
        usage=run.usage,
        failure=run.failure,
        final_state=run.final_state,
        earlier_attempts=run.earlier_attempts,
        said=tuple(UserMessage(turn.user) for turn in played),
        user_usage=run.user_usage,
        trace=run.trace,
    )


def _refuse_run(number: int, sentence: str) -> CaseRun:
    return CaseRun(number, "not_run", failure=Failure(NO_RECORDING, sentence))

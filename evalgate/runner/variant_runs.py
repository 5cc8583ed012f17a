"""Make the runs of all variants in turn, so that all variants run the same case at about the same time."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import join_quoted, pluralize, to_sentence
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, ChecksEntry, HasNotices, ProgressListener
from evalgate.core.types import NON_AGENT_OUTCOMES, CaseRun, ModelUsage, Record, RunResult
from evalgate.llm.budget_guard import was_stopped_by_budget
from evalgate.llm.usage import RunUsage
from evalgate.runner.checkpoint.checkpoint import Checkpoint
from evalgate.runner.execution import find_trace_factory
from evalgate.runner.metric_binding import close_metrics
from evalgate.runner.pipeline import NO_OPTIONS, OpenCheckpoints, RunOptions, build_plan_agent
from evalgate.runner.record_builder import RunTiming, build_record
from evalgate.runner.result_collector import CaseIndex, ResultCollector, RunStart
from evalgate.runner.run_strategy import PlainRuns, choose_statistics
from evalgate.runner.scheduler import RunRequest, run_requests
from evalgate.runner.variants import Variant
from evalgate.system.signals import cancel_on_signals
from evalgate.system.throttling.throttle import Throttle, ThrottleSettings


@frozen
class MeasuredVariants:
    """Result of a measurement: the variants and their records, in the same order."""

    variants: tuple[Variant, ...]
    records: tuple[Record, ...]
    created_at: str
    """Time when the measurement began: ISO 8601, UTC."""
    duration_s: float
    shortfall: str
    """Sentence with the reason why runs are missing; "" if all runs were made."""
    interrupted: bool = False
    notices: tuple[str, ...] = ()
    """Notices about the journals, in which finished runs are kept for `--resume`."""


ChooseWinner = Callable[[MeasuredVariants], Variant | None]
"""Function that returns the variant to measure again together with the first variant, or None."""


@frozen
class _VariantJournal:
    """Journal for the runs of one variant. The usage of all variants is stored with the first variant."""

    checkpoint: Checkpoint | None
    """Checkpoint of this variant. None: the runs are not stored. This is so in the second measurement (of the
    first variant and the winner), which always starts anew after an interruption."""
    first: Checkpoint
    """Checkpoint of the first variant, which gets the usage of all variants."""

    def begin_run(self) -> None:
        """Do nothing, because the journals of all variants are opened together."""

    def add_runs(self, results: Sequence[tuple[int, RunResult]]) -> None:
        """Store runs of the variant in its own journal, if it has one."""
        if self.checkpoint is not None:
            self.checkpoint.add_runs(results)

    def record_usage(self, used: RunUsage) -> None:
        """Store `used`, the usage of all variants until now, in the first variant's checkpoint."""
        self.first.record_usage(used)


@dataclass
class _Stage:
    """Measurement in progress, in which every variant runs every case equally often."""

    variants: Sequence[Variant]
    agents: Sequence[Agent]
    progress: ProgressListener
    starts: Sequence[RunStart]
    """For each variant: its journal, and the runs and usage from before an interruption."""
    run_results: list[ResultCollector] = field(init=False)
    """Results of each variant, in the order of `variants`."""
    interrupted: bool = False
    unreachable: str = ""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _began: float = field(default_factory=time.monotonic)
    _refused_first: dict[str, str] = field(default_factory=dict)
    """Maps the message of a failure to the name of the first variant with a run that was not made because of
    it. The report needs the name of the variant with the unreachable agent."""

    def __post_init__(self) -> None:
        self.run_results = [
            ResultCollector(each.plan, self.progress, start)
            for each, start in zip(self.variants, self.starts, strict=True)
        ]

    async def make_runs(self, throttle: Throttle) -> None:
        """Make every planned run that no journal contains yet.

        No run is made if the judge is not reliable. Runs are missing if an agent cannot be reached, the
        budget is spent or the task is cancelled. A cancellation raises no error: it sets `interrupted`.
        """
        first, plan = self.run_results[0], self.variants[0].plan
        try:
            is_reliable = await first.is_judge_reliable()
            for results in self.run_results:
                results.calibration_verdict = first.calibration_verdict
            if not is_reliable:
                return
            kept = sum(len(runs) for start in self.starts for runs in start.finished.values())
            cases = len(CaseIndex(plan.suites))
            self.progress.on_runs_planned(cases * plan.first_runs * len(self.variants) - kept)
            refusal = await run_requests(
                self.agents[0],
                self._iter_requests(),
                concurrency=plan.agent.settings.concurrency,
                on_finished=self._on_run_finished,
                create_user=plan.create_user,
                stop_reason=first.spending.stop_reason,
                time_limit=first.spending.get_time_limit(),
                throttle=throttle,
                create_trace=find_trace_factory(plan),
            )
            self.unreachable = refusal.message if refusal else ""
        except asyncio.CancelledError:
            self.interrupted = True
        for results in self.run_results:
            results.interrupted, results.unreachable = self.interrupted, self.unreachable

    def _iter_requests(self) -> Iterator[RunRequest]:
        """Yield the requests sorted by run number, then by case; runs in a journal are left out.

        The requests for the same case and run number follow each other. The variant that comes first rotates
        from case to case and from run to run, so that each variant is first about equally often.
        """
        plan = self.variants[0].plan
        index, count = CaseIndex(plan.suites), len(self.variants)
        made = [
            {(at, run.run) for at, runs in start.finished.items() for run in runs} for start in self.starts
        ]
        for number in range(1, plan.first_runs + 1):
            for at in range(len(index)):
                case = index.get_case(at)
                for turn in range(count):
                    # Rotated, because a service may answer the first of equal requests more slowly.
                    variant = (turn + at + number) % count
                    if (at, number) not in made[variant]:
                        yield RunRequest(case, number, at * count + variant, self.agents[variant])

    async def _on_run_finished(self, request: RunRequest, run: CaseRun) -> None:
        at, variant = divmod(request.index, len(self.variants))
        if run.outcome == "not_run" and run.failure is not None:
            self._refused_first.setdefault(run.failure.message, self.variants[variant].name)
        await self.run_results[variant].score_finished_run(replace(request, index=at), run)

    @property
    def is_complete(self) -> bool:
        """Return True if every planned run was made and nothing was interrupted."""
        strategy = PlainRuns(self.variants[0].plan.first_runs)
        return not self.interrupted and all(each.is_complete(strategy) for each in self.run_results)

    def build_result(self) -> MeasuredVariants:
        """Build the result of the measurement until now; its records are not compared with a baseline."""
        seconds = round(time.monotonic() - self._began, 3)
        timing = RunTiming(self.created_at.isoformat(timespec="seconds"), seconds)
        records = tuple(
            self._build_variant_record(at, variant, timing) for at, variant in enumerate(self.variants)
        )
        return MeasuredVariants(
            tuple(self.variants),
            records,
            timing.created_at,
            timing.duration_s,
            self._explain_shortfall(records),
            self.interrupted,
        )

    def _build_variant_record(self, at: int, variant: Variant, timing: RunTiming) -> Record:
        plan, results, agent = variant.plan, self.run_results[at], self.agents[at]
        record = build_record(plan, results, choose_statistics(plan, None), None, timing)
        # The judges serve all variants, so only the usage that is stored with this variant's runs counts.
        asked = [run.judge for case in record.cases for run in case.runs if run.judge is not None]
        return replace(
            record,
            judge=sum(asked, ModelUsage()) if asked else None,
            variant=variant.values,
            notices=(*(agent.notices if isinstance(agent, HasNotices) else ()), *record.notices),
        )

    def _explain_shortfall(self, records: Sequence[Record]) -> str:
        first = self.run_results[0]
        if self.interrupted:
            return "Interrupted: these are the runs that were made until then."
        if self.unreachable:
            return self._explain_unreachable(records)
        verdict = first.calibration_verdict
        if verdict is not None and not verdict.is_reliable:
            return f"No case was run: {verdict.sentence}. {verdict.shortfall}"
        label_check = self.variants[0].plan.label_check
        if label_check is not None and label_check.unreliable:
            return f"No case was run: {label_check.unreliable[0]}"
        runs = [run for record in records for case in record.cases for run in case.runs]
        stopped = sum(map(was_stopped_by_budget, runs))
        if not stopped:
            missing = sum(map(_is_missing, runs))
            planned = pluralize(len(runs), "run")
            return f"{missing:,} of {planned} could not be made or scored." if missing else ""
        spent = to_sentence(first.spending.exhaustion_reason or "the budget is spent").removesuffix(".")
        made = f"{len(runs) - stopped:,} of {pluralize(len(runs), 'run')}"
        return f"{spent}: {made} were made. Raise `budget`, or run fewer cases or variants."

    def _explain_unreachable(self, records: Sequence[Record]) -> str:
        """Return a sentence that names the variant with the unreachable agent, and the reason.

        If some variants have runs and others have none, a second sentence names the variants without a run.
        """
        pairs = zip(self.variants, records, strict=True)
        names = [variant.name for variant, record in pairs if not has_runs(record)]
        silent = f" No run of {join_quoted(names)} was made." if 0 < len(names) < len(records) else ""
        name, reason = self._refused_first[self.unreachable], self.unreachable.removesuffix(".")
        return f"The agent of `{name}` could not be reached, so other runs were not made: {reason}.{silent}"


def has_runs(record: Record) -> bool:
    """Return True if the record has a run in which the agent answered, crashed or timed out."""
    return any(run.outcome not in NON_AGENT_OUTCOMES for case in record.cases for run in case.runs)


def _is_missing(run: RunResult) -> bool:
    """Return True if the run says nothing about the agent, so that it counts as missing.

    It failed for a reason outside of the agent, or a gating metric could not score it.
    """
    return run.outcome in NON_AGENT_OUTCOMES or any(each.gating_status == "errored" for each in run.metrics)


def measure_variants(
    variants: Sequence[Variant],
    progress: ProgressListener,
    begin: Callable[[], None],
    choose_winner: ChooseWinner = lambda _: None,
    run_options: RunOptions = NO_OPTIONS,
) -> tuple[MeasuredVariants, MeasuredVariants | None]:
    """Run every case with every variant; then run the first variant again with the winner, if any.

    Return both measurements. The second measurement has only fresh runs, because luck may have helped the
    winner in the first runs. The second measurement is None if `choose_winner` returns None, or if runs are
    missing in the first measurement.

    `begin` is called once all agents have started. `run_options.journal_folder` is the folder of the reports:
    each variant keeps a journal there, in the folder of its results. Do not call this within an event loop.

    Raises:
        EvalgateError: an agent cannot be set up, its entry point does not exist, or a journal cannot be
            resumed.
    """
    with ExitStack() as stack:
        # Before the agents' code runs, which could replace a folder by a link.
        checkpoints, opened = [], run_options.checkpoints or stack.enter_context(OpenCheckpoints())
        for each in variants:
            folder = None if run_options.journal_folder is None else run_options.journal_folder / each.folder
            resume, redactor = run_options.resume, run_options.redactor
            checkpoint = Checkpoint(each.plan, folder, resume=resume, redactor=redactor)
            opened.add(checkpoint)
            checkpoints.append(checkpoint)
        starts = _build_run_starts(checkpoints)
        agents = [build_plan_agent(each.plan) for each in variants]
        stage = _Stage(variants, agents, progress, starts)

        async def make_runs() -> _Stage | None:
            with cancel_on_signals():
                return await _make_all_runs(stage, checkpoints, begin, choose_winner)

        again = asyncio.run(make_runs())
        if stage.is_complete and (again is None or again.is_complete):
            for checkpoint in checkpoints:
                checkpoint.mark_complete()
        notices = dict.fromkeys(notice for checkpoint in checkpoints for notice in checkpoint.notices)
        measured = replace(stage.build_result(), notices=tuple(notices))
        return measured, None if again is None else again.build_result()


def _build_run_starts(checkpoints: Sequence[Checkpoint]) -> list[RunStart]:
    """Return the `RunStart` of each variant, with the finished runs of the variant's checkpoint.

    All variants share one budget. So that the usage from before an interruption is counted only once, only
    the `RunStart` of the first variant contains it.
    """
    first = checkpoints[0]
    used = [first.used, *(RunUsage(first.used.judge_usage) for _ in checkpoints[1:])]
    return [
        RunStart(checkpoint.finished, journal=_VariantJournal(checkpoint, first), used=own)
        for checkpoint, own in zip(checkpoints, used, strict=True)
    ]


async def _make_all_runs(
    stage: _Stage, checkpoints: Sequence[Checkpoint], begin: Callable[[], None], choose_winner: ChooseWinner
) -> _Stage | None:
    """Start the agents, make the runs of `stage`, then fresh runs of the first variant and the winner.

    Return the second stage, which has these fresh runs. Return None if `choose_winner` returns None, or if
    runs of `stage` are missing. A cancellation raises no error: it sets `interrupted` of `stage`. `begin` is
    called once all agents have started.

    Raises:
        EvalgateError: an agent cannot be started, or its entry point does not exist.
    """
    settings = stage.variants[0].plan.agent.settings
    throttle = Throttle(
        ThrottleSettings(
            settings.concurrency, settings.requests_per_minute, settings.retries, settings.ramp_up
        )
    )
    again: _Stage | None = None
    try:
        async with AsyncExitStack() as stack:
            await _start_agents(stack, stage.variants, stage.agents)
            for checkpoint in checkpoints:
                checkpoint.begin_run()
            begin()
            await stage.make_runs(throttle)
            measured = stage.build_result()
            winner = None if measured.shortfall else choose_winner(measured)
            if winner is not None:
                again = _build_second_stage(stage, winner, checkpoints[0])
                await again.make_runs(throttle)
    except asyncio.CancelledError:
        stage.interrupted = True
    return again


def _build_second_stage(stage: _Stage, winner: Variant, first: Checkpoint) -> _Stage:
    """Return a stage that runs the first variant and the winner again, with the agents of `stage`.

    The results of these runs go to the subfolder `confirmation` of each variant's folder. The runs are kept
    in no journal. Only their usage is stored, in `first`, the checkpoint of the first variant.
    """
    at = list(stage.variants).index(winner)
    both = [replace(each, folder=f"{each.folder}/confirmation") for each in (stage.variants[0], winner)]
    start = RunStart(journal=_VariantJournal(None, first), used=stage.run_results[0].earlier_judge_usage)
    return _Stage(both, (stage.agents[0], stage.agents[at]), stage.progress, (start, start))


async def _start_agents(stack: AsyncExitStack, variants: Sequence[Variant], agents: Sequence[Agent]) -> None:
    """Start the judges, the metrics and every agent; closing `stack` stops them.

    Raises:
        InvalidInputError: an agent's entry point does not exist; the message names the variant.
    """
    plan = variants[0].plan
    await stack.enter_async_context(plan.judge_resolver.models)
    await stack.enter_async_context(close_metrics(plan.bound_metrics))
    for agent in agents:
        await stack.enter_async_context(agent)
    for variant, agent in zip(variants, agents, strict=True):
        try:
            if isinstance(agent, ChecksEntry):
                await agent.check_entry()
        except InvalidInputError as error:
            raise InvalidInputError(
                Problem(each.file, each.line, each.column, f"variant {variant.name}: {each.message}")
                for each in error.problems
            ) from None

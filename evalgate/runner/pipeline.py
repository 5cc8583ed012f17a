"""Make the runs of a plan, compare them with the baseline, decide the verdict and build the record.

This module reads the baseline, and sets up agent and journal. The plan already contains the eval sets.

The calls from a finished run to the exit code, in order (`execution.py` lists the calls before these):

- `ResultCollector.score_finished_run`, `scoring.score_run`: score one run, as soon as it has ended;
- `PreparedRun.build_record`, `record_builder.build_record`: all that follows the last run;
- `score_and_decide`, `significance.decide_metrics`: choose the rounds that count, decide about each metric
  by the statistics, and score the cases over these rounds (a round is one run of every case);
- `comparison.compare_runs`: decide whether a failed case broke (`failure_classification.classify_failures`),
  compare each mean with its minimum (`summarize_metrics`), and write the decisions and the differences from
  the baseline into the summaries (`significance.apply_decision`);
- `verdict.decide_verdict`: decide the verdict, its reasons and its exit code;
- `Publisher.publish`: write the reports. If a report cannot be written, the exit code changes.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from evalgate.agents.factory import build_agent
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen, mutable
from evalgate.core.protocols import Agent, HasNotices, LlmJudged, ProgressListener, explain_missing_baseline
from evalgate.core.types import Baseline, CaseKey, ModelUsage, Record, RunResult, Shard
from evalgate.llm.usage import RunUsage
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.runner.checkpoint.checkpoint import Checkpoint
from evalgate.runner.checkpoint.journal import FinishedRuns
from evalgate.runner.execution import NO_HOOKS, PlanExecution, RunHooks
from evalgate.runner.plan import Plan
from evalgate.runner.result_collector import ResultCollector, RunStart
from evalgate.runner.run_strategy import apply_default_runs, choose_run_strategy, choose_statistics
from evalgate.system.signals import cancel_on_signals

if TYPE_CHECKING:
    from evalgate.gating.statistical_policy import StatisticalPolicy
    from evalgate.runner.control.runs import ControlResult
    from evalgate.runner.record_builder import RunTiming


class OpenCheckpoints:
    """Context manager that keeps the checkpoints of a command open until its record is published.

    A checkpoint keeps the journal of finished runs. Call `mark_published` when the record is written. Without
    this call, the journals are not deleted.
    """

    def __init__(self) -> None:
        self._checkpoints: list[Checkpoint] = []
        self._stack = ExitStack()

    def add(self, checkpoint: Checkpoint) -> None:
        """Enter the context of a checkpoint. It exits together with the context of this object.

        Raises:
            InvalidInputError: another run writes to the journal, or its path is a link or a special file.
        """
        self._checkpoints.append(self._stack.enter_context(checkpoint))

    def mark_published(self) -> None:
        """Tell every checkpoint that the record was written, so that the journals can be deleted."""
        for each in self._checkpoints:
            each.mark_published()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)


@frozen
class RunOptions:
    """Options of a run that are not part of its plan: shard, journal and redactor."""

    shard: tuple[int, int] | None = None
    """(1-based number of the shard, number of all shards); None to run all cases."""
    journal_folder: Path | None = None
    """Folder of the journal; None if no journal is written."""
    resume: bool = False
    """True to continue from the journal of an unfinished run."""
    redactor: LiveRedactor | None = None
    """Redactor of the runs in the journal. The publisher uses the same one, and need not redact them again.
    None: a redactor is made for the journal alone."""
    checkpoints: OpenCheckpoints | None = None
    """Context that keeps the journal open until the caller has published the record. With None, the journal
    is closed at the end of the run, and its file is kept."""


NO_OPTIONS = RunOptions()
"""Options for running every case without a journal."""


class SilentProgress:
    """Progress listener that shows nothing."""

    def on_runs_planned(self, runs: int) -> None:
        """Ignore the number of planned runs."""

    def on_run_finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Ignore the result of the run."""

    def close(self) -> None:
        """Do nothing, because nothing is shown."""


@mutable
class PreparedRun:
    """Run of the gate that is ready to start. Call `make_runs` to run the cases, then `build_record`."""

    plan: Plan
    agent: Agent
    execution: PlanExecution
    run_results: ResultCollector
    statistics: "StatisticalPolicy | None"
    baseline: Baseline | None
    shard: Shard | None
    checkpoint: Checkpoint
    created_at: datetime
    anchor_baseline: Baseline | None
    hooks: RunHooks
    """Functions to call while the agent starts and when the runs begin."""
    _clock: float
    """Value of `time.monotonic`, in seconds, at the time `created_at`."""
    control_result: "ControlResult | None" = None
    """Result of the control runs (runs of the base commit's agent). None until these runs are made, if
    `gate.control` is off, and for a shard."""

    async def make_runs(self) -> None:
        """Start the agent, make and score every run, and make the control runs if the settings ask for them.

        Raises:
            InvalidInputError: the agent's entry point does not exist.
        """
        await self.execution.start_and_make_runs(self.hooks, self._make_control_runs)
        if not self.run_results.interrupted and self.execution.is_complete:
            self.checkpoint.mark_complete()

    async def _make_control_runs(self) -> None:
        if self.plan.control_source is None or self.shard is not None:  # a shard decides nothing
            return
        from evalgate.runner.control.runs import compare_with_control

        self.control_result = await compare_with_control(
            self.plan,
            self.run_results,
            self.agent,
            self.statistics,
            self.baseline,
            self.anchor_baseline,
            control_source=self.plan.control_source,
            journal=self.checkpoint,
        )

    def build_record(self) -> Record:
        """Compare the runs with the baseline, decide the verdict and return the whole record.

        The record of a shard has only the results: neither a comparison nor a verdict on the agent.
        """
        from evalgate.runner import record_builder

        duration = round(time.monotonic() - self._clock, 3)
        timing = record_builder.RunTiming(self.created_at.isoformat(timespec="seconds"), duration)
        if self.shard is not None:
            from evalgate.runner.sharding import build_shard_record

            return build_shard_record(self.plan, self.run_results, self.shard, timing)
        result = self.control_result
        control, control_notices = (result.comparison, result.notices) if result else (None, ())
        record = record_builder.build_record(
            self.plan,
            self.run_results,
            self.statistics,
            self.baseline,
            timing,
            self.anchor_baseline,
            control,
        )
        own = self.agent.notices if isinstance(self.agent, HasNotices) else ()
        notices = (*control_notices, *own, *record.notices, *self.checkpoint.notices)
        record = replace(record, notices=notices)
        if self.plan.control_source is not None and self.baseline is None and record.verdict.status == "fail":
            record = add_notice(record, NO_CONTROL_WITHOUT_BASELINE)
        if not self.plan.agent.settings.track_files:
            return record
        if self.checkpoint.finished:  # the files that earlier, resumed runs opened are not known
            return add_notice(record, NO_TRACKED_FILES)
        from evalgate.runner.affected import collect_tracked_files

        return replace(record, files=collect_tracked_files(self.plan, self.agent, record))


@contextmanager
def prepare_run(
    plan: Plan,
    progress: ProgressListener,
    run_options: RunOptions = NO_OPTIONS,
    hooks: RunHooks = NO_HOOKS,
) -> Iterator[PreparedRun]:
    """Read the baseline, lock the journal, build the agent, and yield a run that is ready to start.

    `hooks` gets the expected usage. Without `run_options.checkpoints`, the journal is closed at the end.

    Raises:
        EvalgateError: the baseline or the journal cannot be used, or the agent cannot be set up.
    """
    created_at, clock = datetime.now(UTC), time.monotonic()
    baseline, anchor_baseline = read_baseline(plan), _read_anchor_baseline(plan)
    if run_options.shard is None:  # `runs: auto` cannot be sharded: a shard lacks the others' results
        plan = apply_default_runs(plan, baseline)
    statistics = choose_statistics(plan, baseline)
    shard, redactor = _select_shard(plan, run_options.shard, baseline), run_options.redactor
    if redactor is not None:
        prepare_redactor(redactor, plan)
    checkpoint = Checkpoint(plan, run_options.journal_folder, resume=run_options.resume, redactor=redactor)
    with ExitStack() as stack:
        (run_options.checkpoints or stack.enter_context(OpenCheckpoints())).add(checkpoint)
        share = frozenset(shard.cases) if shard is not None else None
        run_start = RunStart(checkpoint.finished, share, journal=checkpoint, used=checkpoint.used)
        run_results = ResultCollector(plan, progress, run_start)
        agent = build_plan_agent(plan)
        execution = PlanExecution(run_results, agent, choose_run_strategy(plan, statistics, baseline))
        for sentence in _estimate_run(plan, execution.count_planned_runs, baseline):
            hooks.on_usage_notice(sentence)  # nothing has been spent yet: the user can still stop
        yield PreparedRun(
            plan=plan,
            agent=agent,
            execution=execution,
            run_results=run_results,
            statistics=statistics,
            baseline=baseline,
            anchor_baseline=anchor_baseline,
            shard=shard,
            checkpoint=checkpoint,
            hooks=hooks,
            created_at=created_at,
            _clock=clock,
        )


def prepare_redactor(redactor: LiveRedactor, plan: Plan) -> None:
    """Make the redactor hide the secrets of the agent's env files, and keep the plan's notices visible.

    An agent can announce secrets (`::add-mask::`), which are hidden. A text in a notice of the plan is not:
    otherwise an agent could hide, for example, the notice that its change edits the eval sets.
    """
    if plan.agent.settings.env_file:
        redactor.learn_environment(plan.agent_environ)
    redactor.protect_notices(plan.notices)


def build_plan_agent(plan: Plan) -> Agent:
    """Run the setup of a plan's agent, and build the agent without starting it.

    The setup and the agent are code of the repository, which could write wrong answers to the judges' caches.
    So from this call on, the caches return only answers that they hold now, and answers that this run stores.

    Raises:
        EvalgateError: the setup fails, or an option is wrong.
    """
    # Before the setup, because it runs code of the repository, which could write to the caches.
    plan.judge_resolver.models.trust_stored_answers()
    return build_agent(plan.agent, plan.workspace, plan.agent_environ, plan.executor)


def run_gate(
    plan: Plan,
    progress: ProgressListener,
    run_options: RunOptions = NO_OPTIONS,
    hooks: RunHooks = NO_HOOKS,
) -> Record:
    """Run every case of the plan, decide the verdict and return the whole record.

    With `--affected`, if the change affects no suite of the plan, no case is run. Then the verdict is
    `skipped`, and of the hooks only `on_begin` is called. Do not call this within an event loop.

    Raises:
        EvalgateError: the input is wrong, the agent's entry point does not exist, or its requirements cannot
            be installed.
    """
    if plan.affected is not None and not plan.affected.names:
        from evalgate.runner.affected import build_skipped_record

        hooks.on_begin()
        return build_skipped_record(plan, plan.affected)
    with prepare_run(plan, progress, run_options, hooks) as prepared_run:

        async def make_runs_until_signal() -> None:
            with cancel_on_signals():
                await prepared_run.make_runs()

        asyncio.run(make_runs_until_signal())
        return prepared_run.build_record()


def read_baseline(plan: Plan) -> Baseline | None:
    """Return the baseline; None if no baseline is configured, or if it does not exist yet.

    If a case broke on the default branch, its runs before the break are left out, so that later changes are
    not blamed for the break. If it was fixed, the runs of the break are left out.

    Raises:
        InvalidInputError: the baseline cannot be read, or is named on the command line and does not exist.
    """
    found = plan.baseline_store.read() if plan.baseline_store else None
    if found is not None:
        from evalgate.baselines.failing_since import keep_comparable_runs

        return keep_comparable_runs(found, plan.case_thresholds)
    if plan.baseline_store is None or not plan.needs_baseline:
        return None
    where = plan.gate.baseline or ""
    if (plan.workspace.folder / where).is_file():
        return None  # new in this change: the base branch has none yet, as a notice says
    raise InvalidInputError(
        f"--baseline {where}: there is no baseline{explain_missing_baseline(plan.baseline_store)}. "
        f"Check the name; or save one "
        f"with `evalgate baseline save --to {where}`; or name it as `gate.baseline` in the thresholds file, "
        "where it is only a notice that there is none yet."
    )


def _read_anchor_baseline(plan: Plan) -> Baseline | None:
    """Return the anchor: the fixed baseline that `gate.anchor` names; None if there is no `gate.anchor`.

    Raises:
        InvalidInputError: the anchor does not exist or cannot be read. Without it, drops of scores that the
            anchor forbids would pass.
    """
    if plan.anchor_store is None or plan.gate.anchor is None:
        return None
    found = plan.anchor_store.read()
    if found is None:
        where, why = plan.gate.anchor.baseline, explain_missing_baseline(plan.anchor_store)
        raise InvalidInputError(f"gate.anchor: there is no baseline at {where}{why}.")
    from evalgate.baselines.failing_since import keep_comparable_runs

    return keep_comparable_runs(found, plan.case_thresholds)


def _select_shard(
    plan: Plan, index_and_count: tuple[int, int] | None, baseline: Baseline | None
) -> Shard | None:
    """Return the shard (the part of the plan to run here); None if the whole plan is run.

    `index_and_count` is (1-based number of the shard, number of all shards), or None for the whole plan.
    """
    if index_and_count is None:
        return None
    from evalgate.runner.sharding import build_shard

    return build_shard(plan, *index_and_count, baseline)


def _estimate_run(
    plan: Plan, count_runs: Callable[[], Mapping[CaseKey, int]], baseline: Baseline | None
) -> Iterator[str]:
    if baseline is None:
        return
    from evalgate.runner.cost_estimate import describe_estimate, estimate_cost, find_changed_judged_metrics

    planned_runs = count_runs()
    found = estimate_cost(planned_runs, baseline, plan.agent.settings.concurrency)
    if found is None:
        return
    judge_fingerprints = {
        (suite.eval_set.eval_set_id, case.eval_id): {
            bound.name: bound.fingerprint for bound in suite.metrics if isinstance(bound.metric, LlmJudged)
        }
        for suite in plan.suites
        for case in suite.eval_set.cases
    }
    growth = plan.gate.max_runs / plan.first_runs if plan.runs == "auto" else 1
    others = find_changed_judged_metrics(judge_fingerprints, baseline, planned_runs)
    meter = plan.judge_resolver.models.meter
    yield from describe_estimate(found, meter.budget, meter.spent, others, growth)


NO_TRACKED_FILES = (
    "A run that was resumed, or made in shards, has no list of the files that the agent opened "
    "(`agent.track_files`): if it is saved in the baseline, every change that is not ignored concerns its "
    "suites."
)
NO_CONTROL_WITHOUT_BASELINE = (
    "No control runs were made: they explain a fall below the baseline, and there is no baseline yet."
)


def add_notice(record: Record, notice: str) -> Record:
    """Return the record with `notice` inserted before its other notices."""
    return replace(record, notices=(notice, *record.notices))


def build_record_from_runs(
    plan: Plan, finished: Mapping[CaseKey, Sequence[RunResult]], created_at: datetime, duration_s: float
) -> Record:
    """Compare finished runs with the baseline, decide the verdict and return the record.

    `finished` has the scored runs of each case; a case without an entry has no runs. `created_at` is the
    start of the runs, and `duration_s` the duration of all runs in seconds.

    Raises:
        InvalidInputError: the baseline or that of `gate.anchor` cannot be read. It is also raised if the
            latter does not exist, or if the baseline is named on the command line and does not exist.
    """
    from evalgate.runner.record_builder import RunTiming

    keys = enumerate(
        (suite.eval_set.eval_set_id, case.eval_id) for suite in plan.suites for case in suite.eval_set.cases
    )
    runs = {index: finished[key] for index, key in keys if key in finished}
    judge_usage = sum((run.judge for each in runs.values() for run in each if run.judge), ModelUsage())
    timing = RunTiming(created_at.isoformat(timespec="seconds"), round(duration_s, 3))
    return build_merged_record(plan, runs, judge_usage, read_baseline(plan), timing)


def build_merged_record(
    plan: Plan,
    finished: FinishedRuns,
    judge_usage: ModelUsage,
    baseline: Baseline | None,
    timing: "RunTiming",
) -> Record:
    """Build the record of runs that were made and scored elsewhere, such as in shards.

    `finished` has the runs of each case, by the index of the case in the plan. `judge_usage` is the usage of
    the judges that scored these runs.

    Raises:
        InvalidInputError: the baseline of `gate.anchor` does not exist or cannot be read.
    """
    from evalgate.runner.record_builder import build_record

    run_results = ResultCollector(plan, SilentProgress(), RunStart(finished, used=RunUsage(judge_usage)))
    statistics = choose_statistics(plan, baseline)
    return build_record(plan, run_results, statistics, baseline, timing, _read_anchor_baseline(plan))

"""Run cases and score them at the same time: a case is scored while others still run.

The calls from the gate down to one turn of the agent:

- `pipeline.run_gate`: one run of the gate;
- `PreparedRun.make_runs`, `Evaluation.start_and_make_runs`: all runs, with the start of the agent;
- `Evaluation.make_runs`, `_make_rounds`: all runs, round by round as the strategy plans them;
- `Evaluation._make_round`, `scheduler.run_requests`: one round, several runs at once;
- `CaseRunner.make_run`: one run of one case, with its retries;
- `CaseRunner._make_attempt`, `_attempt_conversation`: one attempt at a run;
- `_ConversationDriver.run_conversation`, `AgentSession.run_turn`: its turns, one by one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, ChecksEntry, ProgressListener
from evalgate.core.types import NON_AGENT_OUTCOMES, CaseResult, CaseRun, EvalCase, ModelUsage, RunResult
from evalgate.llm.budget_guard import BudgetGuard, was_stopped_by_budget
from evalgate.llm.usage import MeteredUsage, RunUsage
from evalgate.metrics.scoring import score_case, score_run
from evalgate.runner.metric_binding import close_metrics
from evalgate.runner.plan import Plan
from evalgate.runner.run_strategy import RunSchedule, RunStrategy
from evalgate.runner.scheduler import RunRequest, run_requests
from evalgate.runner.suites import CaseIndex, Suite
from evalgate.system.throttling.throttle import Throttle, ThrottleSettings

if TYPE_CHECKING:
    from evalgate.agents.tracing.run_trace import RunTrace
    from evalgate.llm.judge_calibration import CalibrationVerdict

_KEPT_AT_ONCE = 64
"""Finished runs after which the journal is written at once; fewer wait for the event loop's next round."""


class RunJournal(Protocol):
    """Journal of finished runs, from which a killed run can continue. `Checkpoint` implements it."""

    def begin_run(self) -> None:
        """Replace the stored runs of an earlier run. Must not raise."""
        ...

    def add_runs(self, results: Sequence[tuple[int, RunResult]]) -> None:
        """Store runs, each with the index of its case. Must not raise."""
        ...

    def record_usage(self, used: RunUsage) -> None:
        """Store the usage until now. Must not raise."""
        ...


@frozen
class RunScope:
    """Limits of the runs to make here: the cases of this shard, and the runs that exist already."""

    finished: Mapping[int, Sequence[RunResult]] = field(default_factory=dict)
    """Runs that exist already, by the index of their case."""
    share: frozenset[int] | None = None
    """Indices of the cases that are run here; None: all."""
    journal: RunJournal | None = None
    """Journal of the finished runs; None: none is kept."""
    used: RunUsage = field(default_factory=RunUsage)
    """Usage so far, by an earlier start or on other machines."""


@frozen
class RunHooks:
    """Functions of the caller that a run calls; by default they do nothing.

    The order of a run is: `tell`, the agent's processes start, `while_starting`, the agent is known to exist,
    the journal begins, `on_begin`, the agent's first turn.
    """

    tell: Callable[[str], object] = lambda _: None
    """Gets notices about expected usage, while the user can still stop and nothing has been spent."""
    while_starting: Callable[[], None] = lambda: None
    """Called once, while the agent starts: its work then costs no extra time."""
    on_begin: Callable[[], None] = lambda: None
    """Called once, unless there is no such agent: from then on there will be a record, so reports of an
    earlier run may be removed."""


NO_HOOKS = RunHooks()


class Evaluation:
    """Runs of a plan, made and scored here. No other object holds the results of a run in progress."""

    def __init__(self, plan: Plan, progress: ProgressListener, run_scope: RunScope) -> None:
        self._plan = plan
        self.progress = progress
        self._run_scope = run_scope
        self._case_index = CaseIndex(plan.suites)
        self._results = [tuple(run_scope.finished.get(index, ())) for index in range(len(self._case_index))]
        """Runs of each case, in the order in which they were made."""
        self._unkept: list[tuple[int, RunResult]] = []
        """Runs that finished in this round of the event loop and are not in the journal yet."""
        self._cached_results: dict[int | None, tuple[CaseResult, ...]] = {}
        """Cached results of `collect_results` by `rounds`; a new run clears them."""
        self.interrupted = False
        self.unreachable = ""
        """Reason why the agent could not be reached; "" if it could."""
        self.more_wanted = False
        """True if the budget was spent before every wanted run was begun."""
        # All evaluations of a plan share its meter, and the last one records the usage.
        meter = plan.judge_resolver.models.meter
        meter.add_usage(run_scope.used.spent)  # by a run that is resumed, or by merged shards
        meter.on_call = self._record_usage
        self.spending = BudgetGuard(meter)
        self.judge_health: CalibrationVerdict | None = None
        """Verdict of the judge's calibration; None without `judge.anchors`."""
        agent = plan.agent.settings
        self._throttle = Throttle(
            ThrottleSettings(agent.concurrency, agent.requests_per_minute, agent.retries, agent.ramp_up)
        )

    def count_planned_runs(self, strategy: RunStrategy) -> Mapping[tuple[str, str], int]:
        """Return the number of planned first runs of each case, by (eval set id, case id).

        These runs are made before any result is known. Runs that exist already do not count. Cases without
        planned runs are left out.
        """
        schedule = self._leave_out_made_runs(strategy.plan_first_runs(len(self._case_index)))
        named = ((suite.eval_set.eval_set_id, case.eval_id) for suite, case in self._case_index.iter_cases())
        return {name: len(schedule[index]) for index, name in enumerate(named) if index in schedule}

    async def start_and_make_runs(
        self,
        agent: Agent,
        strategy: RunStrategy,
        hooks: RunHooks = NO_HOOKS,
        after_runs: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Start the agent and make every missing run that the strategy wants.

        Fewer runs are made if a judge is unreliable, the agent cannot be reached or the budget is spent. A
        cancellation is not raised: it sets `interrupted` to True.

        `agent` must not be started yet. `after_runs` is awaited after the last run, while the agent still
        runs.

        Raises:
            InvalidInputError: there is no such agent. Nothing has begun then.
        """
        try:
            async with self.start_agent(agent, hooks):
                await self.make_runs(agent, strategy)
                if after_runs is not None:
                    await after_runs()
        # Not raised again: what was measured until Ctrl-C is still reported.
        except asyncio.CancelledError:
            self.interrupted = True
        # Runs that ended in the last round of the event loop have not reached the journal yet.
        finally:
            self._flush_runs()

    async def score_stored_runs(
        self, stored: Mapping[int, Sequence[CaseRun]], hide: Callable[[EvalCase], EvalCase]
    ) -> None:
        """Score runs that were made earlier, by the index of their case, and make no new runs.

        Nothing is scored if a judge is unreliable. `hide` redacts a case as the stored runs were redacted.
        """
        async with self._plan.judge_resolver.models, close_metrics(self._plan.bound_metrics):
            if not await self.is_judge_reliable():
                return
            slots = asyncio.Semaphore(self._plan.agent.settings.concurrency)

            async def score_in_slot(index: int, run: CaseRun) -> None:
                async with slots:
                    request = RunRequest(hide(self._case_index.get_case(index)), run.run, index)
                    await self.on_run_finished(request, run)

            async with asyncio.TaskGroup() as group:
                for index, runs in stored.items():
                    for run in runs:
                        group.create_task(score_in_slot(index, run))

    @asynccontextmanager
    async def start_agent(self, agent: Agent, hooks: RunHooks = NO_HOOKS) -> AsyncIterator[None]:
        """Run the agent and open the judges within the block; call the hooks in the order of `RunHooks`.

        Raises:
            InvalidInputError: there is no such agent. Nothing has begun then.
        """
        async with self._plan.judge_resolver.models, agent, close_metrics(self._plan.bound_metrics):
            await asyncio.sleep(0)  # the agent's processes start
            hooks.while_starting()
            await self._check_entry_and_begin(agent, hooks)
            yield  # judges close last, when no process of the agent can write to their caches

    async def _check_entry_and_begin(self, agent: Agent, hooks: RunHooks) -> None:
        """Wait until the agent is known to exist, then begin. If the wait is interrupted, begin as well.

        Raises:
            InvalidInputError: there is no such agent. Nothing has begun then.
        """
        try:
            if isinstance(agent, ChecksEntry):
                await agent.check_entry()
        except InvalidInputError:
            raise
        except BaseException:  # a run that is interrupted has a record, too
            self._begin_run(hooks)
            raise
        self._begin_run(hooks)

    def _begin_run(self, hooks: RunHooks) -> None:
        # The journal first: until this run has its own, nothing of an earlier one may be touched.
        if self._run_scope.journal is not None:
            self._run_scope.journal.begin_run()
        hooks.on_begin()

    async def make_case_runs(self, agent: Agent, strategy: RunStrategy, index: int) -> None:
        """Make all runs of one case with a started agent; runs that exist are made anew."""
        self._results[index] = ()
        self._cached_results.clear()
        await self._make_rounds(agent, strategy, self._plan_missing_runs(strategy, index), index)

    async def make_runs(self, agent: Agent, strategy: RunStrategy) -> None:
        """Make every missing run that the strategy wants, with a started agent."""
        await self._make_rounds(agent, strategy, self._plan_missing_runs(strategy))

    async def _make_rounds(
        self, agent: Agent, strategy: RunStrategy, schedule: RunSchedule, index: int | None = None
    ) -> None:
        """Make the scheduled runs, then round by round the next runs that the strategy plans.

        `index`: the case to plan for; None: all cases.
        """
        if schedule and not await self.is_judge_reliable():
            return
        while schedule and not self.unreachable and not self.more_wanted:
            await self._make_round(agent, schedule)
            schedule = self._plan_next_runs(strategy, index)
            self.more_wanted = bool(schedule) and self.spending.stop_reason() is not None

    @property
    def judge_usage(self) -> ModelUsage | None:
        """Return the usage of the judges, including runs that this run continues; None without a call."""
        whole = self._run_scope.used.judge_usage + self._plan.judge_resolver.models.judge_usage
        return whole if whole.calls or whole.spared else None

    @property
    def earlier_judging(self) -> RunUsage:
        """Return the judges' usage before this run. The meter has counted it for the budget already."""
        return RunUsage(self._run_scope.used.judge_usage)

    async def is_judge_reliable(self) -> bool:
        """Return False if labels or the judge's calibration cases show that a judge is unreliable.

        The first call asks the judge about all calibration cases, which costs tokens.
        """
        if self._plan.label_check is not None and self._plan.label_check.unreliable:
            return False
        if self._plan.judge_calibration is None:
            return True
        if self.judge_health is None:
            self.judge_health = await self._plan.judge_calibration.evaluate_judge()
        return self.judge_health.is_reliable

    def is_complete(self, strategy: RunStrategy) -> bool:
        """Return True if every run that the strategy wants was made, and none needs to be repeated."""
        if not all(_is_final(run) for runs in self._results for run in runs):
            return False
        first = strategy.plan_first_runs(len(self._case_index))
        if self._leave_out_made_runs(first):
            return False
        return not self._leave_out_made_runs(strategy.plan_next_runs(self.collect_results))

    def _plan_missing_runs(self, strategy: RunStrategy, index: int | None = None) -> RunSchedule:
        """Return the missing first runs, or the next runs if no first run is missing.

        `index`: the case to plan for; None: all cases.
        """
        first = strategy.plan_first_runs(len(self._case_index))
        if index is not None:
            first = {index: first[index]}
        return self._leave_out_made_runs(first) or self._plan_next_runs(strategy, index)

    def _plan_next_runs(self, strategy: RunStrategy, index: int | None = None) -> RunSchedule:
        if index is not None and not strategy.plans_next_runs:
            return {}  # without the results of all cases, which nothing else needs here
        schedule = self._leave_out_made_runs(strategy.plan_next_runs(self.collect_results))
        return schedule if index is None else {at: runs for at, runs in schedule.items() if at == index}

    def _leave_out_made_runs(self, schedule: RunSchedule) -> RunSchedule:
        """Return the runs of the schedule that this shard makes and that do not exist yet."""
        if self._run_scope.share is None and not any(self._results):
            return schedule
        missing = {}
        for index, numbers in schedule.items():
            made = {run.run for run in self._results[index]}
            unmade = [number for number in numbers if number not in made] if made else numbers
            if unmade and (self._run_scope.share is None or index in self._run_scope.share):
                missing[index] = unmade
        return missing

    async def _make_round(self, agent: Agent, schedule: RunSchedule) -> None:
        self.progress.on_runs_planned(sum(map(len, schedule.values())))
        refusal = await run_requests(
            agent,
            self.iter_requests(schedule),
            concurrency=self._plan.agent.settings.concurrency,
            on_finished=self.on_run_finished,
            create_user=self._plan.create_user,
            stop_reason=self.spending.stop_reason,
            time_limit=self.spending.get_time_limit(),
            throttle=self._throttle,
            create_trace=self.find_trace_factory(),
        )
        self.unreachable = refusal.message if refusal else ""

    def find_trace_factory(self) -> "Callable[[], RunTrace] | None":
        """Return the function that creates the trace of a run; None: runs keep none."""
        if not self._plan.agent.settings.trace:
            return None
        from evalgate.agents.tracing.span_prices import TraceFactory

        return TraceFactory(self._plan.judge_resolver.models.prices)

    def iter_requests(self, schedule: RunSchedule) -> Iterator[RunRequest]:
        """Yield the requests run by run, so that every case is run once before any is run again."""
        last = max((number for numbers in schedule.values() for number in numbers), default=0)
        # Not case by case: if the run is cut short, every case has some runs, and the comparison still means
        # something.
        for number in range(1, last + 1):
            for index, numbers in schedule.items():
                if number in numbers:
                    yield RunRequest(self._case_index.get_case(index), number, index)

    async def on_run_finished(self, request: RunRequest, run: CaseRun) -> None:
        """Score a run, add it to the results and the journal, and report it to the progress listener."""
        suite, case = self._case_index.get_suite(request.index), request.case
        self.spending.count_usage(run)
        result = await score_run(case, run, suite.get_metrics(case))
        earlier = self._results[request.index]
        if earlier:
            result = _reuse_expectations(result, earlier[0])
        self._results[request.index] = (*earlier, result)
        self._cached_results.clear()
        if self._run_scope.journal is not None and _is_final(result):
            self._schedule_flush(request.index, result)
        self.progress.on_run_finished(suite.eval_set.eval_set_id, case.eval_id, result)

    def _schedule_flush(self, index: int, result: RunResult) -> None:
        """Add a run to the journal, with all runs that finish in the same round of the event loop."""
        if not self._unkept:
            asyncio.get_running_loop().call_soon(self._flush_runs)
        self._unkept.append((index, result))
        if len(self._unkept) >= _KEPT_AT_ONCE:
            self._flush_runs()

    def _flush_runs(self) -> None:
        self._record_usage()
        unkept, self._unkept = self._unkept, []
        if unkept and self._run_scope.journal is not None:
            self._run_scope.journal.add_runs(unkept)

    def _record_usage(self) -> None:
        """Write the usage to the journal before the runs that caused it are written, as they may never end.

        A model call in progress counts with an unknown cost: if the gate is killed, the provider may still
        charge for it. The next usage line replaces this line.
        """
        if self._run_scope.journal is not None:
            models = self._plan.judge_resolver.models
            judge_calls, all_calls = models.under_way["judge"], sum(models.under_way.values())
            unfinished = ModelUsage(calls=judge_calls, unpriced=judge_calls)
            unmetered = MeteredUsage(calls=all_calls, unpriced=all_calls, unmetered=all_calls)
            used = RunUsage((self.judge_usage or ModelUsage()) + unfinished, models.meter.spent + unmetered)
            self._run_scope.journal.record_usage(used)

    def collect_results(self, rounds: int | None = None) -> tuple[CaseResult, ...]:
        """Return the result of every case, in the order of the plan.

        Runs with a number above `rounds` are marked as follow-ups and do not count for means. None: all runs
        count.
        """
        results = self._cached_results.get(rounds)
        if results is None:
            results = self._cached_results[rounds] = tuple(self._iter_case_results(rounds))
        return results

    def get_runs(self, index: int) -> tuple[RunResult, ...]:
        """Return the runs of a case, in the order in which they were made."""
        return self._results[index]

    def build_case_result(self, index: int) -> CaseResult:
        """Return the result of one case from its runs until now, without the case's fingerprint."""
        return self._score_case_runs(
            index, self._case_index.get_suite(index), self._case_index.get_case(index)
        )

    def _iter_case_results(self, rounds: int | None) -> Iterator[CaseResult]:
        fingerprints = chain.from_iterable(suite.fingerprints for suite in self._plan.suites)
        cases = zip(self._case_index.iter_cases(), fingerprints, strict=True)
        for index, ((suite, case), fingerprint) in enumerate(cases):
            yield self._score_case_runs(index, suite, case, rounds, fingerprint)

    def _score_case_runs(
        self, index: int, suite: Suite, case: EvalCase, rounds: int | None = None, fingerprint: str = ""
    ) -> CaseResult:
        runs = _sort_runs(self._results[index])
        if rounds is not None and len(runs) > rounds:  # by position: a resumed run may lack a number
            runs = (*runs[:rounds], *(replace(run, confirms=True) for run in runs[rounds:]))
        return score_case(
            suite.eval_set.eval_set_id,
            case,
            runs,
            suite.get_metrics(case),
            path=suite.eval_set.path,
            fingerprint=fingerprint,
            case_policy=suite.get_case_policy(case),
        )


def _is_final(run: RunResult) -> bool:
    """Return True if the run counts as done, so that a resumed run does not repeat it."""
    return run.outcome not in NON_AGENT_OUTCOMES and not was_stopped_by_budget(run)


def _reuse_expectations(run: RunResult, earlier: RunResult) -> RunResult:
    """Return the run with the expectations of `earlier` wherever both are equal, to save memory.

    A case of a large set is parsed anew for each run, so equal expectations are different objects.
    """
    if all(turn.expected is old.expected for turn, old in zip(run.turns, earlier.turns, strict=False)):
        return run
    expected = [turn.expected for turn in earlier.turns]
    turns = [
        replace(turn, expected=expected[index]) if turn.expected in expected[index : index + 1] else turn
        for index, turn in enumerate(run.turns)
    ]
    return replace(run, turns=tuple(turns))


def _sort_runs(runs: tuple[RunResult, ...]) -> tuple[RunResult, ...]:
    """Sort runs by number. If they are in order, return the same tuple, which saves memory."""
    numbers = [run.run for run in runs]
    if numbers == sorted(numbers):
        return runs
    return tuple(sorted(runs, key=lambda run: run.run))

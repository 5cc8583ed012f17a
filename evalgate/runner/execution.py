"""Start the agent and make the runs of a plan, round by round.

`ResultCollector` scores each run as soon as it finishes, while other runs continue.

The calls from the whole gate down to one turn of the agent are:

- `pipeline.run_gate`: one run of the gate;
- `PreparedRun.make_runs`, `PlanExecution.start_and_make_runs`: all runs, with the start of the agent;
- `PlanExecution.start_agent`, `Agent.__aenter__`: the agent, started for all runs;
- `PlanExecution.make_runs`, `_make_rounds`: all runs, round by round as the strategy plans them;
- `PlanExecution._make_round`, `scheduler.run_requests`: one round, several runs at once;
- `CaseRunner.make_run`: one run of one case, with its retries;
- `CaseRunner._make_attempt`, `_attempt_conversation`: one attempt at a run;
- `Agent.open_session`: the attempt's conversation with the agent;
- `_ConversationDriver.run_conversation`, `AgentSession.run_turn`: the turns of the conversation.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, ChecksEntry
from evalgate.runner.metric_binding import close_metrics
from evalgate.runner.plan import Plan
from evalgate.runner.result_collector import ResultCollector
from evalgate.runner.run_strategy import RunSchedule, RunStrategy
from evalgate.runner.scheduler import RunRequest, run_requests
from evalgate.system.throttling.throttle import Throttle, ThrottleSettings

if TYPE_CHECKING:
    from evalgate.agents.tracing.run_trace import RunTrace


@frozen
class RunHooks:
    """Callbacks of a run of the gate; by default they do nothing.

    The order of events is: `on_usage_notice` is called, the agent's processes start, `while_starting` is
    called, the agent's entry point is found, the journal is opened, `on_begin` is called, the agent's first
    turn begins.
    """

    on_usage_notice: Callable[[str], object] = lambda _: None
    """Called with each notice about expected usage, before any usage: the user can still stop the run."""
    while_starting: Callable[[], None] = lambda: None
    """Called once while the agent starts, for work that then costs no extra time."""
    on_begin: Callable[[], None] = lambda: None
    """Called once, unless the agent's entry point does not exist. From then on it is certain that there will
    be a record, so that reports of an earlier run may be removed."""


NO_HOOKS = RunHooks()


class PlanExecution:
    """Execution of a plan: it starts the agent and makes the runs that the strategy plans.

    Finished runs are added to `run_results`, from which the strategy plans the next runs.
    """

    def __init__(self, run_results: ResultCollector, agent: Agent, strategy: RunStrategy) -> None:
        self._run_results = run_results
        self._agent = agent
        self._strategy = strategy
        self._plan = run_results.plan
        self._case_index = run_results.case_index
        settings = self._plan.agent.settings
        self._throttle = Throttle(
            ThrottleSettings(
                settings.concurrency, settings.requests_per_minute, settings.retries, settings.ramp_up
            )
        )

    def count_planned_runs(self) -> Mapping[tuple[str, str], int]:
        """Return the number of planned first runs of each case, by (eval set id, case id).

        First runs are the runs that are made before any result is known. Runs that exist already do not
        count. Cases without planned runs are left out.
        """
        schedule = self._plan_first_runs()
        named = ((suite.eval_set.eval_set_id, case.eval_id) for suite, case in self._case_index.iter_cases())
        return {name: len(schedule[index]) for index, name in enumerate(named) if index in schedule}

    async def start_and_make_runs(
        self, hooks: RunHooks = NO_HOOKS, after_runs: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Start the agent and make every missing run that the strategy wants.

        Fewer runs are made if a judge is unreliable, the agent cannot be reached or the budget is spent. A
        cancellation is not raised: it sets `ResultCollector.interrupted` to True.

        The agent must not be started yet. `after_runs` is awaited after the last run, before the agent stops.

        Raises:
            InvalidInputError: the agent's entry point does not exist. Then no run was begun.
        """
        try:
            async with self.start_agent(hooks):
                await self.make_runs()
                if after_runs is not None:
                    await after_runs()
        # Not raised again, so that the runs made before Ctrl-C are still reported.
        except asyncio.CancelledError:
            self._run_results.interrupted = True
        # Runs that ended in the last round of the event loop have not reached the journal yet.
        finally:
            self._run_results.flush_runs()

    @asynccontextmanager
    async def start_agent(self, hooks: RunHooks = NO_HOOKS) -> AsyncIterator[None]:
        """Start the agent and the judges, call the hooks, and stop agent and judges after the `with` block.

        Raises:
            InvalidInputError: the agent's entry point does not exist. Then no run was begun.
        """
        async with self._plan.judge_resolver.models, self._agent, close_metrics(self._plan.bound_metrics):
            await asyncio.sleep(0)  # lets the agent's processes start
            hooks.while_starting()
            await self._check_entry_and_begin(hooks)
            yield  # judges close last, when no process of the agent can write to their caches

    async def _check_entry_and_begin(self, hooks: RunHooks) -> None:
        """Wait until the agent's entry point is known to exist, then open the journal and call `on_begin`.

        If the wait is interrupted, the journal is opened and `on_begin` is called, too, because an
        interrupted run also has a record.

        Raises:
            InvalidInputError: the agent's entry point does not exist. The journal is not opened then.
        """
        try:
            if isinstance(self._agent, ChecksEntry):
                await self._agent.check_entry()
        except InvalidInputError:
            raise
        except BaseException:
            self._begin_run(hooks)
            raise
        self._begin_run(hooks)

    def _begin_run(self, hooks: RunHooks) -> None:
        # The journal first: until this run has its own journal, reports of an earlier run must be kept.
        self._run_results.begin_journal()
        hooks.on_begin()

    async def make_runs(self) -> None:
        """Make every run that the strategy wants and that does not exist yet. The agent must be started."""
        await self._make_rounds(None)

    async def make_case_runs(self, index: int) -> None:
        """Drop the runs of one case and run this case again. The agent must be started.

        `index` is the 0-based index of the case among all cases of the plan.
        """
        self._run_results.drop_runs(index)
        await self._make_rounds(index)

    @property
    def is_complete(self) -> bool:
        """Return True if every run that the strategy wants was made, and no run needs to be repeated."""
        return self._run_results.is_complete(self._strategy)

    async def _make_rounds(self, index: int | None) -> None:
        """Make the missing first runs, then, round by round, the next runs that the strategy plans.

        `index` is the index of the case to run; None for all cases.
        """
        results = self._run_results
        schedule = self._plan_first_runs(index) or self._plan_next_runs(index)
        if schedule and not await results.is_judge_reliable():
            return
        while schedule and not results.unreachable and not results.more_wanted:
            await self._make_round(schedule)
            schedule = self._plan_next_runs(index)
            results.more_wanted = bool(schedule) and results.spending.stop_reason() is not None

    def _plan_first_runs(self, index: int | None = None) -> RunSchedule:
        """Return the first runs that do not exist yet: of the case `index`, or of all cases if None."""
        first = self._strategy.plan_first_runs(len(self._case_index))
        return self._run_results.select_missing_runs(first if index is None else {index: first[index]})

    def _plan_next_runs(self, index: int | None) -> RunSchedule:
        """Return the next runs that the strategy plans: for the case `index`, or for all cases if None."""
        if index is not None and not self._strategy.plans_next_runs:
            return {}  # avoids collecting the results of all cases
        results = self._run_results
        schedule = results.select_missing_runs(self._strategy.plan_next_runs(results.score_cases))
        return schedule if index is None else {at: runs for at, runs in schedule.items() if at == index}

    async def _make_round(self, schedule: RunSchedule) -> None:
        results = self._run_results
        results.progress.on_runs_planned(sum(map(len, schedule.values())))
        refusal = await run_requests(
            self._agent,
            self._iter_requests(schedule),
            concurrency=self._plan.agent.settings.concurrency,
            on_finished=results.score_finished_run,
            create_user=self._plan.create_user,
            stop_reason=results.spending.stop_reason,
            time_limit=results.spending.get_time_limit(),
            throttle=self._throttle,
            create_trace=find_trace_factory(self._plan),
        )
        results.unreachable = refusal.message if refusal else ""

    def _iter_requests(self, schedule: RunSchedule) -> Iterator[RunRequest]:
        """Yield the requests in the order of run numbers: first run 1 of all cases, then run 2, and so on."""
        last = max((number for numbers in schedule.values() for number in numbers), default=0)
        # Not case by case: if the gate stops early, every case should have some runs to compare.
        for number in range(1, last + 1):
            for index, numbers in schedule.items():
                if number in numbers:
                    yield RunRequest(self._case_index.get_case(index), number, index)


def find_trace_factory(plan: Plan) -> "Callable[[], RunTrace] | None":
    """Return the function that creates the trace of a run; None if the settings ask for no traces."""
    if not plan.agent.settings.trace:
        return None
    from evalgate.agents.tracing.span_prices import TraceFactory

    return TraceFactory(plan.judge_resolver.models.prices)

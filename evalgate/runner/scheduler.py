"""Run cases with the agent concurrently. Every case gets an outcome; an error does not stop other cases."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, AgentUnreachableError, CreateUser, ProvidesUser
from evalgate.core.types import CaseRun, EvalCase, Failure
from evalgate.llm.users.scripted import create_scripted_user
from evalgate.runner.case_runner import AttemptHistory, CaseRunner
from evalgate.system.throttling.throttle import Throttle, ThrottleSettings

if TYPE_CHECKING:
    from evalgate.agents.tracing.run_trace import RunTrace


@frozen
class RunRequest:
    """Request for one run of one case."""

    case: EvalCase
    run_number: int
    """Number of the run among the runs of its case, from 1."""
    index: int = 0
    """Index that the caller gave the case, to find it again in `on_finished`; the scheduler ignores it."""
    agent: Agent | None = None
    """Agent that runs the case, already started; None: the agent that was passed to `run_requests`."""


OnFinished = Callable[[RunRequest, CaseRun], Awaitable[None]]


def never_stop() -> None:
    """Return None: there is no reason to stop. This is the default of `stop_reason` in `run_requests`."""


async def run_requests(
    agent: Agent,
    requests: Iterable[RunRequest],
    *,
    concurrency: int,
    on_finished: OnFinished,
    create_user: CreateUser = create_scripted_user,
    stop_reason: Callable[[], Failure | None] = never_stop,
    time_limit: tuple[float, Failure] | None = None,
    throttle: Throttle | None = None,
    create_trace: "Callable[[], RunTrace] | None" = None,
) -> Failure | None:
    """Run the requests in order, `concurrency` (1 or more) at once, with an agent that was started.

    Return None, or the reason why the agent could not be reached. An agent that cannot be reached gets no
    further case, and every remaining request gets the outcome `not_run` with this reason. The function may be
    called again with the same agent if more runs are wanted.

    `on_finished` is awaited once for each request, with its run. Other cases continue meanwhile.

    `throttle` limits the rate of new cases and the number of retries. None: no rate limit and no retries.
    Later calls for the same agent should pass the same throttle.

    `create_user` creates the user of each run, unless the agent provides users itself. `create_trace` creates
    the trace of each run; None: runs keep no trace.

    `stop_reason` is called before a case begins or is retried, and after each finished case. `time_limit` is
    a number of seconds, and the failure of cases that do not finish in this time. As soon as `stop_reason`
    returns a failure or the time is over, running cases are cancelled. The cancelled cases and all remaining
    requests get the outcome `not_run` with the failure.

    If the calling task is cancelled, running cases are cancelled too. The cancelled cases and all remaining
    requests go to `on_finished` as `not_run` with a failure of kind `interrupted`. Calls of `on_finished` in
    progress are completed. A second cancellation ends the call at once, without these outcomes.

    Raises:
        CancelledError: the calling task was cancelled.
        Exception: the first error of `on_finished` or of `requests`, after all other tasks have stopped.
    """
    throttle = throttle or Throttle(ThrottleSettings(concurrency))
    scheduler = _CaseScheduler(
        agent, iter(requests), on_finished, create_user, stop_reason, throttle, create_trace
    )
    with scheduler.limit_time(time_limit):
        return await scheduler.run_all_requests(concurrency)


class _CaseScheduler:
    def __init__(
        self,
        agent: Agent,
        requests: Iterator[RunRequest],
        on_finished: OnFinished,
        create_user: CreateUser,
        stop_reason: Callable[[], Failure | None],
        throttle: Throttle,
        create_trace: "Callable[[], RunTrace] | None",
    ) -> None:
        self._find_caller_reason = stop_reason
        # Checked once and not for each case, because `isinstance` with a protocol is slow.
        create_user = agent.create_user if isinstance(agent, ProvidesUser) else create_user
        self._create_runner = partial(
            CaseRunner,
            create_user=create_user,
            throttle=throttle,
            stop_reason=self._find_stop_reason,
            create_trace=create_trace,
        )
        self._runner = self._create_runner(agent)
        self._requests = requests
        self._on_finished = on_finished
        self._refusal: Failure | None = None
        """Reason why no further case is run: the agent cannot be reached, or the call was cancelled."""
        self._time_over: Failure | None = None
        self._interruption: Failure | None = None
        """Failure that cancelled cases get. It is None until running cases are cancelled."""
        self._running: set[asyncio.Task[None]] = set()
        """Tasks that run a case with the agent; tasks in `on_finished` are not among them."""

    async def run_all_requests(self, concurrency: int) -> Failure | None:
        tasks = [asyncio.create_task(self._take_requests()) for _ in range(max(1, concurrency))]
        try:
            await _raise_first_error(tasks)
        except asyncio.CancelledError:
            self._refusal = Failure("interrupted", "the run was interrupted before this case was over")
            self._cancel_cases(self._refusal)
            # The tasks continue until each remaining request has its `not_run`, but start no case.
            await _raise_first_error(tasks)
            raise
        finally:
            # From here on, a cancelled task raises CancelledError instead of returning an outcome.
            self._interruption = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._refusal

    @contextmanager
    def limit_time(self, limit: tuple[float, Failure] | None) -> Iterator[None]:
        """Cancel running cases, and begin no further case, if the block lasts longer than the limit.

        `limit` is a number of seconds, and the failure for all cases that are not finished; None: no limit.
        """
        if limit is None:
            yield
            return
        seconds, failure = limit
        timer = asyncio.get_running_loop().call_later(seconds, self._on_time_limit, failure)
        try:
            yield
        finally:
            timer.cancel()

    def _on_time_limit(self, failure: Failure) -> None:
        self._time_over = failure
        self._cancel_cases(self._interruption or failure)

    def _cancel_cases(self, why: Failure) -> None:
        self._interruption = why
        for task in self._running:
            task.cancel()

    async def _take_requests(self) -> None:
        """Take the next request, run it and pass its run to `on_finished`, until no request is left.

        If the caller's `stop_reason` returns a failure after a run, the cases of all tasks are cancelled.
        """
        for request in self._requests:
            await self._on_finished(request, await self._run_request(request))
            # Only the caller's reason counts: the time limit has cancelled running cases already, and if the
            # agent cannot be reached, running cases may end.
            if self._interruption is None and (failure := self._find_caller_reason()) is not None:
                self._cancel_cases(failure)

    def _find_stop_reason(self) -> Failure | None:
        """Return the reason why no further case may begin; None if the next case may begin."""
        return self._refusal or self._time_over or self._find_caller_reason()

    async def _run_request(self, request: RunRequest) -> CaseRun:
        if (failure := self._find_stop_reason()) is not None:
            return _build_not_run(request, failure)
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a case runs in a task")
        self._running.add(task)
        history = AttemptHistory()
        try:
            runner = self._runner if request.agent is None else self._create_runner(request.agent)
            return await runner.make_run(request.case, request.run_number, history)
        except AgentUnreachableError as error:
            self._refusal = self._refusal or error.failure
            return history.attach_attempts(_build_not_run(request, error.failure))
        except asyncio.CancelledError:
            if self._interruption is None:
                raise
            return history.attach_attempts(_build_not_run(request, self._interruption))
        finally:
            self._running.discard(task)


async def _raise_first_error(tasks: list[asyncio.Task[None]]) -> None:
    """Wait until all tasks are done or one task has failed, and raise the error of the failed task."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()


def _build_not_run(request: RunRequest, failure: Failure) -> CaseRun:
    return CaseRun(request.run_number, "not_run", failure=failure)

"""Play cases with the agent. Whatever becomes of a case is its outcome; none vanishes or stops the run."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, AgentUnreachable, BringsUser, UserOf
from evalgate.core.types import CaseRun, EvalCase, Failure
from evalgate.llm.simulated_user.scripted import written_user
from evalgate.runner.case_runner import CasePlayer, Earlier
from evalgate.throttling.throttle import Pace, PaceSettings


@frozen
class RunRequest:
    """One run of one case, asked for."""

    case: EvalCase
    run: int
    """1-based."""
    index: int = 0
    """The caller's own key; not looked at."""


OnFinished = Callable[[RunRequest, CaseRun], Awaitable[None]]


def nothing_refused() -> None:
    """Every case may begin."""


async def run_cases(
    agent: Agent,
    requests: Iterable[RunRequest],
    *,
    concurrency: int,
    on_finished: OnFinished,
    user_of: UserOf = written_user,
    refusal: Callable[[], Failure | None] = nothing_refused,
    time_limit: tuple[float, Failure] | None = None,
    pace: Pace | None = None,
) -> Failure | None:
    """Play every request with an agent that has been entered, `concurrency` (1 or more) at once, in order.

    Gives the reason why the agent could not be reached, when it could not.

    `on_finished` is awaited exactly once per request, in the task that played it, so that it may take its
    time while other cases go on. May be called again with the same agent when more runs are wanted.

    `pace` says how fast and how often cases are begun; by default as fast as can be, and once. Give the same
    when calling again.

    When the agent is unreachable, every case that has no outcome yet is `not_run` with that failure.
    `refusal` is asked before a case begins and after each that finished, and `time_limit` is in seconds: as
    soon as one of them gives a failure, what is being played is abandoned; it and every remaining request
    are then `not_run` with that failure.

    When the calling task is cancelled, what is being played is abandoned, and it and every remaining
    request go to `on_finished` as `not_run`, kind `interrupted`; an `on_finished` that is at work is left to
    end. Then `CancelledError` is raised: by that time every request is accounted for. A second cancellation
    gives up on that and raises at once.

    Raises:
        Exception: what `on_finished` or the iterator of requests raised, once everything else is stopped.
    """
    pace = pace or Pace(PaceSettings(concurrency))
    run = _Run(agent, iter(requests), on_finished, user_of, refusal, pace)
    with run.limited(time_limit):
        return await run.play(concurrency)


class _Run:
    def __init__(
        self,
        agent: Agent,
        requests: Iterator[RunRequest],
        on_finished: OnFinished,
        user_of: UserOf,
        refusal: Callable[[], Failure | None],
        pace: Pace,
    ) -> None:
        self._refused = refusal
        # Asked once, not per case: Python looks up the members of a protocol one by one.
        user_of = agent.user if isinstance(agent, BringsUser) else user_of
        self._cases = CasePlayer(agent, user_of, pace, self._why_not)
        self._requests = requests
        self._on_finished = on_finished
        self._refusal: Failure | None = None
        """Why no further case is played."""
        self._time_over: Failure | None = None
        self._interruption: Failure | None = None
        """Set once cases in the agent are cancelled: the user wants to stop, or nothing more is allowed."""
        self._playing: set[asyncio.Task[None]] = set()
        """Tasks that are inside the agent, not inside `on_finished`."""

    async def play(self, concurrency: int) -> Failure | None:
        players = [asyncio.create_task(self._player()) for _ in range(max(1, concurrency))]
        try:
            await _first_error(players)
        except asyncio.CancelledError:
            self._interrupt()
            await _first_error(players)
            raise
        finally:
            self._interruption = None
            await _stop(players)
        return self._refusal

    @contextmanager
    def limited(self, limit: tuple[float, Failure] | None) -> Iterator[None]:
        """Within the block, end what is played after so many seconds."""
        if limit is None:
            yield
            return
        seconds, failure = limit
        timer = asyncio.get_running_loop().call_later(seconds, self._end, failure)
        try:
            yield
        finally:
            timer.cancel()

    def _end(self, failure: Failure) -> None:
        self._time_over = failure
        self._abandon(self._interruption or failure)

    def _interrupt(self) -> None:
        self._refusal = Failure("interrupted", "the run was interrupted before this case was over")
        self._abandon(self._refusal)

    def _abandon(self, why: Failure) -> None:
        self._interruption = why
        for task in self._playing:
            task.cancel()

    async def _player(self) -> None:
        for request in self._requests:
            await self._on_finished(request, await self._outcome(request))
            if self._interruption is None and (failure := self._refused()) is not None:
                self._abandon(failure)

    def _why_not(self) -> Failure | None:
        """Why nothing new may begin."""
        return self._refusal or self._time_over or self._refused()

    async def _outcome(self, request: RunRequest) -> CaseRun:
        if (failure := self._why_not()) is not None:
            return _not_run(request, failure)
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a case is played in a task")
        self._playing.add(task)
        earlier = Earlier()
        try:
            return await self._cases.play(request.case, request.run, earlier)
        except AgentUnreachable as error:
            self._refusal = self._refusal or error.failure
            return earlier.before(_not_run(request, error.failure))
        except asyncio.CancelledError:
            if self._interruption is None:
                raise
            return earlier.before(_not_run(request, self._interruption))
        finally:
            self._playing.discard(task)


async def _first_error(players: list[asyncio.Task[None]]) -> None:
    """Wait until all are done or one has failed, and raise its error."""
    done, _ = await asyncio.wait(players, return_when=asyncio.FIRST_EXCEPTION)
    for player in done:
        player.result()


async def _stop(players: list[asyncio.Task[None]]) -> None:
    for player in players:
        player.cancel()
    await asyncio.gather(*players, return_exceptions=True)


def _not_run(request: RunRequest, failure: Failure) -> CaseRun:
    return CaseRun(request.run, "not_run", failure=failure)

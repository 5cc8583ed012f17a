"""Play cases with the agent. Whatever becomes of a case is its outcome; none vanishes or stops the run."""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from evalgate.model import Attempt, CaseRun, EvalCase, Failure, Outcome, Reply, Usage, UserMessage
from evalgate.protocols import (
    Agent,
    AgentFailed,
    AgentSession,
    AgentUnreachable,
    AppliesMocks,
    BringsUser,
    SessionEnd,
    SessionLost,
    User,
    UserFailed,
    UserOf,
)
from evalgate.writtenuser import written_user

_MAX_TRACEBACK = 16 * 1024


@dataclass(frozen=True, slots=True)
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
) -> Failure | None:
    """Play every request with an agent that has been entered, `concurrency` (1 or more) at once, in order.

    Gives the reason why the agent could not be reached, when it could not.

    `on_finished` is awaited exactly once per request, in the task that played it, so that it may take its
    time while other cases go on. May be called again with the same agent when more runs are wanted.

    When the agent is unreachable, every case that has no outcome yet is `not_run` with that failure. So is
    a case that `refusal`, asked right before it begins, gives a failure for; what is being played goes on.

    When the calling task is cancelled, what is being played is abandoned, and it and every remaining
    request go to `on_finished` as `not_run`, kind `interrupted`; an `on_finished` that is at work is left to
    end. Then `CancelledError` is raised: by that time every request is accounted for. A second cancellation
    gives up on that and raises at once.

    Raises:
        Exception: what `on_finished` or the iterator of requests raised, once everything else is stopped.
    """
    return await _Run(agent, iter(requests), on_finished, user_of, refusal).play(concurrency)


class _Run:
    def __init__(
        self,
        agent: Agent,
        requests: Iterator[RunRequest],
        on_finished: OnFinished,
        user_of: UserOf,
        refusal: Callable[[], Failure | None],
    ) -> None:
        self._agent = agent
        self._refused = refusal
        # Asked once, not per case: Python looks up the members of a protocol one by one.
        self._user_of = agent.user if isinstance(agent, BringsUser) else user_of
        self._requests = requests
        self._on_finished = on_finished
        self._refusal: Failure | None = None
        """Why no further case is played."""
        self._interruption: Failure | None = None
        """Set while cases in the agent are being cancelled because the user wants to stop."""
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

    def _interrupt(self) -> None:
        failure = Failure("interrupted", "the run was interrupted before this case was over")
        self._refusal = self._interruption = failure
        for task in self._playing:
            task.cancel()

    async def _player(self) -> None:
        for request in self._requests:
            await self._on_finished(request, await self._outcome(request))

    async def _outcome(self, request: RunRequest) -> CaseRun:
        if (failure := self._refusal or self._refused()) is not None:
            return _not_run(request, failure)
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a case is played in a task")
        self._playing.add(task)
        try:
            return await _play(self._agent, request, self._user_of)
        except AgentUnreachable as error:
            self._refusal = self._refusal or error.failure
            return _not_run(request, error.failure)
        except asyncio.CancelledError:
            if self._interruption is None:
                raise
            return _not_run(request, self._interruption)
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


async def _play(agent: Agent, request: RunRequest, user_of: UserOf) -> CaseRun:
    """Play a case; once more, alone, when it was lost among neighbours."""
    started = time.perf_counter()
    try:
        return await _attempt(agent, request, user_of, alone=False)
    except SessionLost as lost:
        first = Attempt(lost.outcome, lost.failure, time.perf_counter() - started)
    try:
        run = await _attempt(agent, request, user_of, alone=True)
    except SessionLost as lost:
        run = CaseRun(request.run, lost.outcome, failure=lost.failure)
    return replace(run, earlier_attempts=(first,))


async def _attempt(agent: Agent, request: RunRequest, user_of: UserOf, *, alone: bool) -> CaseRun:
    """Play a case once.

    Raises:
        SessionLost, AgentUnreachable: as the agent says.
    """
    case, run = request.case, request.run
    if case.recorded is not None:
        return CaseRun(run, "answered", case.recorded, said=tuple(turn.user for turn in case.turns))
    try:
        user = user_of(case, run)
    except UserFailed as error:
        return _not_run(request, error.failure)
    talk = _Talk(user)
    try:
        async with agent.session(case, run, alone=alone) as session:
            _check_mocks(case, session)
            end = await talk.hold(session)
    except AgentFailed as error:
        return talk.ended(run, error.outcome, error.failure, error.usage)
    except UserFailed as error:
        return talk.ended(run, "faulted", error.failure)
    except (SessionLost, AgentUnreachable):
        raise
    except Exception as error:  # noqa: BLE001  an agent plugin with a bug fails its case, not the run
        return talk.ended(run, "crashed", _bug(error))
    return talk.answered(run, end)


def _check_mocks(case: EvalCase, session: AgentSession) -> None:
    """Never let a case that mocks tools reach an agent that would call them."""
    for mock in case.tool_mocks:
        if mock.unsupported:
            raise AgentFailed(Failure("unsupported", mock.unsupported), "faulted")
    if case.tool_mocks and not (isinstance(session, AppliesMocks) and session.applies_mocks):
        names = ", ".join(dict.fromkeys(f"`{mock.tool}`" for mock in case.tool_mocks))
        sentence = f"the case mocks {names}, and mocks cannot be applied to this kind of agent"
        raise AgentFailed(Failure("unsupported", sentence), "faulted")


class _Talk:
    """One conversation between a user and the agent, kept when a later turn fails."""

    def __init__(self, user: User) -> None:
        self._user = user
        self._said: list[UserMessage] = []
        self._replies: list[Reply | None] = []
        self._started = time.perf_counter()

    async def hold(self, session: AgentSession) -> SessionEnd:
        self._started = time.perf_counter()
        while (message := await self._user.next(self._replies)) is not None:
            self._said.append(message)
            self._replies.append(await session.turn(message))
        return await session.end()

    def answered(self, run: int, end: SessionEnd) -> CaseRun:
        seconds = time.perf_counter() - self._started
        return CaseRun(
            run,
            "answered",
            (*self._replies, *end.unasked),
            seconds,
            end.usage,
            final_state=end.final_state,
            said=tuple(self._said),
            user_usage=self._user.usage,
        )

    def ended(self, run: int, outcome: Outcome, failure: Failure, usage: Usage | None = None) -> CaseRun:
        seconds = time.perf_counter() - self._started
        return CaseRun(
            run,
            outcome,
            tuple(self._replies),
            seconds,
            usage,
            failure,
            said=tuple(self._said),
            user_usage=self._user.usage,
        )


def _bug(error: Exception) -> Failure:
    detail = "".join(traceback.format_exception(error))[-_MAX_TRACEBACK:]
    return Failure("plugin", f"the agent's plugin raised {type(error).__name__}: {error}", detail)

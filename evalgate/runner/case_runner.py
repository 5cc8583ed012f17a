"""One run of one case: begun again when what broke was not the agent."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from evalgate.core.frozen import frozen
from evalgate.core.protocols import (
    Agent,
    AgentFailed,
    AgentSession,
    AgentUnreachable,
    AppliesMocks,
    SessionEnd,
    SessionLost,
    User,
    UserFailed,
    UserOf,
)
from evalgate.core.types import (
    PASSING_FAULTS,
    RATE_LIMITED,
    Attempt,
    CaseRun,
    EvalCase,
    Failure,
    Outcome,
    Reply,
    Usage,
    UserMessage,
)
from evalgate.core.types.conversation import bug
from evalgate.throttling.adaptive_concurrency import Place
from evalgate.throttling.rate_limiter import keeper
from evalgate.throttling.throttle import Pace

_MOST_MOVES = 3
"""How often a case is begun again because the machine was lost that it was played on."""


@frozen
class _Ended:
    """How an attempt ended."""

    run: CaseRun
    again: Literal["no", "alone", "later", "elsewhere"] = "no"
    """Whether a further one could end otherwise: without neighbours, after a while, or on another machine."""
    retry_after_s: float | None = None


class Earlier:
    """Attempts at one run of a case that came to nothing."""

    __slots__ = ("_attempts", "_users")

    def __init__(self) -> None:
        self._attempts: list[Attempt] = []
        self._users: list[Usage] = []
        """What its users consumed in them."""

    def add(self, run: CaseRun) -> None:
        """One more."""
        self._attempts.append(_given_up(run))
        self._users += [] if run.user_usage is None else [run.user_usage]

    def before(self, run: CaseRun) -> CaseRun:
        """How the case ended, with what was tried before."""
        if not self._attempts:
            return run
        used = [*self._users, *([] if run.user_usage is None else [run.user_usage])]
        usage = sum(used, Usage()) if used else None
        return replace(run, earlier_attempts=tuple(self._attempts), user_usage=usage)


class CasePlayer:
    """Plays cases with an agent that has been entered."""

    def __init__(
        self, agent: Agent, user_of: UserOf, pace: Pace, refused: Callable[[], Failure | None]
    ) -> None:
        """`refused`: why nothing new may begin, asked before a case is begun again."""
        self._agent = agent
        self._user_of = user_of
        self._pace = pace
        self._refused = refused

    async def play(self, case: EvalCase, run: int, earlier: Earlier | None = None) -> CaseRun:
        """Play a case: once more, alone, when it was lost among neighbours; later when a fault may pass.

        And at once, a few times, when its machine was lost. `earlier` gets what came to nothing: it is still
        there when the call is cancelled.

        Raises:
            AgentUnreachable: as the agent says.
        """
        earlier = Earlier() if earlier is None else earlier
        alone, faults, moves = False, 0, 0
        while True:
            ended = await self._placed(case, run, alone=alone)
            if ended.again == "alone" and not alone:
                alone, pause = True, 0.0
            elif ended.again == "elsewhere" and moves < _MOST_MOVES and self._refused() is None:
                moves, pause = moves + 1, 0.0
            elif ended.again == "later" and self._refused() is None:
                faults += 1
                wanted = self._pace.pause(faults, ended.retry_after_s)
                if wanted is None:
                    return earlier.before(ended.run)
                pause = wanted
            else:
                return earlier.before(ended.run)
            earlier.add(ended.run)
            if pause:
                await self._pace.wait(pause)

    async def _placed(self, case: EvalCase, run: int, *, alone: bool) -> _Ended:
        async with self._pace.place() as place:
            ended = await self._attempt(case, run, place, alone=alone)
            failure = ended.run.failure
            if failure is not None and failure.kind == RATE_LIMITED:
                self._pace.too_fast(place, ended.retry_after_s)
            else:
                self._pace.went_well()
            return ended

    async def _attempt(self, case: EvalCase, run: int, place: Place, *, alone: bool) -> _Ended:
        if case.recorded is not None:
            said = tuple(turn.user for turn in case.turns)
            return _Ended(CaseRun(run, "answered", case.recorded, said=said))
        try:
            user = self._user_of(case, run)
        except UserFailed as error:
            return _Ended(CaseRun(run, "not_run", failure=error.failure))
        return await self._held(_Talk(user, self._pace, place), case, run, alone=alone)

    async def _held(self, talk: "_Talk", case: EvalCase, run: int, *, alone: bool) -> _Ended:
        try:
            async with self._agent.session(case, run, alone=alone) as session:
                _check_mocks(case, session)
                end = await talk.hold(session)
        except AgentFailed as error:
            return _failed(talk.ended(run, error.outcome, error.failure, error.usage), error)
        except SessionLost as lost:
            again: Literal["alone", "elsewhere"] = "alone" if lost.alone else "elsewhere"
            return _Ended(talk.ended(run, lost.outcome, lost.failure, lost.usage), again)
        except UserFailed as error:
            return _Ended(talk.ended(run, "faulted", error.failure))
        except AgentUnreachable:
            raise
        except Exception as error:  # noqa: BLE001  an agent plugin with a bug fails its case, not the run
            return _Ended(talk.ended(run, "crashed", bug(error)))
        return _Ended(talk.answered(run, end))


def _failed(run: CaseRun, error: AgentFailed) -> _Ended:
    passes = error.outcome == "faulted" and error.failure.kind in PASSING_FAULTS
    return _Ended(run, "later" if passes else "no", error.retry_after_s)


def _given_up(run: CaseRun) -> Attempt:
    if run.failure is None:
        raise ValueError("an attempt without a failure is not given up")
    return Attempt(run.outcome, run.failure, run.duration_s, run.usage)


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

    def __init__(self, user: User, pace: Pace, place: Place) -> None:
        self._user = user
        self._pace = pace
        self._place = place
        self._said: list[UserMessage] = []
        self._replies: list[Reply | None] = []
        self._started = time.perf_counter()

    async def hold(self, session: AgentSession) -> SessionEnd:
        self._started = time.perf_counter()
        while (message := await self._user.next(self._replies)) is not None:
            # Waiting for one's turn is nothing that the agent does.
            self._started += await self._pace.turn()
            self._said.append(message)
            self._replies.append(await self._asked(session, message))
        return await session.end()

    async def _asked(self, session: AgentSession, message: UserMessage) -> Reply | None:
        token = keeper.set(self._stand_back)
        try:
            return await session.turn(message)
        finally:
            keeper.reset(token)

    async def _stand_back(self, seconds: float, too_fast: bool) -> None:
        self._started += await self._pace.stand_back(self._place, seconds, too_fast=too_fast)

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

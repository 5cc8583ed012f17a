"""An agent whose conversations are held in the actors of a Ray cluster."""

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Protocol, Self

from pydantic import ValidationError

from evalgate.agents.ray.actor import (
    ActorRequest,
    ActorResponse,
    SessionStart,
    dump_message,
    load_failure,
    load_response,
)
from evalgate.agents.ray.client import ClusterClient
from evalgate.core.protocols import AgentError, AgentUnreachableError, SessionLostError, SessionResult
from evalgate.core.types import EvalCase, Failure, Reply, UserMessage


@dataclass(eq=False, slots=True)
class ActorSlot:
    """An actor."""

    number: int
    ready: bool = False
    sessions: int = 0
    asked: dict[int, asyncio.Future[ActorResponse]] = field(default_factory=dict)


class ActorPool(Protocol):
    """Whose actors they are."""

    def create_session_key(self) -> str:
        """What a conversation is called."""
        ...

    async def acquire_actor(self) -> ActorSlot:
        """A place in an actor."""
        ...

    async def run_step(self, seat: ActorSlot, ask: ActorRequest) -> ActorResponse:
        """Take a step of a conversation."""
        ...

    def close_session(self, seat: ActorSlot, session: str) -> None:
        """Abandon a conversation."""
        ...


class ClusterSessionContext:
    """The async context of one conversation."""

    def __init__(self, seats: ActorPool, beginning: SessionStart) -> None:
        self._seats = seats
        self._beginning = beginning
        self._seat: ActorSlot | None = None
        self._session: ClusterSession | None = None

    async def __aenter__(self) -> "ClusterSession":
        self._seat = await self._seats.acquire_actor()
        self._session = ClusterSession(self._seats, self._seat, self._beginning)
        try:
            if self._beginning.case.tool_mocks:
                await self._session.open_session()
        except BaseException:
            await self.__aexit__()
            raise
        return self._session

    async def __aexit__(self, *exc: object) -> None:
        if self._session is not None:
            self._session.close()
        if self._seat is not None:
            self._seat.sessions -= 1


class ClusterSession:
    """See `AgentSession`. It is opened with the first turn: each way there and back takes milliseconds."""

    def __init__(self, seats: ActorPool, seat: ActorSlot, beginning: SessionStart) -> None:
        self._seats = seats
        self._seat = seat
        self._beginning: SessionStart | None = beginning
        """Until it is open there."""
        self._key = seats.create_session_key()
        self._is_over = False
        self.applies_mocks = False
        """See `SupportsToolMocks`; known once it is open."""

    async def open_session(self) -> None:
        """Open it before the first turn."""
        await self._run_step(ActorRequest(self._key, "open", self._take_start()))

    async def run_turn(self, message: UserMessage) -> Reply | None:
        """See `AgentSession.run_turn`."""
        return (await self._run_step(ActorRequest(self._key, "turn", self._take_start(), message))).reply

    async def end(self) -> SessionResult:
        """See `AgentSession.end`."""
        answer = await self._run_step(ActorRequest(self._key, "end", self._take_start()))
        self._is_over = True
        return answer.end or SessionResult()

    def close(self) -> None:
        """Nobody asks any more."""
        if not self._is_over and self._beginning is None:
            self._seats.close_session(self._seat, self._key)

    def _take_start(self) -> SessionStart | None:
        given, self._beginning = self._beginning, None
        return given

    async def _run_step(self, ask: ActorRequest) -> ActorResponse:
        answer = await self._seats.run_step(self._seat, ask)
        self.applies_mocks = answer.applies_mocks
        if answer.broke is not None:
            raise answer.broke.to_error()
        return answer


_MAX_LOST_AT_START = 3
"""Actors in a row that are lost before one was ready: then the cluster is of no use."""
_SILENCE_S = 300.0
# Beyond twice the time of a turn. The agent's own limits hold in the actor, also for those who wait there;
# this is for a node that stands still and that Ray does not miss.


_MAX_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLimits:
    """How many actors there are, and how long things may take."""

    workers: int
    timeout_s: float
    """Of one turn."""
    start_timeout_s: float
    """Without any actor that is ready, at the start and whenever all are lost."""


class ClusterAgent:
    """An `Agent` spread over a cluster. A lost actor is replaced, and its conversations are begun again."""

    def __init__(self, link: ClusterClient, limits: ClusterLimits) -> None:
        self._link = link
        self._limits = limits
        self._seats: dict[int, ActorSlot] = {}
        self._asked: dict[int, ActorSlot] = {}
        self._numbers = itertools.count(1)
        self._keys = itertools.count(1)
        self._refusal: AgentUnreachableError | None = None
        self._lost_at_start = 0
        self._capacity_notice = ""
        self._waiting: list[asyncio.Future[None]] = []
        self._readiness_timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._capacity_notice = await self._link.join_cluster(self)
        for _ in range(self._limits.workers):
            self._add_actor()
        self._watch_readiness()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._readiness_timer is not None:
            self._readiness_timer.cancel()
        await self._link.leave_cluster(gently=not any(exc))

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> ClusterSessionContext:
        """See `Agent.open_session`."""
        return ClusterSessionContext(self, SessionStart(case, run, alone))

    def create_session_key(self) -> str:
        """What a conversation is called."""
        return str(next(self._keys))

    async def acquire_actor(self) -> ActorSlot:
        """A place in the actor that has least to do.

        Raises:
            AgentUnreachableError: there is none, and will be none.
        """
        while True:
            if self._refusal is not None:
                raise self._refusal
            ready = [seat for seat in self._seats.values() if seat.ready]
            if ready:
                seat = min(ready, key=lambda each: each.sessions)
                seat.sessions += 1
                return seat
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    async def run_step(self, seat: ActorSlot, ask: ActorRequest) -> ActorResponse:
        """Take a step of a conversation.

        Raises:
            SessionLostError: the actor is gone.
            AgentUnreachableError: so is the cluster.
        """
        seconds = 2 * self._limits.timeout_s + _SILENCE_S
        timer = asyncio.get_running_loop().call_later(seconds, self._drop_silent_actor, seat, seconds)
        try:
            return await self._send_request(seat, ask)
        finally:
            timer.cancel()

    async def _send_request(self, seat: ActorSlot, ask: ActorRequest) -> ActorResponse:
        if self._refusal is not None:
            raise self._refusal
        if seat.number not in self._seats:
            raise _build_lost_error("it was gone before it was asked")
        key = next(self._keys)
        answer: asyncio.Future[ActorResponse] = asyncio.get_running_loop().create_future()
        self._asked[key] = seat
        seat.asked[key] = answer
        self._link.ask_actor(seat.number, key, dump_message(ask))
        try:
            return await answer
        finally:
            self._asked.pop(key, None)
            seat.asked.pop(key, None)

    def close_session(self, seat: ActorSlot, session: str) -> None:
        """Abandon a conversation."""
        if seat.number in self._seats:
            self._link.ask_actor(seat.number, next(self._keys), dump_message(ActorRequest(session, "close")))

    # --- what the cluster does: see `client.ActorListener` ------------------------------------------------

    def on_ready(self, seat: int) -> None:
        """See `ActorListener.ready`."""
        self._lost_at_start = 0
        if seat in self._seats:
            self._seats[seat].ready = True
            self._watch_readiness()
            self._wake_waiters()

    def on_failed(self, seat: int, broke: str) -> None:
        """See `ActorListener.failed`."""
        del seat
        self._refuse_sessions(load_failure(broke).failure)

    def on_lost(self, seat: int, why: str) -> None:
        """See `ActorListener.lost`."""
        gone = self._seats.pop(seat, None)
        if gone is None:
            return
        if not gone.ready:
            self._lost_at_start += 1
        for answer in list(gone.asked.values()):
            _fail_answer(answer, _build_lost_error(why))
        if self._lost_at_start >= _MAX_LOST_AT_START:
            self._refuse_sessions(
                Failure("start", f"no worker can be started in the Ray cluster: {_shorten_reason(why)}", why)
            )
        else:
            self._add_actor()
            self._watch_readiness()

    def on_answer(self, key: int, answer: str) -> None:
        """See `ActorListener.answered`."""
        waiting = self._find_waiter(key)
        if waiting is None:
            return
        try:
            waiting.set_result(load_response(answer))
        except ValidationError as error:
            waiting.set_exception(_build_mismatch_error(str(error)))

    def on_broken(self, key: int, why: str) -> None:
        """See `ActorListener.broken`."""
        if (waiting := self._find_waiter(key)) is not None:
            waiting.set_exception(_build_mismatch_error(why))

    def on_cluster_lost(self, why: str, detail: str) -> None:
        """See `ActorListener.gone`."""
        self._refuse_sessions(Failure("cluster", f"the Ray cluster is lost: {_shorten_reason(why)}", detail))

    def _find_waiter(self, key: int) -> "asyncio.Future[ActorResponse] | None":
        """Who waits for it; None when nobody does any more."""
        seat = self._asked.get(key)
        waiting = seat.asked.get(key) if seat else None
        return None if waiting is None or waiting.done() else waiting

    def _add_actor(self) -> None:
        number = next(self._numbers)
        self._seats[number] = ActorSlot(number)
        self._link.add_actor(number)

    def _drop_silent_actor(self, seat: ActorSlot, seconds: float) -> None:
        self._link.kill_actor(seat.number)
        self.on_lost(seat.number, f"it said nothing for {seconds:g} s")

    def _watch_readiness(self) -> None:
        """A cluster can be without room for any worker: not for ever."""
        if any(seat.ready for seat in self._seats.values()):
            if self._readiness_timer is not None:
                self._readiness_timer.cancel()
            self._readiness_timer = None
        elif self._readiness_timer is None:
            loop = asyncio.get_running_loop()
            self._readiness_timer = loop.call_later(self._limits.start_timeout_s, self._fail_unready)

    def _fail_unready(self) -> None:
        sentence = f"no worker was ready within {self._limits.start_timeout_s:g} s: {self._capacity_notice}"
        self._refuse_sessions(Failure("start", sentence))

    def _refuse_sessions(self, failure: Failure) -> None:
        """Nothing more is asked."""
        self._refusal = self._refusal or AgentUnreachableError(failure)
        for seat in self._seats.values():
            for answer in list(seat.asked.values()):
                _fail_answer(answer, self._refusal)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


def _build_lost_error(why: str) -> SessionLostError:
    failure = Failure("worker_lost", f"the worker in the Ray cluster is lost: {_shorten_reason(why)}", why)
    return SessionLostError(failure, "faulted", alone=False)


def _build_mismatch_error(why: str) -> AgentError:
    sentence = "the worker in the Ray cluster runs another evalgate than the gate, or evalgate has a bug"
    return AgentError(Failure("cluster", sentence, why), "faulted")


def _shorten_reason(why: str) -> str:
    """What Ray says, without the essay that follows it."""
    first = next(iter(why.strip().splitlines()), "nobody says why")
    return first[:_MAX_SHOWN].rstrip(". ")


def _fail_answer(answer: "asyncio.Future[ActorResponse]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)

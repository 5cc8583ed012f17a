"""An agent whose conversations are held in the actors of a Ray cluster."""

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Protocol, Self

from pydantic import ValidationError

from evalgate.agents.ray.actor import Answer, Ask, Beginning, dump, load_answer, load_broke
from evalgate.agents.ray.client import Link
from evalgate.core.protocols import AgentFailed, AgentUnreachable, SessionEnd, SessionLost
from evalgate.core.types import EvalCase, Failure, Reply, UserMessage


@dataclass(eq=False, slots=True)
class Seat:
    """An actor."""

    number: int
    ready: bool = False
    sessions: int = 0
    asked: dict[int, asyncio.Future[Answer]] = field(default_factory=dict)


class Seats(Protocol):
    """Whose actors they are."""

    def new_key(self) -> str:
        """What a conversation is called."""
        ...

    async def sit(self) -> Seat:
        """A place in an actor."""
        ...

    async def step(self, seat: Seat, ask: Ask) -> Answer:
        """Take a step of a conversation."""
        ...

    def close(self, seat: Seat, session: str) -> None:
        """Abandon a conversation."""
        ...


class Place:
    """The async context of one conversation."""

    def __init__(self, seats: Seats, beginning: Beginning) -> None:
        self._seats = seats
        self._beginning = beginning
        self._seat: Seat | None = None
        self._session: ClusterSession | None = None

    async def __aenter__(self) -> "ClusterSession":
        self._seat = await self._seats.sit()
        self._session = ClusterSession(self._seats, self._seat, self._beginning)
        try:
            if self._beginning.case.tool_mocks:
                await self._session.open()
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

    def __init__(self, seats: Seats, seat: Seat, beginning: Beginning) -> None:
        self._seats = seats
        self._seat = seat
        self._beginning: Beginning | None = beginning
        """Until it is open there."""
        self._key = seats.new_key()
        self._is_over = False
        self.applies_mocks = False
        """See `AppliesMocks`; known once it is open."""

    async def open(self) -> None:
        """Open it before the first turn."""
        await self._take(Ask(self._key, "open", self._given()))

    async def turn(self, message: UserMessage) -> Reply | None:
        """See `AgentSession.turn`."""
        return (await self._take(Ask(self._key, "turn", self._given(), message))).reply

    async def end(self) -> SessionEnd:
        """See `AgentSession.end`."""
        answer = await self._take(Ask(self._key, "end", self._given()))
        self._is_over = True
        return answer.end or SessionEnd()

    def close(self) -> None:
        """Nobody asks any more."""
        if not self._is_over and self._beginning is None:
            self._seats.close(self._seat, self._key)

    def _given(self) -> Beginning | None:
        given, self._beginning = self._beginning, None
        return given

    async def _take(self, ask: Ask) -> Answer:
        answer = await self._seats.step(self._seat, ask)
        self.applies_mocks = answer.applies_mocks
        if answer.broke is not None:
            raise answer.broke.error()
        return answer


_MOST_LOST_AT_START = 3
"""Actors in a row that are lost before one was ready: then the cluster is of no use."""
_SILENCE_S = 300.0
# Beyond twice the time of a turn. The agent's own limits hold in the actor, also for those who wait there;
# this is for a node that stands still and that Ray does not miss.


_MAX_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many actors there are, and how long things may take."""

    workers: int
    timeout_s: float
    """Of one turn."""
    start_timeout_s: float
    """Without any actor that is ready, at the start and whenever all are lost."""


class ClusterAgent:
    """An `Agent` spread over a cluster. A lost actor is replaced, and its conversations are begun again."""

    def __init__(self, link: Link, limits: Limits) -> None:
        self._link = link
        self._limits = limits
        self._seats: dict[int, Seat] = {}
        self._asked: dict[int, Seat] = {}
        self._numbers = itertools.count(1)
        self._keys = itertools.count(1)
        self._refusal: AgentUnreachable | None = None
        self._lost_at_start = 0
        self._room = ""
        self._waiting: list[asyncio.Future[None]] = []
        self._patience: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._room = await self._link.join(self)
        for _ in range(self._limits.workers):
            self._add_seat()
        self._watch_room()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._patience is not None:
            self._patience.cancel()
        await self._link.leave(gently=not any(exc))

    def session(self, case: EvalCase, run: int, *, alone: bool) -> Place:
        """See `Agent.session`."""
        return Place(self, Beginning(case, run, alone))

    def new_key(self) -> str:
        """What a conversation is called."""
        return str(next(self._keys))

    async def sit(self) -> Seat:
        """A place in the actor that has least to do.

        Raises:
            AgentUnreachable: there is none, and will be none.
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

    async def step(self, seat: Seat, ask: Ask) -> Answer:
        """Take a step of a conversation.

        Raises:
            SessionLost: the actor is gone.
            AgentUnreachable: so is the cluster.
        """
        seconds = 2 * self._limits.timeout_s + _SILENCE_S
        timer = asyncio.get_running_loop().call_later(seconds, self._silent, seat, seconds)
        try:
            return await self._ask(seat, ask)
        finally:
            timer.cancel()

    async def _ask(self, seat: Seat, ask: Ask) -> Answer:
        if self._refusal is not None:
            raise self._refusal
        if seat.number not in self._seats:
            raise _lost("it was gone before it was asked")
        key = next(self._keys)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[key] = seat
        seat.asked[key] = answer
        self._link.ask(seat.number, key, dump(ask))
        try:
            return await answer
        finally:
            self._asked.pop(key, None)
            seat.asked.pop(key, None)

    def close(self, seat: Seat, session: str) -> None:
        """Abandon a conversation."""
        if seat.number in self._seats:
            self._link.ask(seat.number, next(self._keys), dump(Ask(session, "close")))

    # --- what the cluster does: see `link.Watcher` ----------------------------------------------------------

    def ready(self, seat: int) -> None:
        """See `Watcher.ready`."""
        self._lost_at_start = 0
        if seat in self._seats:
            self._seats[seat].ready = True
            self._watch_room()
            self._wake()

    def failed(self, seat: int, broke: str) -> None:
        """See `Watcher.failed`."""
        del seat
        self._refuse(load_broke(broke).failure)

    def lost(self, seat: int, why: str) -> None:
        """See `Watcher.lost`."""
        gone = self._seats.pop(seat, None)
        if gone is None:
            return
        if not gone.ready:
            self._lost_at_start += 1
        for answer in list(gone.asked.values()):
            _fail(answer, _lost(why))
        if self._lost_at_start >= _MOST_LOST_AT_START:
            self._refuse(Failure("start", f"no worker can be started in the Ray cluster: {_short(why)}", why))
        else:
            self._add_seat()
            self._watch_room()

    def answered(self, key: int, answer: str) -> None:
        """See `Watcher.answered`."""
        waiting = self._answer(key)
        if waiting is None:
            return
        try:
            waiting.set_result(load_answer(answer))
        except ValidationError as error:
            waiting.set_exception(_misunderstood(str(error)))

    def broken(self, key: int, why: str) -> None:
        """See `Watcher.broken`."""
        if (waiting := self._answer(key)) is not None:
            waiting.set_exception(_misunderstood(why))

    def gone(self, why: str, detail: str) -> None:
        """See `Watcher.gone`."""
        self._refuse(Failure("cluster", f"the Ray cluster is lost: {_short(why)}", detail))

    def _answer(self, key: int) -> "asyncio.Future[Answer] | None":
        """Who waits for it; None when nobody does any more."""
        seat = self._asked.get(key)
        waiting = seat.asked.get(key) if seat else None
        return None if waiting is None or waiting.done() else waiting

    def _add_seat(self) -> None:
        number = next(self._numbers)
        self._seats[number] = Seat(number)
        self._link.seat(number)

    def _silent(self, seat: Seat, seconds: float) -> None:
        self._link.drop(seat.number)
        self.lost(seat.number, f"it said nothing for {seconds:g} s")

    def _watch_room(self) -> None:
        """A cluster can be without room for any worker: not for ever."""
        if any(seat.ready for seat in self._seats.values()):
            if self._patience is not None:
                self._patience.cancel()
            self._patience = None
        elif self._patience is None:
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(self._limits.start_timeout_s, self._no_room)

    def _no_room(self) -> None:
        sentence = f"no worker was ready within {self._limits.start_timeout_s:g} s: {self._room}"
        self._refuse(Failure("start", sentence))

    def _refuse(self, failure: Failure) -> None:
        """Nothing more is asked."""
        self._refusal = self._refusal or AgentUnreachable(failure)
        for seat in self._seats.values():
            for answer in list(seat.asked.values()):
                _fail(answer, self._refusal)
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


def _lost(why: str) -> SessionLost:
    failure = Failure("worker_lost", f"the worker in the Ray cluster is lost: {_short(why)}", why)
    return SessionLost(failure, "faulted", alone=False)


def _misunderstood(why: str) -> AgentFailed:
    sentence = "the worker in the Ray cluster runs another evalgate than the gate, or evalgate has a bug"
    return AgentFailed(Failure("cluster", sentence, why), "faulted")


def _short(why: str) -> str:
    """What Ray says, without the essay that follows it."""
    first = next(iter(why.strip().splitlines()), "nobody says why")
    return first[:_MAX_SHOWN].rstrip(". ")


def _fail(answer: "asyncio.Future[Answer]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)

"""One conversation that is held in an actor."""

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from evalgate.cluster.wire import Answer, Ask, Beginning
from evalgate.model import Reply, UserMessage
from evalgate.protocols import SessionEnd


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

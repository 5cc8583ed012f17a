"""Sessions of an agent in the actors of a Ray cluster: one conversation each, in one actor."""

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from evalgate.agents.ray.actor_host import ActorRequest, ActorResponse, SessionStart
from evalgate.core.protocols import SessionResult
from evalgate.core.types import Reply, TraceSpan, UserMessage


@dataclass(eq=False, slots=True)
class ActorSlot:
    """The gate's record of one actor: its id (`number`), the count of its sessions, its open requests."""

    number: int
    ready: bool = False
    sessions: int = 0
    pending: dict[int, asyncio.Future[ActorResponse]] = field(default_factory=dict)
    """Futures of requests without an answer yet, by the key of the request."""


class ActorPool(Protocol):
    """Interface of `ClusterAgent` for its sessions: choose an actor, and send requests to it."""

    def create_session_key(self) -> str:
        """Return the key of a new conversation."""
        ...

    async def acquire_actor(self) -> ActorSlot:
        """Wait until an actor is ready, increase its `sessions` by one, and return it.

        The caller must decrease `sessions` by one when the session ends.

        Raises:
            AgentUnreachableError: no actor is ready, and none will be.
        """
        ...

    async def run_step(self, slot: ActorSlot, ask: ActorRequest) -> ActorResponse:
        """Send one request of a conversation to an actor, and return the response.

        Raises:
            SessionLostError: the actor is gone, or did not answer in time.
            AgentUnreachableError: the cluster is gone, or the agent cannot start in it.
            AgentError: the actor runs another release of evalgate than the gate, or evalgate has a bug.
        """
        ...

    def close_session(self, slot: ActorSlot, session: str) -> None:
        """Tell an actor to abandon a conversation, without waiting for an answer."""
        ...


class ClusterSessionContext:
    """Asynchronous context manager of one conversation in an actor."""

    def __init__(self, pool: ActorPool, beginning: SessionStart) -> None:
        self._pool = pool
        self._beginning = beginning
        self._slot: ActorSlot | None = None
        self._session: ClusterSession | None = None

    async def __aenter__(self) -> "ClusterSession":
        self._slot = await self._pool.acquire_actor()
        self._session = ClusterSession(self._pool, self._slot, self._beginning)
        try:
            if self._beginning.case.tool_mocks or self._beginning.case.tool_recording is not None:
                # The runner reads `applies_…` before the first turn, and only an open session has them.
                await self._session.open_session()
        except BaseException:
            await self.__aexit__()
            raise
        return self._session

    async def __aexit__(self, *exc: object) -> None:
        if self._session is not None:
            self._session.close()
        if self._slot is not None:
            self._slot.sessions -= 1


class ClusterSession:
    """An `AgentSession` in an actor. Unless `open_session` is called, the first turn opens the session.

    Methods that send a request to the actor raise SessionLostError if the actor is lost, and
    AgentUnreachableError if no actor can run the agent.
    """

    def __init__(self, pool: ActorPool, slot: ActorSlot, beginning: SessionStart) -> None:
        self._pool = pool
        self._slot = slot
        self._beginning: SessionStart | None = beginning
        """Arguments of the session; None once they were sent to the actor."""
        self._key = pool.create_session_key()
        self._is_over = False
        self.applies_mocks = False
        """True if the session applies tool mocks; False until the session is open."""
        self.applies_recordings = False
        """True if the session answers tool calls from a recording; False until the session is open."""
        self.session_id, self.user_id = "", ""
        self._spans: tuple[TraceSpan, ...] = ()

    async def open_session(self) -> None:
        """Open the session in the actor, so that `applies_mocks` and `applies_recordings` are known."""
        await self._run_step(ActorRequest(self._key, "open", self._take_start()))

    async def run_turn(self, message: UserMessage) -> Reply | None:
        """Send a message to the actor and return the agent's reply.

        Return None if a replayed recording has no reply to the turn.

        Raises:
            AgentError: the turn failed.
        """
        return (await self._run_step(ActorRequest(self._key, "turn", self._take_start(), message))).reply

    def take_spans(self) -> tuple[TraceSpan, ...]:
        """Return the timed steps of the last turn, and remove them from the session."""
        spans, self._spans = self._spans, ()
        return spans

    async def end(self) -> SessionResult:
        """End the conversation in the actor and return its result."""
        answer = await self._run_step(ActorRequest(self._key, "end", self._take_start()))
        self._is_over = True
        return answer.end or SessionResult()

    def close(self) -> None:
        """Tell the actor to abandon the conversation. Do nothing if it has ended or was never opened."""
        if not self._is_over and self._beginning is None:
            self._pool.close_session(self._slot, self._key)

    def _take_start(self) -> SessionStart | None:
        given, self._beginning = self._beginning, None
        return given

    async def _run_step(self, ask: ActorRequest) -> ActorResponse:
        answer = await self._pool.run_step(self._slot, ask)
        self.applies_mocks, self.applies_recordings = answer.applies_mocks, answer.applies_recordings
        if any(answer.ids):
            self.session_id, self.user_id = answer.ids
        self._spans = answer.spans
        if answer.failure is not None:
            raise answer.failure.to_error()
        return answer

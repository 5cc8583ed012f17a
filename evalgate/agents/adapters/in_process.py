"""Agents that are objects of the gate's own process: a function, a closure, or an agent of a framework.

Only the library uses them, because nothing separates them from the gate: they can change its memory and its
environment, and a turn that never returns cannot be ended. What they answer passes through the same protocol
as the answers of a worker, so both give the same replies, failures and usage.
"""

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from evalgate.agents.host.channel import encode_line
from evalgate.agents.host.conversations import SessionManager
from evalgate.agents.host.errors import AgentCreationError, UnusableEntryError, describe_fatal
from evalgate.agents.host.frameworks import AgentHost, find_entry_host
from evalgate.agents.host.threads import DaemonThreadPool, own_process
from evalgate.agents.workers.protocol import decode_message, parse_failure
from evalgate.agents.workers.session import SessionState, TurnLimits, WorkerSession
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import AgentContext, AgentUnreachableError
from evalgate.core.types import EvalCase, Failure, JsonObject


class _LocalChannel:
    """Delivery of the host's messages to their sessions, in the event loop and in order."""

    def __init__(self, sessions: dict[str, WorkerSession]) -> None:
        self._sessions = sessions
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def send(self, message: dict[str, Any]) -> None:
        """Deliver a message soon; this may be called in any thread.

        Raises:
            MessageTooLargeError, TypeError, ValueError, RecursionError: as for `encode_line`.
        """
        # Encoded although both ends are here: the reply must not change when the agent changes its objects
        # later, and a value that JSON cannot hold must fail as it does in a worker.
        line = encode_line(message)
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self._deliver, line)
        else:
            self._loop.call_soon_threadsafe(self._deliver, line)

    def _deliver(self, line: bytes) -> None:
        message = decode_message(line)
        session = self._sessions.get(str(message.get("session")))
        if session is not None:
            session.handle_message(str(message.get("type")), message, len(line))


@frozen
class InProcessOptions:
    """The options of an agent that is an object."""

    agent: object

    def build(self, context: AgentContext) -> "InProcessAgent":
        """Build the agent."""
        return InProcessAgent(self.agent, timeout=context.timeout, concurrency=context.concurrency)


class InProcessAgent:
    """`Agent` that runs its turns in this process, and in its event loop if the agent is asynchronous."""

    def __init__(self, agent: object, *, timeout: float, concurrency: int) -> None:
        """Keep the options of an agent that is not looked at before it starts.

        Args:
            agent: A function, an object with a known method, or a class or function that creates one.
            timeout: Seconds that one turn may take.
            concurrency: Conversations at once, and threads for an agent that is not asynchronous.
        """
        self.features: frozenset[str] = frozenset()
        """Optional parts of the protocol that the host of the agent supports."""
        self.turn_limits = TurnLimits()
        self._agent = agent
        self._timeout_s = timeout
        self._threads = DaemonThreadPool(concurrency)
        self._manager: SessionManager | None = None
        self._failure: Failure | None = None
        """Error of the function or class that creates the agent."""
        self._sessions: dict[str, WorkerSession] = {}
        self._issued = 0
        self._abandoned = 0
        self._changed = asyncio.Condition()
        self._is_reserved = False

    async def __aenter__(self) -> Self:
        """Find out how to call the agent.

        Raises:
            InvalidInputError: the object is no agent, or conversations would share its memory.
        """
        own_process()
        try:
            host = await self._find_host()
        except UnusableEntryError as error:
            raise InvalidInputError(f"agent: {error}") from None
        except AgentCreationError as error:
            message = describe_fatal(error, describe_object(self._agent))
            self._failure = parse_failure(message, kind="start")
            return self
        self.features = frozenset(host.features)
        loop = asyncio.get_running_loop()
        # Captures patch HTTP clients and tracers for the whole process, which is the user's here.
        host = host._replace(capture=False)
        self._manager = SessionManager(loop, host, _LocalChannel(self._sessions), self._threads)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._sessions.clear()
        self.turn_limits.cancel_timer()
        self._threads.close()

    async def _find_host(self) -> AgentHost:
        name = describe_object(self._agent)
        loop = asyncio.new_event_loop()
        try:
            if inspect.iscoroutinefunction(self._agent):
                # A factory that is awaited needs a loop that does not run yet, and so a thread of its own.
                found: AgentHost = await self._threads.run_in_thread(
                    lambda: find_entry_host(self._agent, name, loop)
                )
                return found
            return find_entry_host(self._agent, name, loop)
        finally:
            loop.close()

    @asynccontextmanager
    async def open_session(self, case: EvalCase, run: int, *, alone: bool) -> AsyncIterator[WorkerSession]:
        """Open a conversation; with `alone` wait until there is no other one, and let none begin."""
        del run
        if self._failure is not None:
            raise AgentUnreachableError(self._failure)
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_reserved and not (alone and self._sessions))
            self._is_reserved = alone
            self._issued += 1
            given = case.session.session_id
            key = given if given and given not in self._sessions else str(self._issued)
            session = WorkerSession(self, key, case, self._timeout_s)
            self._sessions[session.key] = session
        try:
            yield session
        finally:
            session.close()
            async with self._changed:
                self._is_reserved = self._is_reserved and not alone
                self._changed.notify_all()

    @property
    def notices(self) -> tuple[str, ...]:
        """Return a notice if turns still run that took too long."""
        if not self._abandoned:
            return ()
        turns = pluralize(self._abandoned, "turn")
        sentence = (
            f"{turns} of the agent took too long and may still run: only an agent in a process of its own "
            '(`agent="python:FILE.py:NAME"`) can be ended.'
        )
        return (sentence,)

    # --- called by its sessions -----------------------------------------------------------------------------

    def write_message(self, message: JsonObject) -> None:
        """Pass a copy of a message to the host, so that no agent changes the state of a case for later runs.

        Raises:
            TypeError, ValueError, RecursionError: the case has a value that JSON cannot hold.
        """
        if self._manager is not None:
            self._manager.handle_message(dict(decode_message(encode_line(dict(message)))))

    def cancel_turn(self, session: WorkerSession) -> None:
        """Cancel the turn in progress."""
        session.concurrent = sum(each.busy for each in self._sessions.values()) > 1
        session.state = SessionState.CANCELLING
        session.cancelled_at = time.monotonic()
        self.write_message({"type": "cancel", "session": session.key})

    def on_cancelled(self, session: WorkerSession, *, still_running: bool) -> None:
        """Count a turn that could not be ended."""
        del session
        self._abandoned += still_running

    def release_session(self, session: WorkerSession) -> None:
        """Forget a session that is over."""
        self._sessions.pop(session.key, None)

    def note_dropped_spans(self, count: int) -> None:
        """Ignore the count, since spans are captured in workers only."""


def describe_object(agent: object) -> str:
    """Return how reports name an object: its module and name, as `agent.py` would be named by its path."""
    named = agent if hasattr(agent, "__qualname__") else type(agent)
    return f"{named.__module__}.{named.__qualname__}"

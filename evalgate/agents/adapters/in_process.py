"""Agents that are Python objects in the gate's own process: functions, closures and agents of frameworks.

Only the library uses these agents, because nothing separates them from the gate: an agent can change the
gate's memory and environment, and a turn that never returns cannot be ended. The agent's answers pass through
the worker protocol, so replies, failures and usage are the same as if the agent ran in a worker process.
"""

import asyncio
import contextlib
import inspect
import math
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from evalgate.agents.host.channel import encode_line
from evalgate.agents.host.conversations import SessionManager
from evalgate.agents.host.errors import AgentCreationError, UnusableEntryError, describe_fatal
from evalgate.agents.host.frameworks import HostedAgent, load_hosted_agent
from evalgate.agents.host.threads import DaemonThreadPool, mark_host_process
from evalgate.agents.workers.agent_thread import AgentThread, is_gate_loop_running
from evalgate.agents.workers.protocol import decode_message, parse_failure
from evalgate.agents.workers.session import GRACE_S, WorkerSession
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import AgentContext, AgentUnreachableError
from evalgate.core.types import EvalCase, Failure, JsonObject
from evalgate.system.loop_timer import TimeLimits

_TOLERANCE_S = 0.05
"""Seconds that a turn in the caller's loop may take beyond its time limit: timers are never exact."""


class _LoopWorker:
    """Host of conversations in one event loop: the caller's loop, or the loop of a separate thread.

    A separate thread that hangs is abandoned. Call all methods except `send` in the gate's event loop.
    """

    def __init__(
        self,
        hosted: HostedAgent,
        thread: AgentThread | None,
        *,
        threads: int,
        timeout: float,
        on_change: Callable[[], None],
    ) -> None:
        """Create the host and its thread pool, without starting a thread.

        Args:
            hosted: The agent, adapted for the host: the function that runs a turn, and its properties.
            thread: The thread with the agent's own loop; None: the agent runs in the caller's loop.
            threads: Largest number of threads for an agent that is not asynchronous.
            timeout: Seconds that one turn may take.
            on_change: Function that is called when a session ends, and when a hanging thread is abandoned.
        """
        self.sessions: dict[str, WorkerSession] = {}
        self.features = frozenset(hosted.features)
        self.turn_limits = TimeLimits(WorkerSession.cancel_expired_turn)
        self._cancel_limits = TimeLimits[WorkerSession](lambda _: self._abandon_thread())
        self.thread = thread
        self.abandoned = 0
        """Number of turns that could not be ended and may still run."""
        self.is_blocked = False
        """True once the thread was abandoned, because its loop hangs."""
        self._timeout_s = timeout
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._pool = DaemonThreadPool(threads)
        self._manager = SessionManager(thread.loop if thread else self._loop, hosted, self, self._pool)
        if thread is not None:
            thread.on_exit = self._manager.handle_exit
        # A synchronous turn runs in a thread of the pool and cannot block the caller's loop: if its end is
        # noticed late, other code is to blame.
        self._checks_duration = thread is None and hosted.asynchronous
        self._began: dict[str, float] = {}
        """Start of each session's last turn in monotonic seconds, by session key.

        Empty if durations are not checked.
        """

    async def close(self) -> None:
        """End the agent's thread and the threads of its turns; abandon threads that hang."""
        self.sessions.clear()
        self.turn_limits.remove_all()
        self._cancel_limits.remove_all()
        self._pool.close()
        if self.thread is not None and not self.is_blocked:
            await self.thread.stop()

    # --- called by the host with the messages of the agent, as a `Sender` -----------------------------------

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message from the agent, for the session that the message names. Any thread may call this.

        Messages are delivered in the order of the calls.

        Raises:
            MessageTooLargeError: the message is longer than 16 MiB as a line of JSON.
            TypeError, ValueError, RecursionError: the message has a value that JSON cannot hold.
        """
        # Encoded although both ends are here: the reply must not change when the agent changes its objects
        # later, and a value that JSON cannot hold must fail as it does in a worker.
        line = encode_line(message)
        if threading.get_ident() == self._thread_id:
            self._loop.call_soon(self._deliver, line, self._checks_duration and self._is_late(message))
        else:
            with contextlib.suppress(RuntimeError):  # the gate has ended: the turn was left behind
                self._loop.call_soon_threadsafe(self._deliver, line, False)

    def _is_late(self, message: dict[str, Any]) -> bool:
        """Return True if the message ends a turn that took longer than its time limit."""
        took_s = time.monotonic() - self._began.get(message["session"], math.inf)
        return message["type"] in ("done", "error") and took_s > self._timeout_s + _TOLERANCE_S

    def _deliver(self, line: bytes, is_late: bool) -> None:
        message = decode_message(line)
        session = self.sessions.get(str(message.get("session")))
        if session is None:
            return
        if is_late:
            session.fail_late_turn()
        else:
            session.handle_message(str(message.get("type")), message, len(line))

    # --- called by its sessions with messages to the agent --------------------------------------------------

    def write_message(self, message: JsonObject) -> None:
        """Pass a session's message to the agent, as a copy: the agent cannot change the case for later runs.

        Raises:
            MessageTooLargeError: the message is longer than 16 MiB as a line of JSON.
            TypeError, ValueError, RecursionError: the case has a value that JSON cannot hold.
            WorkerProtocolError: the case has a value that nests too deep.
        """
        copied = dict(decode_message(encode_line(dict(message))))
        if self.thread is not None:
            self.thread.call_soon(self._manager.handle_message, copied)
            return
        if self._checks_duration and copied["type"] == "turn":
            self._note_turn(str(copied["session"]))
        self._manager.handle_message(copied)

    def _note_turn(self, key: str) -> None:
        self._began[key] = time.monotonic()
        busy = [each for each in self.sessions.values() if each.busy]
        for each in busy:
            each.concurrent = len(busy) > 1

    def cancel_turn(self, session: WorkerSession) -> None:
        """Cancel the turn in progress.

        If the agent has its own thread and does not answer within 1 s, abandon the thread.
        """
        session.begin_cancel(concurrent=sum(each.busy for each in self.sessions.values()) > 1)
        self.write_message({"type": "cancel", "session": session.key})
        if self.thread is not None:
            self._cancel_limits.set_limit(session, GRACE_S)

    def on_cancelled(self, session: WorkerSession, *, still_running: bool) -> None:
        """Stop waiting for the answer to a `cancel` message, because the agent's loop has answered.

        `still_running` is True if the turn's code, such as a function in a thread, could not be ended. Such
        a turn is counted as abandoned.
        """
        self._cancel_limits.remove_limit(session)
        self.abandoned += still_running

    def release_session(self, session: WorkerSession) -> None:
        """Remove a session that is over, and call `on_change`."""
        self.sessions.pop(session.key, None)
        self._began.pop(session.key, None)
        self._on_change()

    def note_dropped_spans(self, count: int) -> None:
        """Ignore the count of dropped spans, since spans are captured in worker processes only."""

    # --- a blocked loop -------------------------------------------------------------------------------------

    def _abandon_thread(self) -> None:
        """Abandon the blocked thread, and end every session in it with an error.

        If exactly one session is busy, this session blocked the thread and fails with a timeout. All other
        sessions are lost: the runner starts their cases again, each alone. If several sessions are busy, any
        of these may have blocked the thread, so all sessions are lost.
        """
        self.is_blocked = True
        self.turn_limits.remove_all()
        self._cancel_limits.remove_all()
        self._pool.close()
        sessions = list(self.sessions.values())
        self.sessions.clear()
        busy = [session for session in sessions if session.busy]
        self.abandoned += len(busy) == 1
        sentence = f"the agent blocked its event loop ({len(busy)} conversations at once in that loop)"
        for session in sessions:
            if busy == [session]:
                session.fail_turn(session.build_timeout_error(ended=False))
            else:
                session.fail_turn(session.build_lost_error(Failure("timeout", sentence), "timed_out"))
        if self.thread is not None:
            self.thread.abandon()
        self._on_change()


@frozen
class InProcessOptions:
    """Options of an agent that the library's caller passes as an object."""

    agent: object

    def build(self, context: AgentContext) -> "InProcessAgent":
        """Build the agent without starting it."""
        return InProcessAgent(self.agent, timeout=context.timeout, threads=context.concurrency)


class InProcessAgent:
    """`Agent` that runs its turns in this process.

    Asynchronous turns run in an event loop. If the caller awaits the evaluation, this is the caller's loop.
    If the caller calls a blocking function of the library, it is the loop of a separate thread. Synchronous
    turns always run in threads of a pool.
    """

    def __init__(self, agent: object, *, timeout: float, threads: int) -> None:
        """Store the options; the agent is inspected when it starts.

        Args:
            agent: A function, an agent of a supported framework, an object with a method such as `invoke`,
                or a class or function that creates an agent.
            timeout: Seconds that one turn may take.
            threads: Largest number of threads for an agent that is not asynchronous.
        """
        self._agent = agent
        self._timeout_s = timeout
        self._threads = threads
        self._hosted: HostedAgent | None = None
        self._worker: _LoopWorker | None = None
        self._workers: list[_LoopWorker] = []
        """All workers, in order of creation. A new worker replaces one with an abandoned thread."""
        self._failure: Failure | None = None
        """Error that the function or class raised instead of creating the agent; None without an error."""
        self._changed = asyncio.Event()
        self._is_reserved = False

    async def __aenter__(self) -> Self:
        """Create the agent if necessary, and choose the function that runs the agent's turns.

        If the class or function that creates the agent raises, `open_session` reports the error.

        Raises:
            InvalidInputError: the object is not an agent, or it stores conversations and cannot be copied.
        """
        mark_host_process()
        try:
            hosted = await self._load_agent()
        except UnusableEntryError as error:
            raise InvalidInputError(f"agent: {error}") from None
        except AgentCreationError as error:
            message = describe_fatal(error, describe_object(self._agent))
            self._failure = parse_failure(message, kind="start")
            return self
        # Captures patch HTTP clients and tracers for the whole process, which is the user's here.
        self._hosted = hosted._replace(capture=False)
        return self

    async def __aexit__(self, *exc: object) -> None:
        for worker in self._workers:
            await worker.close()

    async def _load_agent(self) -> HostedAgent:
        name = describe_object(self._agent)
        loop = asyncio.new_event_loop()
        try:
            if inspect.iscoroutinefunction(self._agent):
                # If this is a factory, `load_hosted_agent` runs `loop`, and this thread runs a loop already.
                pool = DaemonThreadPool(1)
                found: HostedAgent = await pool.run_in_thread(
                    lambda: load_hosted_agent(self._agent, name, loop)
                )
                pool.close()
                return found
            return load_hosted_agent(self._agent, name, loop)
        finally:
            loop.close()

    @asynccontextmanager
    async def open_session(self, case: EvalCase, run: int, *, alone: bool) -> AsyncIterator[WorkerSession]:
        """Open a conversation.

        The agent sees the session id of the case, or a UUID if the case has none. The call waits while
        another conversation with the same id is open: an agent that keeps its memory by the id would mix the
        two conversations. With `alone`, the call waits until no conversation is open, and no other
        conversation begins before this one ends.

        Raises:
            AgentUnreachableError: the agent was not started, or could not be created.
        """
        del run
        if self._hosted is None:
            raise AgentUnreachableError(self._failure or Failure("start", "the agent was not started"))
        given = case.session.session_id
        worker = self._choose_worker(self._hosted)
        while self._is_reserved or (alone and worker.sessions) or given in worker.sessions:
            self._changed.clear()
            await self._changed.wait()
            worker = self._choose_worker(self._hosted)
        self._is_reserved = alone
        key = given or str(uuid.uuid4())
        session = worker.sessions[key] = WorkerSession(worker, key, case, self._timeout_s)
        try:
            yield session
        finally:
            session.close()
            self._is_reserved = self._is_reserved and not alone
            self._changed.set()

    def _choose_worker(self, hosted: HostedAgent) -> _LoopWorker:
        """Return the current worker; create a new one at the first call, or if the current worker hangs."""
        if self._worker is None or self._worker.is_blocked:
            self._worker = _LoopWorker(
                hosted,
                AgentThread() if is_gate_loop_running() else None,
                threads=self._threads,
                timeout=self._timeout_s,
                on_change=self._changed.set,
            )
            self._workers.append(self._worker)
        return self._worker

    @property
    def notices(self) -> tuple[str, ...]:
        """Return a notice if turns that took too long may still run; else ()."""
        abandoned = sum(worker.abandoned for worker in self._workers)
        if not abandoned:
            return ()
        turns = pluralize(abandoned, "turn")
        sentence = (
            f"{turns} of the agent took too long and may still run: only an agent in a process of its own "
            '(`agent="python:FILE.py:NAME"`) can be ended.'
        )
        return (sentence,)


def describe_object(agent: object) -> str:
    """Return the name under which reports show an object: `module.qualified_name`.

    For an object without a qualified name, return the module and name of its class.
    """
    named = agent if hasattr(agent, "__qualname__") else type(agent)
    return f"{named.__module__}.{named.__qualname__}"

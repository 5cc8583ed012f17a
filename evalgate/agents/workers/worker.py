"""One worker: its handshake, the sessions in it, and who is to blame when it stalls or dies."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from evalgate.agents.workers import wire
from evalgate.agents.workers.process import AgentProcess, Launch, Listener, why_not_started
from evalgate.agents.workers.session import State, WorkerSession
from evalgate.agents.workers.wire import (
    MAX_ANSWER_BYTES,
    NotTheProtocol,
    decode,
    encode,
    quote,
    session_of_large,
)
from evalgate.core.protocols import AgentUnreachable
from evalgate.core.types import WRONG_ENTRY, EvalCase, Failure, JsonObject
from evalgate.system.loop_timer import PatientTimer

PROTOCOL = 1
GRACE_S = 1.0
"""How long a worker may take to answer a cancel before it counts as stalled."""

_OF_SESSIONS = frozenset(
    {"tool_call", "tool_result", "message", "usage", "captured", "done", "error", "cancelled"}
)
_MAX_KEY_DIGITS = 12


class Worker:
    """A process that hosts the agent.

    `changed` is called whenever a place in it becomes free, and when it is gone.
    """

    def __init__(
        self,
        changed: Callable[[], None],
        process_of: Callable[[Listener], AgentProcess] = AgentProcess,
        note_dropped_spans: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.note_dropped_spans = note_dropped_spans
        """Count spans that a turn could not send."""
        self.sessions: dict[str, WorkerSession] = {}
        self.reserved = False
        """Whether it belongs to one session that wants it alone."""
        self.retiring = False
        """Whether no new session may enter: something in it cannot be stopped."""
        self.features: frozenset[str] = frozenset()
        """What of the protocol it said that it can do."""
        self.gone = False
        """Whether it has ended or must be ended."""
        self.process = process_of(self)
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Fails with AgentUnreachable when the worker cannot start."""
        self.ready.add_done_callback(_retrieve)
        self._changed = changed
        self._issued = 0
        self._unanswered: dict[WorkerSession, float] = {}
        self._grace: PatientTimer | None = None

    async def start(self, launch: Launch, timeout_s: float) -> None:
        """Start the process and say hello. Whether that succeeds is told by `ready`."""
        timer = self._loop.call_later(timeout_s, self._slow_start, timeout_s)
        self.ready.add_done_callback(lambda _: timer.cancel())
        try:
            await self.process.start(launch)
        except AgentUnreachable as error:
            self._collapse(error.failure)
        except (OSError, ValueError) as error:
            kind = WRONG_ENTRY if isinstance(error, FileNotFoundError) else "start"
            self._collapse(Failure(kind, f"cannot start the agent: {why_not_started(error, launch)}"))
        else:
            self.send({"type": "hello", "protocol": PROTOCOL, "features": ["tool_mocks"]})

    def open(self, case: EvalCase, timeout_s: float) -> WorkerSession:
        """A place for a conversation."""
        self._issued += 1
        session = WorkerSession(self, str(self._issued), case, timeout_s)
        self.sessions[session.key] = session
        return session

    # --- what its sessions do -------------------------------------------------------------------------------

    def send(self, message: JsonObject) -> None:
        """Send a message."""
        self.process.write(encode(message))

    def cancel(self, session: WorkerSession) -> None:
        """Send a cancel and watch that it is answered within the grace period."""
        session.crowded = sum(each.busy for each in self.sessions.values()) > 1
        session.state = State.CANCELLING
        session.cancelled_at = self._unanswered[session] = time.monotonic()
        self.send({"type": "cancel", "session": session.key})
        if self._grace is None:
            self._grace = PatientTimer(GRACE_S, self._check_stall)

    def cancelled(self, session: WorkerSession, *, still_running: bool) -> None:
        """The cancel was answered. What goes on all the same ends with the process, after its neighbours."""
        self._unanswered.pop(session, None)
        if still_running:
            self.retiring = True

    def release(self, session: WorkerSession) -> None:
        """The session is over."""
        self.sessions.pop(session.key, None)
        if not self.sessions:
            self.reserved = False
            if self.retiring:
                self.end()
        self._changed()

    def end(self) -> None:
        """Kill the process and everything that it started."""
        self.gone = True
        self.process.kill()

    # --- what its process does ------------------------------------------------------------------------------

    def line_received(self, line: bytes) -> None:
        """See `process.Listener`."""
        if self.gone:
            return
        if len(line) > MAX_ANSWER_BYTES and (session := self._named_by(line)) is not None:
            session.overflow()
            return
        try:
            self._receive(decode(line), len(line))
        except NotTheProtocol as error:
            self.broke_protocol(error)

    def broke_protocol(self, error: NotTheProtocol) -> None:
        """See `process.Listener`."""
        self._collapse(replace(error.failure, detail=self.process.stderr_tail()))

    def process_ended(self) -> None:
        """See `process.Listener`."""
        failure = self.process.exit_failure
        when = " while it answered" if self.ready.done() else " before it was ready"
        self._collapse(replace(failure, message=failure.message + when))

    def _receive(self, message: dict[str, object], size: int) -> None:
        kind = message.get("type")
        if not isinstance(kind, str):
            raise NotTheProtocol("the agent sent a message without a type")
        if kind in _OF_SESSIONS and self.ready.done():
            session = self._session_of(message, kind)
            if session is not None:
                session.receive(kind, message, size)
        elif kind == "ready" and not self.ready.done():
            self._greeted(message)
        elif kind == "fatal" and not self.ready.done():
            self._collapse(self._with_stderr(wire.failure(message, kind="start")))
        else:
            raise NotTheProtocol(f"the agent sent a message of type {quote(kind)} that has no place there")

    def _greeted(self, message: JsonObject) -> None:
        spoken = message.get("protocol")
        if spoken != PROTOCOL or isinstance(spoken, bool):
            raise NotTheProtocol(
                f"the agent speaks protocol {quote(str(spoken))}; this evalgate speaks {PROTOCOL}"
            )
        features = message.get("features")
        if isinstance(features, list):
            self.features = frozenset(each for each in features if isinstance(each, str))
        self.ready.set_result(None)

    def _session_of(self, message: JsonObject, kind: str) -> WorkerSession | None:
        """The session that a message names; None when it is over.

        Raises:
            NotTheProtocol: there was never such a session.
        """
        key = message.get("session")
        if not isinstance(key, str):
            raise NotTheProtocol(f"the agent sent a {kind} without a session")
        session = self.sessions.get(key)
        if session is None and not self._was_issued(key):
            raise NotTheProtocol(f"the agent sent a {kind} for a session that does not exist: {quote(key)}")
        return session

    def _named_by(self, line: bytes) -> WorkerSession | None:
        """Return the session that a line is of which is too large to be read at all; None if unknown."""
        key = session_of_large(line)
        return None if key is None else self.sessions.get(key)

    def _was_issued(self, key: str) -> bool:
        digits = key.isascii() and key.isdecimal() and len(key) <= _MAX_KEY_DIGITS
        return digits and 1 <= int(key) <= self._issued

    # --- the end --------------------------------------------------------------------------------------------

    def _slow_start(self, timeout_s: float) -> None:
        failure = Failure("start", f"the agent did not start within {timeout_s:g} s")
        self._collapse(self._with_stderr(failure))

    def _check_stall(self) -> None:
        self._grace = None
        if self.gone or not self._unanswered:
            return
        wait = min(self._unanswered.values()) + GRACE_S - time.monotonic()
        if wait > 0:
            self._grace = PatientTimer(wait, self._check_stall)
            return
        sentence = "the agent's process stopped reacting while it answered"
        self._collapse(Failure("timeout", sentence, self.process.stderr_tail()), stalled=True)

    def _collapse(self, failure: Failure, *, stalled: bool = False) -> None:
        """End the process and settle every session in it.

        A single session at work is to blame. Of several, each is lost and shows alone whose fault it was.
        """
        if self.gone:
            return
        self.end()
        if self._grace is not None:
            self._grace.cancel()
        if not self.ready.done():
            self.ready.set_exception(AgentUnreachable(failure))
        sessions = list(self.sessions.values())
        self.sessions.clear()
        busy = [session for session in sessions if session.busy]
        for session in sessions:
            if busy == [session]:
                _blame(session, failure, stalled=stalled)
            else:
                _lose(session, failure, len(busy), stalled=stalled)
        self._changed()

    def _with_stderr(self, failure: Failure) -> Failure:
        return replace(failure, detail=failure.detail or self.process.stderr_tail())


def _blame(session: WorkerSession, failure: Failure, *, stalled: bool) -> None:
    if stalled or session.expired:
        error = session.timed_out(ended=True)
        error.failure = replace(error.failure, detail=failure.detail)
    else:
        error = session.crashed(replace(failure, message=f"{failure.message} (turn {session.turns})"))
    session.fail(error)


def _lose(session: WorkerSession, failure: Failure, crowd: int, *, stalled: bool) -> None:
    shared = replace(failure, message=f"{failure.message} ({crowd} cases at once in that process)")
    session.fail(session.lost(shared, "timed_out" if stalled else "crashed"))


def _retrieve(ready: asyncio.Future[None]) -> None:
    # A worker that fails when nobody waits for it is nobody's error.
    if not ready.cancelled():
        ready.exception()

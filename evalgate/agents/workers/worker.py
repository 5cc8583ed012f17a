"""One worker: its handshake, its sessions, and the session to blame if the worker stalls or dies."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from evalgate.agents.workers import protocol
from evalgate.agents.workers.process import AgentProcess, LaunchSpec, ProcessListener, describe_start_error
from evalgate.agents.workers.protocol import (
    MAX_ANSWER_BYTES,
    WorkerProtocolError,
    decode_message,
    encode_message,
    peek_session_key,
    quote_text,
)
from evalgate.agents.workers.session import GRACE_S, WorkerSession
from evalgate.core.protocols import AgentUnreachableError
from evalgate.core.types import ENTRY_NOT_FOUND, EvalCase, Failure, JsonObject
from evalgate.system.loop_timer import TimeLimits

if TYPE_CHECKING:
    from evalgate.agents.workers.opened_files import OpenedFiles

PROTOCOL_VERSION = 1
"""Version of the worker protocol. `agents/host/conversations.py` has a copy, because the host imports nothing
of evalgate."""

_SESSION_MESSAGES = frozenset(
    {"tool_call", "tool_result", "message", "usage", "captured", "span", "done", "error", "cancelled"}
)
_MAX_KEY_DIGITS = 12


class Worker:
    """Process that hosts the agent, with the sessions in it.

    The function `on_change` is called when a session of the worker ends, and when the worker is shut down.
    """

    def __init__(
        self,
        on_change: Callable[[], None],
        process_factory: Callable[[ProcessListener], AgentProcess] = AgentProcess,
        note_dropped_spans: Callable[[int], None] = lambda _: None,
        files: "OpenedFiles | None" = None,
    ) -> None:
        self.note_dropped_spans = note_dropped_spans
        """Callback that receives the number of spans that a turn dropped."""
        self._files = files
        self._own_files: set[str] = set()
        """Files that the process has opened so far."""
        self._is_incomplete = False
        self.sessions: dict[str, WorkerSession] = {}
        self.reserved = False
        """True if the worker is reserved for one session, which must run alone."""
        self.retiring = False
        """True if the worker takes no new session, because a cancelled turn in it is still running."""
        self.features: frozenset[str] = frozenset()
        """Optional parts of the protocol that the worker announced."""
        self.gone = False
        """True if the process has ended or was killed."""
        self.process = process_factory(self)
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Done when the worker is ready; fails with AgentUnreachableError if it cannot start."""
        # asyncio logs exceptions that are never retrieved, and perhaps no session waits for this worker.
        self.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self._on_change = on_change
        self._issued = 0
        self.turn_limits = TimeLimits(WorkerSession.cancel_expired_turn)
        self._cancel_limits = TimeLimits[WorkerSession](lambda _: self._on_stall())

    async def start(self, launch: LaunchSpec, timeout_s: float) -> None:
        """Start the process and send the hello message.

        The future `ready` is done once the worker is ready; it raises an error if the worker cannot start.
        A worker that is not ready `timeout_s` seconds after this call is shut down.
        """
        timer = self._loop.call_later(timeout_s, self._fail_slow_start, timeout_s)
        self.ready.add_done_callback(lambda _: timer.cancel())
        try:
            await self.process.start(launch)
        except AgentUnreachableError as error:
            self._shut_down(error.failure)
        except (OSError, ValueError) as error:
            kind = ENTRY_NOT_FOUND if isinstance(error, FileNotFoundError) else "start"
            self._shut_down(Failure(kind, f"cannot start the agent: {describe_start_error(error, launch)}"))
        else:
            features = ["tool_mocks", "tool_recordings"]
            self.write_message({"type": "hello", "protocol": PROTOCOL_VERSION, "features": features})

    def open_session(self, case: EvalCase, timeout_s: float) -> WorkerSession:
        """Return a new session in this worker; each of its turns may take `timeout_s` seconds."""
        self._issued += 1
        session = WorkerSession(self, str(self._issued), case, timeout_s)
        self.sessions[session.key] = session
        return session

    # --- called by its sessions -----------------------------------------------------------------------------

    def write_message(self, message: JsonObject) -> None:
        """Send a message to the process."""
        self.process.write(encode_message(message))

    def cancel_turn(self, session: WorkerSession) -> None:
        """Send a `cancel` message; without an answer within 1 s (`GRACE_S`), the worker is shut down."""
        session.begin_cancel(concurrent=sum(each.busy for each in self.sessions.values()) > 1)
        self.write_message({"type": "cancel", "session": session.key})
        self._cancel_limits.set_limit(session, GRACE_S)

    def on_cancelled(self, session: WorkerSession, *, still_running: bool) -> None:
        """Stop waiting for the answer to a `cancel`. If the turn still runs, accept no new sessions."""
        self._cancel_limits.remove_limit(session)
        if still_running:
            self.retiring = True

    def release_session(self, session: WorkerSession) -> None:
        """Remove a session that is over.

        A worker that takes no new sessions (`retiring`) is killed after its last session.
        """
        self.sessions.pop(session.key, None)
        if self._files is not None:
            # All files that the process opened so far count: it may use them again without opening them.
            is_complete = session.ended_normally and not self._is_incomplete
            self._files.add_session(session.eval_set_id, self._own_files if is_complete else None)
        if not self.sessions:
            self.reserved = False
            if self.retiring:
                self.kill_process()
        self._on_change()

    def kill_process(self) -> None:
        """Kill the process and everything that it started."""
        self.gone = True
        self.process.kill()

    # --- called by its process ------------------------------------------------------------------------------

    def on_line(self, line: bytes) -> None:
        """Decode a line of stdout, and pass the message to its session or apply it to the worker.

        A line that is not a known message shuts the worker down. A line of more than 16 MiB fails only the
        session with the key in the line.
        """
        if self.gone:  # lines that were in the pipe when the worker was given up
            return
        if len(line) > MAX_ANSWER_BYTES:
            session = self.sessions.get(peek_session_key(line) or "")
            if session is not None:
                session.fail_oversized_turn()
                return
        try:
            message = decode_message(line)
            kind = message.get("type")
            if isinstance(kind, str) and kind in _SESSION_MESSAGES and self.ready.done():
                key = message.get("session")
                session = self.sessions.get(key) if isinstance(key, str) else None
                if session is not None:
                    session.handle_message(kind, message, len(line))
                else:
                    self._check_session_key(key, kind)
            else:
                self._handle_worker_message(kind, message)
        except WorkerProtocolError as error:
            self.on_protocol_error(error)

    def on_protocol_error(self, error: WorkerProtocolError) -> None:
        """Shut the worker down after it broke the protocol."""
        self._shut_down(replace(error.failure, detail=self.process.get_stderr_tail()))

    def on_process_ended(self) -> None:
        """Shut the worker down, with its sessions, because its process ended."""
        failure = self.process.exit_failure
        if not self.ready.done():
            failure = replace(failure, message=f"{failure.message} before it was ready")
            self._shut_down(failure.quote_last_output())
            return
        is_asked = any(session.busy for session in self.sessions.values())
        when = " while it answered" if is_asked else " between two turns"
        self._shut_down(replace(failure, message=failure.message + when))

    def _handle_worker_message(self, kind: object, message: dict[str, object]) -> None:
        """Apply a message that belongs to no session: `files`, `ready` or `fatal`.

        Raises:
            WorkerProtocolError: the message is not valid, or not allowed at this time.
        """
        if not isinstance(kind, str):
            raise WorkerProtocolError("the agent sent a message without a type")
        if kind == "files" and self._files is not None:
            from evalgate.agents.workers.opened_files import parse_opened_files

            self._own_files |= parse_opened_files(message)
            self._is_incomplete |= message.get("incomplete") is not False
        elif kind == "ready" and not self.ready.done():
            self._accept_ready(message)
        elif kind == "fatal" and not self.ready.done():
            self._shut_down(self._add_stderr(protocol.parse_failure(message, kind="start")))
        else:
            raise WorkerProtocolError(
                f"the agent sent a message of type {quote_text(kind)} that has no place there"
            )

    def _accept_ready(self, message: JsonObject) -> None:
        version = message.get("protocol")
        # JSON's true equals 1 in Python.
        if version != PROTOCOL_VERSION or isinstance(version, bool):
            raise WorkerProtocolError(
                f"the agent speaks protocol {quote_text(str(version))}; this evalgate speaks "
                f"{PROTOCOL_VERSION}"
            )
        features = message.get("features")
        if isinstance(features, list):
            self.features = frozenset(each for each in features if isinstance(each, str))
        self.ready.set_result(None)

    def _check_session_key(self, key: object, kind: str) -> None:
        """Check the session key of a message that belongs to no open session.

        Messages of a session that is over are ignored.

        Raises:
            WorkerProtocolError: the message names no session, or a session that never existed.
        """
        if not isinstance(key, str):
            raise WorkerProtocolError(f"the agent sent a {kind} without a session")
        # The digits are counted first: Python refuses to convert a text of more than 4,300 digits.
        is_number = key.isascii() and key.isdecimal() and len(key) <= _MAX_KEY_DIGITS
        if not is_number or not 1 <= int(key) <= self._issued:
            raise WorkerProtocolError(
                f"the agent sent a {kind} for a session that does not exist: {quote_text(key)}"
            )

    # --- the end --------------------------------------------------------------------------------------------

    def _fail_slow_start(self, timeout_s: float) -> None:
        failure = Failure("start", f"the agent did not start within {timeout_s:g} s")
        self._shut_down(self._add_stderr(failure))

    def _on_stall(self) -> None:
        sentence = "the agent's process stopped reacting while it answered"
        self._shut_down(Failure("timeout", sentence, self.process.get_stderr_tail()), stalled=True)

    def _shut_down(self, failure: Failure, *, stalled: bool = False) -> None:
        """End the process and every session in it.

        If exactly one session is busy, this session counts as the cause and fails. All other sessions are
        lost: their cases start again, each alone in a worker. If such a case ends its worker again, its
        session is the only busy one and therefore fails. `stalled` is True if the process stopped reacting.
        Then the sessions count as timed out, not as crashed.
        """
        if self.gone:
            return
        self.kill_process()
        self._cancel_limits.remove_all()
        self.turn_limits.remove_all()
        if not self.ready.done():
            self.ready.set_exception(AgentUnreachableError(failure))
        sessions = list(self.sessions.values())
        self.sessions.clear()
        if self._files is not None:
            for session in sessions:
                self._files.add_session(session.eval_set_id, None)
        busy = [session for session in sessions if session.busy]
        for session in sessions:
            if busy == [session]:
                _fail_session(session, failure, stalled=stalled)
            else:
                shared = f" ({len(busy)} cases at once in that process)" if busy else ""
                lost = replace(failure, message=f"{failure.message}{shared}")
                session.fail_turn(session.build_lost_error(lost, "timed_out" if stalled else "crashed"))
        self._on_change()

    def _add_stderr(self, failure: Failure) -> Failure:
        return replace(failure, detail=failure.detail or self.process.get_stderr_tail())


def _fail_session(session: WorkerSession, failure: Failure, *, stalled: bool) -> None:
    if stalled or session.expired:
        error = session.build_timeout_error(ended=True)
        error.failure = replace(error.failure, detail=failure.detail)
    else:
        error = session.build_crash_error(
            replace(failure, message=f"{failure.message} (turn {session.turns})")
        )
    session.fail_turn(error)

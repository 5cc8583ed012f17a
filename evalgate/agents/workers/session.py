"""One conversation with an agent in a worker."""

import asyncio
import time
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Protocol

from evalgate.agents.tracing.trace_context import current_turn, is_trace_wanted
from evalgate.agents.workers import protocol
from evalgate.agents.workers.protocol import MAX_ANSWER_BYTES, TOO_LARGE, InvalidMessageError, TurnCollector
from evalgate.core.protocols import AgentError, SessionLostError, SessionResult
from evalgate.core.types import (
    EvalCase,
    Event,
    Failure,
    JsonObject,
    Outcome,
    Reply,
    TraceSpan,
    Usage,
    UserMessage,
)
from evalgate.system.loop_timer import TimeLimits

GRACE_S = 1.0
"""Seconds that an agent may take to answer a cancel before its process or thread counts as blocked."""
STALL_S = 0.5
"""Seconds after which the answer to a cancel is late: the process was blocked, with all of its sessions."""


class SessionState(Enum):
    """State of a conversation in a worker."""

    IDLE = auto()
    RUNNING = auto()
    CANCELLING = auto()
    """A `cancel` message was sent and is not answered yet. Until the answer arrives, all messages except
    `span` are ignored, because they belong to the cancelled turn."""
    OVER = auto()


class SessionOwner(Protocol):
    """Interface to the worker that hosts a session."""

    features: frozenset[str]
    """Optional parts of the protocol that the worker announced."""
    turn_limits: "TimeLimits[WorkerSession]"
    """Time limits of the turns in progress. A turn that reaches its limit is cancelled."""

    def write_message(self, message: JsonObject) -> None:
        """Send a message to the worker's process."""
        ...

    def cancel_turn(self, session: "WorkerSession") -> None:
        """Send a `cancel` message for the session's turn; give up the worker if it does not answer."""
        ...

    def on_cancelled(self, session: "WorkerSession", *, still_running: bool) -> None:
        """Learn that the worker answered a `cancel`. With `still_running`, the turn could not be ended."""
        ...

    def release_session(self, session: "WorkerSession") -> None:
        """Remove a session, which is over, from the worker."""
        ...

    def note_dropped_spans(self, count: int) -> None:
        """Record that a turn dropped `count` spans."""
        ...


class WorkerSession:
    """`AgentSession` in a worker. The worker passes messages with the session's key to `handle_message`."""

    __slots__ = (
        "_answer",
        "_broken",
        "_case",
        "_collector",
        "_final_state",
        "_loop",
        "_owner",
        "_spans",
        "_started",
        "_timeout_s",
        "_usage",
        "cancelled_at",
        "concurrent",
        "expired",
        "key",
        "on_event",
        "session_id",
        "state",
        "turns",
        "user_id",
    )

    def __init__(self, owner: SessionOwner, key: str, case: EvalCase, timeout_s: float) -> None:
        self.key = key
        self.session_id = ""
        """Id of the conversation in the agent's framework; "" if the worker reports none."""
        self.user_id = ""
        self.state = SessionState.IDLE
        self.turns = 0
        """Number of turns so far."""
        self.expired = False
        """True if the turn in progress has exceeded its timeout."""
        self.cancelled_at = 0.0
        """Time in monotonic seconds at which the owner sent a cancel; 0.0 before."""
        self.on_event: Callable[[Event], None] | None = None
        """Function that is called with each event when it arrives, except final messages and captured events.

        None: no function is called.
        """
        self.concurrent = False
        """True if other sessions of the process were busy when the owner last counted them.

        The owner counts the busy sessions when it sends a cancel. For an agent in the gate's own process, the
        owner may also count them at the start of a turn.
        """
        self._owner = owner
        self._case = case
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._started = False
        self._collector: TurnCollector
        self._answer: asyncio.Future[Reply] | None = None
        """Reply that `run_turn` waits for; `_finish_turn` or `_fail_answer` sets it."""
        self._broken: AgentError | SessionLostError | None = None
        """Error that ended the conversation: each further turn raises it."""
        self._usage: Usage | None = None
        self._final_state: JsonObject | None = None
        self._spans = None
        """Timed steps of the turn in progress; None if no trace is recorded."""
        if is_trace_wanted.get():
            from evalgate.agents.workers.span_messages import ReportedSpans

            self._spans = ReportedSpans()

    @property
    def eval_set_id(self) -> str:
        """Return the id of the eval set of the case."""
        return self._case.eval_set_id

    @property
    def ended_normally(self) -> bool:
        """Return True if no turn failed or took too long."""
        return self._broken is None and not self.expired

    # --- called by the runner -------------------------------------------------------------------------------

    @property
    def applies_mocks(self) -> bool:
        """Return True if the worker announced that it can answer tool calls with the case's mocks."""
        return "tool_mocks" in self._owner.features

    @property
    def applies_recordings(self) -> bool:
        """Return True if the worker announced that it can answer tool calls from a recording."""
        return "tool_recordings" in self._owner.features

    async def run_turn(self, message: UserMessage) -> Reply:
        """Send a message and return the reply; cancel the turn if it times out or the caller is cancelled.

        Raises:
            AgentError: the turn failed, or an earlier turn ended the conversation.
            SessionLostError: the turn failed, perhaps because of another session; the case must be started
                again.
        """
        if self._broken is not None:
            raise self._broken
        self._send_turn(message)
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self._answer = answer
        self._owner.turn_limits.set_limit(self, self._timeout_s)
        try:
            return await answer
        finally:
            self._owner.turn_limits.remove_limit(self)
            # The caller was cancelled before the answer came.
            if self.state is SessionState.RUNNING:
                self._owner.cancel_turn(self)

    def take_spans(self) -> Sequence[TraceSpan]:
        """Return the timed steps of the last turn, and remove them from the session.

        Return () if no trace is recorded.
        """
        return () if self._spans is None else self._spans.take_spans()

    async def end(self) -> SessionResult:
        """Return the usage and the final state. The conversation stays open until `close` is called."""
        return self.interim_result

    @property
    def interim_result(self) -> SessionResult:
        """Return the usage of the turns so far, and the state after the last turn."""
        return SessionResult(self._usage, self._final_state)

    def close(self) -> None:
        """End the session if it is idle.

        If a turn is being cancelled, the session ends when the worker answers the `cancel` message.
        """
        if self.state is SessionState.IDLE:
            self._end_session()

    def _send_turn(self, message: UserMessage) -> None:
        if not self._started:
            self._started = True
            self._owner.write_message(self._build_start_message())
        turn: dict[str, object] = {"type": "turn", "session": self.key, "text": message.text}
        if message.attachments:
            turn["attachments"] = message.attachments
        if (trace := current_turn.get()) is not None:
            turn |= trace.headers
        self._collector = TurnCollector()
        if self._spans is not None:
            self._spans.begin_turn()
        self.turns += 1
        self.state = SessionState.RUNNING
        self._owner.write_message(turn)

    def _build_start_message(self) -> JsonObject:
        case, initial = self._case, self._case.session
        start: dict[str, object] = {
            "type": "start",
            "session": self.key,
            "case": case.eval_id,
            "app_name": initial.app_name,
            "user_id": initial.user_id,
            "state": initial.state,
        }
        if case.tool_mocks:
            start["tool_mocks"] = [protocol.encode_tool_mock(mock) for mock in case.tool_mocks]
        if case.tool_recording is not None:
            start["tool_recording"] = protocol.encode_tool_recording(case.tool_recording)
        if case.context_messages:
            start["context_messages"] = case.context_messages
        if self._spans is not None:
            start["trace"] = True
        return start

    # --- called by the worker -------------------------------------------------------------------------------

    def begin_cancel(self, *, concurrent: bool) -> None:
        """Record that a `cancel` is sent now. `concurrent` is True if other sessions are busy, too.

        If the worker answers the `cancel` late, the worker's process was blocked. With `concurrent`, the turn
        then fails with SessionLostError, as another session may have blocked the process.
        """
        self.concurrent = concurrent
        self.state = SessionState.CANCELLING
        self.cancelled_at = time.monotonic()

    def cancel_expired_turn(self) -> None:
        """Cancel the turn in progress because its time is over."""
        if self.state is SessionState.RUNNING:
            self.expired = True
            self._owner.cancel_turn(self)

    @property
    def busy(self) -> bool:
        """Return True while the agent works on a turn of this session, even if the turn was cancelled."""
        return self.state in (SessionState.RUNNING, SessionState.CANCELLING)

    def handle_message(self, kind: str, message: JsonObject, size: int) -> None:
        """Apply a message of the worker for this session; `size` is its length in bytes.

        The turn in progress fails if the message is not valid, or if the turn has sent more than 16 MiB.
        """
        if kind == "span":
            # A span outside of turns is ignored: no turn may fail because of its trace.
            if self.busy and self._spans is not None:
                self._spans.add_span(message, size)
        elif kind == "cancelled":
            self._finish_cancel(still_running=message.get("still_running") is True)
        elif self.state is SessionState.RUNNING:
            self._collector.size += size
            if self._collector.size > MAX_ANSWER_BYTES:
                self.fail_oversized_turn()
                return
            try:
                self._apply_message(kind, message)
            except InvalidMessageError as error:
                self._fail_answer(self._build_protocol_error(str(error)))
                self._owner.cancel_turn(self)
        elif self.state is SessionState.IDLE:
            # The last turn is already answered, perhaps by an earlier `done`: the next one fails instead.
            self._broken = self._build_protocol_error(f"the agent sent `{kind}` when no turn was in progress")

    def fail_late_turn(self) -> None:
        """Fail the turn in progress: a blocked event loop let it run for longer than its time limit.

        The error is an AgentError for a timeout. If other sessions were busy, one of them may have blocked
        the loop, and the error is a SessionLostError.
        """
        if self.state is not SessionState.RUNNING:
            return
        self.state = SessionState.IDLE
        error = self.build_timeout_error(ended=False)
        # Perhaps another session blocked the loop. The case runs again alone, which shows its own fault.
        self._fail_answer(self.build_lost_error(error.failure, "timed_out") if self.concurrent else error)

    def fail_oversized_turn(self) -> None:
        """Fail the turn in progress because its answer is too large; other sessions continue."""
        if self.state is SessionState.RUNNING:
            self._fail_answer(self.build_crash_error(Failure("flood", f"{TOO_LARGE} (turn {self.turns})")))
            self._owner.cancel_turn(self)

    def fail_turn(self, error: AgentError | SessionLostError) -> None:
        """End the session, as the worker is gone. The turn in progress, or else the next, raises `error`."""
        self.state = SessionState.OVER
        self._fail_answer(error)

    def build_timeout_error(self, *, ended: bool) -> AgentError:
        """Return the error of a turn that timed out.

        With `ended`, the message says that the agent's process was ended.
        """
        seconds = f"{self._timeout_s:g} s"
        sentence = f"no answer within {seconds} (turn {self.turns})"
        if ended:
            sentence += "; the agent's process did not react and was ended"
        return AgentError(Failure("timeout", sentence), "timed_out", self._usage)

    def build_crash_error(self, failure: Failure) -> AgentError:
        """Return the error of a turn that crashed, with the usage so far."""
        return AgentError(failure, "crashed", self._usage)

    def build_lost_error(self, failure: Failure, outcome: Outcome) -> SessionLostError:
        """Return an error for a failure that another session of the worker may have caused.

        The runner then starts the case again, alone in a worker.
        """
        return SessionLostError(failure, outcome, self._usage)

    def _apply_message(self, kind: str, message: JsonObject) -> None:
        if self._spans is not None:
            self._spans.note_event(kind, message)
        if kind == "tool_call":
            self._add_event(protocol.parse_tool_call(message))
        elif kind == "done":
            self._finish_turn(message)
        elif kind == "tool_result":
            self._add_event(protocol.parse_tool_result(message))
        elif kind == "message":
            self._collector.add_message(message)
            if self.on_event is not None and message.get("final") is not True:
                self.on_event(protocol.parse_message(message))
        elif kind == "usage":
            self._collector.has_usage = True
            self._usage = (self._usage or Usage()) + protocol.parse_usage(message)
        elif kind == "captured":
            self._add_captured(message)
        else:
            self._read_ids(message)
            self.state = SessionState.IDLE
            failure = protocol.parse_failure(message, kind="exception")
            outcome, retry_after_s = protocol.classify_failure(failure), protocol.read_retry_after(message)
            if message.get("again_alone") is True:
                self._fail_answer(self.build_lost_error(failure, outcome))
            else:
                self._fail_answer(AgentError(failure, outcome, self._usage, retry_after_s))

    def _add_event(self, event: Event) -> None:
        self._collector.events.append(event)
        if self.on_event is not None:
            self.on_event(event)

    def _add_captured(self, message: JsonObject) -> None:
        """Add captured spans, and captured events and usage that the agent did not report itself."""
        from evalgate.agents.workers.captured_calls import parse_captured

        captured = parse_captured(message)
        if self._spans is not None:
            self._spans.add_recorded_spans(captured.spans)
        self._collector.add_captured(captured.events)
        if captured.dropped_spans:
            self._owner.note_dropped_spans(captured.dropped_spans)
        if captured.usage is not None and not self._collector.has_usage:
            self._usage = (self._usage or Usage()) + captured.usage

    def _finish_turn(self, message: JsonObject) -> None:
        reply = self._collector.build_reply(message)
        self._final_state = protocol.parse_state(message)
        self._read_ids(message)
        self.state = SessionState.IDLE
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)

    def _read_ids(self, message: JsonObject) -> None:
        if "session_id" in message or "user_id" in message:
            self.session_id = protocol.read_id(message, "session_id") or self.session_id
            self.user_id = protocol.read_id(message, "user_id") or self.user_id

    def _finish_cancel(self, *, still_running: bool) -> None:
        if self.state is not SessionState.CANCELLING:
            return
        late = time.monotonic() - self.cancelled_at > STALL_S
        if self.expired:
            error = self.build_timeout_error(ended=False)
            if late and self.concurrent:
                # The process was blocked, perhaps by another session. The case runs again, alone.
                self._fail_answer(self.build_lost_error(error.failure, "timed_out"))
            else:
                self._fail_answer(error)
        self._owner.on_cancelled(self, still_running=still_running)
        self._end_session()

    def _end_session(self) -> None:
        self.state = SessionState.OVER
        if self._started:
            self._owner.write_message({"type": "end", "session": self.key})
        self._owner.release_session(self)

    def _build_protocol_error(self, sentence: str) -> AgentError:
        return self.build_crash_error(Failure("protocol", sentence))

    def _fail_answer(self, error: AgentError | SessionLostError) -> None:
        self._broken = error
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

"""One conversation with an agent in a worker."""

import asyncio
import time
from enum import Enum, auto
from typing import Protocol

from evalgate.agents.tracing.context import current_turn
from evalgate.agents.workers import wire
from evalgate.agents.workers.wire import MAX_ANSWER_BYTES, TOO_LARGE, InvalidMessageError, Transcript
from evalgate.core.protocols import AgentError, SessionLostError, SessionResult
from evalgate.core.types import EvalCase, Failure, JsonObject, Outcome, Reply, Usage, UserMessage
from evalgate.system.loop_timer import LoopTimer

STALL_S = 0.5
"""A worker that takes longer than this to confirm a cancel has kept all its sessions waiting."""


class SessionState(Enum):
    """Where a conversation stands."""

    IDLE = auto()
    ASKED = auto()
    CANCELLING = auto()
    """A cancel was sent and not yet answered: whatever else arrives belongs to a turn that nobody wants."""
    OVER = auto()


class SessionOwner(Protocol):
    """The worker that a session lives in."""

    features: frozenset[str]
    """What of the protocol it said that it can do."""

    def write_message(self, message: JsonObject) -> None:
        """Send a message."""
        ...

    def cancel_turn(self, session: "WorkerSession") -> None:
        """Send a cancel and watch that it is answered."""
        ...

    def on_cancelled(self, session: "WorkerSession", *, still_running: bool) -> None:
        """The cancel was answered."""
        ...

    def release_session(self, session: "WorkerSession") -> None:
        """The session is over."""
        ...

    def note_dropped_spans(self, count: int) -> None:
        """Count spans that a turn could not send."""
        ...


class WorkerSession:
    """See `evalgate.core.protocols.AgentSession`; besides, what the worker tells it."""

    __slots__ = (
        "_answer",
        "_broken",
        "_case",
        "_final_state",
        "_loop",
        "_owner",
        "_started",
        "_timeout_s",
        "_transcript",
        "_usage",
        "cancelled_at",
        "crowded",
        "expired",
        "key",
        "state",
        "turns",
    )

    def __init__(self, owner: SessionOwner, key: str, case: EvalCase, timeout_s: float) -> None:
        self.key = key
        self.state = SessionState.IDLE
        self.turns = 0
        """Turns asked so far."""
        self.expired = False
        """Whether the turn in progress has exceeded its timeout."""
        self.cancelled_at = 0.0
        self.crowded = False
        """Whether others were being answered in the same process when the cancel was sent."""
        self._owner = owner
        self._case = case
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._started = False
        self._transcript = Transcript()
        self._answer: asyncio.Future[Reply] | None = None
        self._broken: AgentError | SessionLostError | None = None
        self._usage: Usage | None = None
        self._final_state: JsonObject | None = None

    # --- for whoever holds the conversation -----------------------------------------------------------------

    @property
    def applies_mocks(self) -> bool:
        """See `SupportsToolMocks`."""
        return "tool_mocks" in self._owner.features

    async def run_turn(self, message: UserMessage) -> Reply:
        """See `AgentSession.run_turn`."""
        if self._broken is not None:
            raise self._broken
        self._send_turn(message)
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self._answer = answer
        timer = LoopTimer(self._timeout_s, self._cancel_expired_turn)
        try:
            return await answer
        finally:
            timer.cancel()
            if self.state is SessionState.ASKED:
                self._owner.cancel_turn(self)

    async def end(self) -> SessionResult:
        """See `AgentSession.end`."""
        return SessionResult(self._usage, self._final_state)

    def close(self) -> None:
        """Nobody asks any more. A session whose cancel is not answered yet is released when it is."""
        if self.state is SessionState.IDLE:
            self._end_session()

    def _send_turn(self, message: UserMessage) -> None:
        if not self._started:
            self._started = True
            self._owner.write_message(self._build_start_message())
        asked: dict[str, object] = {"type": "turn", "session": self.key, "text": message.text}
        if message.attachments:
            asked["attachments"] = message.attachments
        if (trace := current_turn.get()) is not None:
            asked |= trace.headers
        self._transcript = Transcript()
        self.turns += 1
        self.state = SessionState.ASKED
        self._owner.write_message(asked)

    def _build_start_message(self) -> JsonObject:
        case, given = self._case, self._case.session
        start: dict[str, object] = {
            "type": "start",
            "session": self.key,
            "case": case.eval_id,
            "app_name": given.app_name,
            "user_id": given.user_id,
            "state": given.state,
        }
        if case.tool_mocks:
            start["tool_mocks"] = [wire.encode_tool_mock(mock) for mock in case.tool_mocks]
        if case.context_messages:
            start["context_messages"] = case.context_messages
        return start

    def _cancel_expired_turn(self) -> None:
        if self.state is SessionState.ASKED:
            self.expired = True
            self._owner.cancel_turn(self)

    # --- for the worker -------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether the agent is at work for this session, wanted or not."""
        return self.state in (SessionState.ASKED, SessionState.CANCELLING)

    def handle_message(self, kind: str, message: JsonObject, size: int) -> None:
        """Take a message of `size` bytes that names this session."""
        if kind == "cancelled":
            self._finish_cancel(still_running=message.get("still_running") is True)
        elif self.state is SessionState.ASKED:
            self._accept_message(kind, message, size)
        elif self.state is SessionState.IDLE:
            self._broken = self._build_protocol_error(f"the agent sent `{kind}` when no turn was in progress")

    def fail_oversized_turn(self) -> None:
        """Fail the turn in progress, which is larger than any answer may be; its neighbours go on."""
        if self.state is SessionState.ASKED:
            self._settle_answer(self.build_crash_error(Failure("flood", f"{TOO_LARGE} (turn {self.turns})")))
            self._owner.cancel_turn(self)

    def fail_turn(self, error: AgentError | SessionLostError) -> None:
        """The turn in progress, or else the next one, has no reply: the worker is gone."""
        self.state = SessionState.OVER
        self._settle_answer(error)

    def build_timeout_error(self, *, ended: bool) -> AgentError:
        """The failure of a turn that took too long; `ended`: its process had to be ended."""
        seconds = f"{self._timeout_s:g} s"
        sentence = f"no answer within {seconds} (turn {self.turns})"
        if ended:
            sentence += "; the agent's process did not react and was ended"
        return AgentError(Failure("timeout", sentence), "timed_out", self._usage)

    def build_crash_error(self, failure: Failure) -> AgentError:
        """The failure of a turn whose process is gone."""
        return AgentError(failure, "crashed", self._usage)

    def build_lost_error(self, failure: Failure, outcome: Outcome) -> SessionLostError:
        """The loss of a session whose process ended with others in it."""
        return SessionLostError(failure, outcome, self._usage)

    def _accept_message(self, kind: str, message: JsonObject, size: int) -> None:
        self._transcript.size += size
        if self._transcript.size > MAX_ANSWER_BYTES:
            self.fail_oversized_turn()
            return
        try:
            self._apply_message(kind, message)
        except InvalidMessageError as error:
            self._settle_answer(self._build_protocol_error(str(error)))
            self._owner.cancel_turn(self)

    def _apply_message(self, kind: str, message: JsonObject) -> None:
        if kind == "done":
            self._finish_turn(message)
        elif kind == "tool_call":
            self._transcript.add_event(wire.parse_tool_call(message))
        elif kind == "tool_result":
            self._transcript.add_event(wire.parse_tool_result(message))
        elif kind == "message":
            self._transcript.add_message(message)
        elif kind == "usage":
            self._transcript.has_usage = True
            self._usage = (self._usage or Usage()) + wire.parse_usage(message)
        elif kind == "captured":
            self._add_captured(message)
        else:
            self.state = SessionState.IDLE
            failure = wire.parse_failure(message, kind="exception")
            wanted_s = wire.read_retry_after(message)
            if message.get("again_alone") is True:
                self._settle_answer(self.build_lost_error(failure, wire.classify_failure(failure)))
                return
            self._settle_answer(AgentError(failure, wire.classify_failure(failure), self._usage, wanted_s))

    def _add_captured(self, message: JsonObject) -> None:
        """Take what the worker saw of the agent, which comes last: what the agent says itself goes before."""
        from evalgate.agents.workers.captured import parse_captured

        captured = parse_captured(message)
        self._transcript.add_captured(captured.events)
        if captured.dropped_spans:
            self._owner.note_dropped_spans(captured.dropped_spans)
        if captured.usage is not None and not self._transcript.has_usage:
            self._usage = (self._usage or Usage()) + captured.usage

    def _finish_turn(self, message: JsonObject) -> None:
        reply = self._transcript.build_reply(message)
        self._final_state = wire.read_state(message)
        self.state = SessionState.IDLE
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)

    def _finish_cancel(self, *, still_running: bool) -> None:
        if self.state is not SessionState.CANCELLING:
            return
        late = time.monotonic() - self.cancelled_at > STALL_S
        if self.expired:
            error = self.build_timeout_error(ended=False)
            if late and self.crowded:
                # The process stood still, perhaps because of a neighbour: alone, it shows whose fault it was.
                self._settle_answer(self.build_lost_error(error.failure, "timed_out"))
            else:
                self._settle_answer(error)
        self._owner.on_cancelled(self, still_running=still_running)
        self._end_session()

    def _end_session(self) -> None:
        self.state = SessionState.OVER
        if self._started:
            self._owner.write_message({"type": "end", "session": self.key})
        self._owner.release_session(self)

    def _build_protocol_error(self, sentence: str) -> AgentError:
        return self.build_crash_error(Failure("protocol", sentence))

    def _settle_answer(self, error: AgentError | SessionLostError) -> None:
        self._broken = error
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

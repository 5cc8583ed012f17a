"""Sessions of one agent host, and the turns that run in them."""

from __future__ import annotations

import asyncio
import inspect
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from .answer_parser import AnswerCollector
from .capture.turns import SessionCapture, TurnCapture
from .channel import Sender
from .errors import MessageTooLargeError, build_error_fields
from .frameworks import HostedAgent
from .session import Recorder, Session
from .threads import DaemonThreadPool, end_if_forked
from .tools import current_session, mocked_sessions

if TYPE_CHECKING:
    from .opened_files import FileRecorder

PROTOCOL_VERSION = 1
CANCEL_WAIT_S = 0.25
"""Seconds that a cancelled task may take to end before the gate learns that it is still running."""
EXIT_WAIT_S = 1.0
"""Seconds that a turn may continue after one of its tasks called sys.exit."""

_Message = Dict[str, Any]


class _ActiveTurn:
    """Turn in progress, with the task that runs it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.in_thread = False
        self.task: asyncio.Task[None] | None = None
        self.capture: Optional[TurnCapture] = None
        self.cancelled = False
        self.concurrent = False
        """True once another turn, which may have cancelled `task`, was in progress at the same time."""
        self.exit: BaseException | None = None
        """SystemExit or KeyboardInterrupt that ended the turn. A task that the agent started raised it."""
        self.is_cancel_reported = False
        """True once `cancelled` was sent to the gate, after which no message of the turn may follow."""


class SessionManager:
    """Handler of the gate's messages: it opens sessions and runs turns in them.

    All methods must be called in the event loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        agent: HostedAgent,
        channel: Sender,
        threads: DaemonThreadPool,
        opened: FileRecorder | None = None,
    ) -> None:
        self._loop = loop
        self._agent = agent
        self._channel = channel
        self._threads = threads
        self._opened = opened
        self._sessions: dict[str, Session] = {}
        self._session_agents: dict[str, HostedAgent] = {}
        """Agents by session id; empty if all conversations share one agent."""
        self._turns: dict[str, _ActiveTurn] = {}
        self._captures: dict[str, SessionCapture] = {}
        self._handlers: dict[str, Callable[[_Message], None]] = {
            "hello": self._announce_host,
            "start": self._start_session,
            "turn": self._start_turn,
            "cancel": self._cancel_turn,
            "end": self._end_session,
        }

    def handle_message(self, message: _Message) -> None:
        """Dispatch one message of the gate by its type; ignore types that only later releases know."""
        handler = self._handlers.get(message.get("type", ""))
        if handler is not None:
            handler(message)

    def _announce_host(self, message: _Message) -> None:
        del message
        ready: _Message = {"type": "ready", "protocol": PROTOCOL_VERSION, "name": "python"}
        features = self._agent.features
        self._channel.send({**ready, "features": list(features)} if features else ready)

    def _start_session(self, message: _Message) -> None:
        session = Session(message, Recorder(message["session"], self._channel.send))
        self._sessions[session.id] = session
        if session.mocks:
            mocked_sessions.add(session)
        if message.get("trace") is True:
            from .trace import TraceRecorder

            session.trace = TraceRecorder(session.id, self._channel.send)
        if self._agent.capture or session.trace is not None:
            only_trace = not self._agent.capture
            self._captures[session.id] = SessionCapture(session.trace, only_trace)

    def _end_session(self, message: _Message) -> None:
        ended = self._sessions.pop(message["session"], None)
        if ended is not None:
            mocked_sessions.discard(ended)
        self._session_agents.pop(message["session"], None)
        self._captures.pop(message["session"], None)

    def _start_turn(self, message: _Message) -> None:
        session = self._sessions[message["session"]]
        session.attachments = message.get("attachments", [])
        session.recorder.begin_turn()
        session.mocks.begin_turn()
        if session.trace is not None:
            session.trace.begin_turn()
        turn = self._turns[session.id] = _ActiveTurn(session)
        if len(self._turns) > 1:
            turn.concurrent = True
        if len(self._turns) == 2:  # of three or more, all but the new one are marked already
            for each in self._turns.values():
                each.concurrent = True
        turn.task = self._loop.create_task(self._run_turn(turn, message["text"]))

    def _cancel_turn(self, message: _Message) -> None:
        turn = self._turns.get(message["session"])
        if turn is None or turn.task is None:
            # The turn ended while the cancel was on its way: every cancel is answered.
            self._channel.send({"type": "cancelled", "session": message["session"]})
            return
        turn.cancelled = True
        if turn.in_thread:
            # Python cannot stop a thread. The gate opens no more sessions in this process, and kills it after
            # the last one.
            self._report_cancelled(turn, still_running=True)
        else:
            # On a busy machine, this timer fires late, and perhaps before the done callback of a task that
            # ended in time. So the task itself is asked whether it still runs.
            task = turn.task
            self._loop.call_later(
                CANCEL_WAIT_S, lambda: self._report_cancelled(turn, still_running=not task.done())
            )
        # The task cannot report this itself: a task that is cancelled before its first step never runs.
        turn.task.add_done_callback(lambda _: self._report_cancelled(turn, still_running=False))
        turn.task.cancel()

    def handle_exit(self, error: BaseException) -> None:
        """Cancel a turn that has not ended 1 s after one of its tasks stopped the loop by raising `error`.

        `error` is SystemExit or KeyboardInterrupt. A turn that awaits the task receives the exception, and
        usually ends by itself within the second (`EXIT_WAIT_S`). Any other turn might wait for ever, for
        example for a message from the task. Do nothing if the turn is unknown.
        """
        session = _find_exited_session(error)
        turn = None if session is None else self._turns.get(session.id)
        if turn is None or turn.session is not session:
            return

        def fail_turn() -> None:
            if self._turns.get(session.id) is turn and turn.task is not None and not turn.cancelled:
                turn.exit = error
                turn.task.cancel()

        self._loop.call_later(EXIT_WAIT_S, fail_turn)

    def _report_cancelled(self, turn: _ActiveTurn, still_running: bool) -> None:
        if turn.is_cancel_reported:
            return
        turn.is_cancel_reported = True
        if turn.session.trace is not None:
            turn.session.trace.close_turn("agent", None, None, "the turn was cancelled")
        self._close_turn(turn)
        message: _Message = {"type": "cancelled", "session": turn.session.id}
        if still_running:
            message["still_running"] = True
        self._channel.send(message)

    def _close_turn(self, turn: _ActiveTurn) -> None:
        turn.session.recorder.open = False
        if turn.capture is not None:
            turn.capture.close()
        if self._turns.get(turn.session.id) is turn:
            del self._turns[turn.session.id]

    async def _run_turn(self, turn: _ActiveTurn, text: str) -> None:
        session = turn.session
        current_session.set(session)
        if session.id in self._captures:
            turn.capture = self._captures[session.id].begin_turn()
        try:
            answer = await self._ask_agent(turn, text)
            end_if_forked()
            message: _Message = {"type": "done", "session": session.id, "response": answer.get_response()}
            message["state"] = session.state
        except BaseException as error:  # noqa: BLE001  the agent's code may raise anything, also SystemExit
            end_if_forked(error)
            message = {
                "type": "error",
                "session": session.id,
                **build_error_fields(session.mocks.missing or turn.exit or error),
            }
            if turn.concurrent and turn.exit is None and isinstance(error, asyncio.CancelledError):
                message["again_alone"] = True
        # The done callback of the task answers the cancel; the gate expects nothing else of this turn.
        if turn.cancelled:
            return
        session.history.append({"role": "user", "text": text})
        session.history.append({"role": "agent", "text": message.get("response") or ""})
        message.update(session.ids)
        # Before the result, which ends the turn for the gate.
        self._send_captured(turn)
        if session.trace is not None:
            session.trace.close_turn("agent", text, message.get("response"), message.get("message", ""))
        self._close_turn(turn)
        self._send_result(session.id, message)

    def _send_captured(self, turn: _ActiveTurn) -> None:
        capture, turn.capture = turn.capture, None
        captured = capture.close() if capture is not None else None
        if captured is None:
            return
        if turn.session.recorder.has_calls:
            captured["usage_only"] = True
        message = {"type": "captured", "session": turn.session.id, **captured}
        try:
            try:
                self._channel.send(message)
            except MessageTooLargeError:
                # Spans take most of the message. It is sent with their number instead of the spans, so that
                # the report can say that spans are missing.
                spans = message.pop("spans", ())
                self._channel.send({**message, "dropped_spans": message.get("dropped_spans", 0) + len(spans)})
        except (TypeError, ValueError, RecursionError) as error:
            sys.stderr.write(f"evalgate: what was captured cannot be written as JSON: {error}\n")

    def _send_result(self, session: str, message: _Message) -> None:
        files = self._opened.take_message() if self._opened is not None else None
        if files is not None:
            self._channel.send(files)  # before the result, which ends the turn for the gate
        try:
            self._channel.send(message)
        except MessageTooLargeError as error:
            self._channel.send({"type": "error", "session": session, **build_error_fields(error)})
        except (TypeError, ValueError, RecursionError) as error:
            why = f"the agent's state cannot be written as JSON: {error}"
            self._channel.send({"type": "error", "session": session, "kind": "protocol", "message": why})

    async def _ask_agent(self, turn: _ActiveTurn, text: str) -> AnswerCollector:
        agent = self._agent if self._agent.create_next_agent is None else await self._find_session_agent(turn)
        answer = AnswerCollector(turn.session, turn.session.recorder)
        if agent.asynchronous:
            result = agent.run_turn(text, turn.session)
        else:
            result = await self._ask_in_thread(agent, turn, text, answer)
        if hasattr(result, "__aiter__"):
            async for piece in result:
                answer.add_yielded(piece)
            result = "" if answer.is_empty() else None  # an empty stream is an empty text
        elif inspect.isawaitable(result):
            result = await result
        answer.add_returned(result)
        # Most frameworks hide the error of a tool and continue without its result: such a turn must fail.
        if turn.session.mocks.missing is not None:
            raise turn.session.mocks.missing
        return answer

    async def _find_session_agent(self, turn: _ActiveTurn) -> HostedAgent:
        """Return the agent of the turn's conversation; create it in the first turn."""
        create_agent, session = self._agent.create_next_agent, turn.session.id
        if create_agent is not None and session not in self._session_agents:
            if self._agent.asynchronous:
                created = create_agent()
            else:
                created = await self._run_in_thread(turn, create_agent)
            self._session_agents[session] = await created if inspect.isawaitable(created) else created
        return self._session_agents[session]

    async def _ask_in_thread(
        self, agent: HostedAgent, turn: _ActiveTurn, text: str, answer: AnswerCollector
    ) -> object:
        def call_agent() -> object:
            result = agent.run_turn(text, turn.session)
            return _drain_generator(result, answer) if inspect.isgenerator(result) else result

        return await self._run_in_thread(turn, call_agent)

    async def _run_in_thread(self, turn: _ActiveTurn, work: Callable[[], object]) -> Any:
        turn.in_thread = True
        result = await self._threads.run_in_thread(work)
        # Not in a `finally`: a cancelled turn leaves its thread running.
        turn.in_thread = False
        return result


def _find_exited_session(error: BaseException) -> Session | None:
    """Return the session of the task that stopped the event loop by raising `error`; None if unknown."""
    frames = error.__traceback__
    while frames is not None:
        # In the traceback, only the frame of `asyncio.Handle._run` leads to the task's context. Other event
        # loops, such as uvloop's, leave no such frame.
        context = getattr(frames.tb_frame.f_locals.get("self"), "_context", None)
        if context is not None and frames.tb_frame.f_code.co_name == "_run":
            session: Session | None = context.get(current_session)
            return session
        frames = frames.tb_next
    return None


def _drain_generator(generator: Any, answer: AnswerCollector) -> object:
    """Add every yielded value to `answer`, and return the generator's return value.

    If the generator returns None, return None, or "" if `answer` is still empty: a generator without any
    output has answered with an empty text, which is not an error.
    """
    while True:
        try:
            piece = next(generator)
        except StopIteration as stop:
            if stop.value is not None:
                return stop.value
            return "" if answer.is_empty() else None
        answer.add_yielded(piece)

"""A command that knows no protocol: one process a turn, the message on stdin, the answer on stdout."""

import asyncio
import signal
import uuid
from dataclasses import replace
from typing import Self

from evalgate.model import EvalCase, Failure, Reply, UserMessage
from evalgate.protocols import AgentFailed, AgentUnreachable, SessionEnd
from evalgate.telemetry.context import current_turn
from evalgate.workerpool.process import AgentProcess, Launch, why_not_started
from evalgate.workerpool.wire import MAX_ANSWER_BYTES, TOO_LARGE, NotTheProtocol, without_surrogates

_GOODBYE_S = 1.0
"""How long a process that took too long may take to end after SIGTERM."""


class PerTurnAgent:
    """An `Agent` that is started for each message. Nothing runs between turns."""

    def __init__(self, launch: Launch, *, timeout_s: float) -> None:
        self._launch = launch
        self._timeout_s = timeout_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is running."""

    def session(self, case: EvalCase, run: int, *, alone: bool) -> "PerTurnSession":
        """See `Agent.session`."""
        del run, alone
        return PerTurnSession(self._launch, case, self._timeout_s)


class PerTurnSession:
    """See `AgentSession`; its own context manager."""

    def __init__(self, launch: Launch, case: EvalCase, timeout_s: float) -> None:
        self._launch = launch
        self._case = case
        self._timeout_s = timeout_s
        self._id = str(uuid.uuid4())
        self._turns = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is open."""

    async def turn(self, message: UserMessage) -> Reply:
        """See `AgentSession.turn`."""
        self._turns += 1
        if message.attachments:
            sentence = (
                "a command that is started for each turn takes text, and the case attaches something else"
            )
            raise AgentFailed(Failure("unsupported", sentence), "faulted")
        process = _TurnProcess()
        launch = replace(self._launch, env={**self._launch.env, **self._told()})
        try:
            await process.start(launch)
        except (OSError, ValueError) as error:
            sentence = f"cannot start the agent: {why_not_started(error, launch)}"
            raise AgentUnreachable(Failure("start", sentence)) from None
        try:
            process.write(message.text.encode("utf-8", "replace"))
            process.close_stdin()
            return Reply(await self._answer(process))
        finally:
            process.kill()
            await process.ended

    async def end(self) -> SessionEnd:
        """See `AgentSession.end`."""
        return SessionEnd()

    def _told(self) -> dict[str, str]:
        trace = current_turn.get()
        return {
            **({} if trace is None else trace.variables(self._launch.env)),
            "EVALGATE_SESSION": self._id,
            "EVALGATE_CASE": without_surrogates(self._case.eval_id).replace("\0", "\ufffd"),
            "EVALGATE_TURN": str(self._turns),
        }

    async def _answer(self, process: "_TurnProcess") -> str:
        await asyncio.wait([process.ended], timeout=self._timeout_s)
        if not process.ended.done():
            process.kill(signal.SIGTERM)
            await asyncio.wait([process.ended], timeout=_GOODBYE_S)
            sentence = f"no answer within {self._timeout_s:g} s (turn {self._turns})"
            raise AgentFailed(Failure("timeout", sentence, process.stderr_tail()), "timed_out")
        failure = process.flood or (None if process.exit_code == 0 else process.exit_failure)
        if failure is not None:
            raise AgentFailed(replace(failure, message=f"{failure.message} (turn {self._turns})"))
        return process.answer


class _TurnProcess(AgentProcess):
    """A process whose whole output is one answer; its own listener."""

    def __init__(self) -> None:
        super().__init__(self)
        self._stdout = bytearray()
        self.flood: Failure | None = None
        """Set when it wrote more than any answer may have."""

    @property
    def answer(self) -> str:
        """What it wrote, as a shell's `$(…)` takes it: without the line ends at its end."""
        return self._stdout.decode("utf-8", "replace").rstrip("\r\n")

    def line_received(self, line: bytes) -> None:
        """See `Listener`: nothing is read by lines here."""

    def broke_protocol(self, error: NotTheProtocol) -> None:
        """See `Listener`."""

    def process_ended(self) -> None:
        """See `Listener`: `ended` tells."""

    def _stdout_received(self, data: bytes) -> None:
        if self.flood is None:
            self._stdout += data
        if len(self._stdout) > MAX_ANSWER_BYTES:
            self.flood = Failure("flood", TOO_LARGE)
            self._stdout.clear()
            self.kill()

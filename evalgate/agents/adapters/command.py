"""Agents in any language: executables that speak the worker protocol, or answer one message a process."""

import asyncio
import shlex
import signal
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict

from evalgate.agents.tracing.context import current_turn
from evalgate.agents.tracing.traced_agent import OtelOption, TracedAgent, resolve_otel_settings
from evalgate.agents.workers.pool import PoolOptions, WorkerPool
from evalgate.agents.workers.process import (
    AgentProcess,
    LaunchSpec,
    MemoryOption,
    describe_start_error,
    parse_memory_size,
)
from evalgate.agents.workers.wire import (
    MAX_ANSWER_BYTES,
    TOO_LARGE,
    WorkerProtocolError,
    replace_lone_surrogates,
)
from evalgate.config.schema.values import Command
from evalgate.core.protocols import Agent, AgentContext, AgentError, AgentUnreachableError, SessionResult
from evalgate.core.types import EvalCase, Failure, Reply, UserMessage

_EXIT_GRACE_S = 1.0
"""How long a process that took too long may take to end after SIGTERM."""


class PerTurnAgent:
    """An `Agent` that is started for each message. Nothing runs between turns."""

    def __init__(self, launch: LaunchSpec, *, timeout_s: float) -> None:
        self._launch = launch
        self._timeout_s = timeout_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is running."""

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> "PerTurnSession":
        """See `Agent.open_session`."""
        del run, alone
        return PerTurnSession(self._launch, case, self._timeout_s)


class PerTurnSession:
    """See `AgentSession`; its own context manager."""

    def __init__(self, launch: LaunchSpec, case: EvalCase, timeout_s: float) -> None:
        self._launch = launch
        self._case = case
        self._timeout_s = timeout_s
        self._id = str(uuid.uuid4())
        self._turns = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is open."""

    async def run_turn(self, message: UserMessage) -> Reply:
        """See `AgentSession.run_turn`."""
        self._turns += 1
        if message.attachments:
            sentence = (
                "a command that is started for each turn takes text, and the case attaches something else"
            )
            raise AgentError(Failure("unsupported", sentence), "faulted")
        process = _TurnProcess()
        launch = replace(self._launch, env={**self._launch.env, **self._build_turn_env()})
        try:
            await process.start(launch)
        except (OSError, ValueError) as error:
            sentence = f"cannot start the agent: {describe_start_error(error, launch)}"
            raise AgentUnreachableError(Failure("start", sentence)) from None
        try:
            process.write(message.text.encode("utf-8", "replace"))
            process.close_stdin()
            return Reply(await self._wait_for_answer(process))
        finally:
            process.kill()
            await process.ended

    async def end(self) -> SessionResult:
        """See `AgentSession.end`."""
        return SessionResult()

    def _build_turn_env(self) -> dict[str, str]:
        trace = current_turn.get()
        return {
            **({} if trace is None else trace.build_variables(self._launch.env)),
            "EVALGATE_SESSION": self._id,
            "EVALGATE_CASE": replace_lone_surrogates(self._case.eval_id).replace("\0", "\ufffd"),
            "EVALGATE_TURN": str(self._turns),
        }

    async def _wait_for_answer(self, process: "_TurnProcess") -> str:
        await asyncio.wait([process.ended], timeout=self._timeout_s)
        if not process.ended.done():
            process.kill(signal.SIGTERM)
            await asyncio.wait([process.ended], timeout=_EXIT_GRACE_S)
            sentence = f"no answer within {self._timeout_s:g} s (turn {self._turns})"
            raise AgentError(Failure("timeout", sentence, process.get_stderr_tail()), "timed_out")
        failure = process.flood or (None if process.exit_code == 0 else process.exit_failure)
        if failure is not None:
            raise AgentError(replace(failure, message=f"{failure.message} (turn {self._turns})"))
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

    def on_line(self, line: bytes) -> None:
        """See `ProcessListener`: nothing is read by lines here."""

    def on_protocol_error(self, error: WorkerProtocolError) -> None:
        """See `ProcessListener`."""

    def on_process_ended(self) -> None:
        """See `ProcessListener`: `ended` tells."""

    def _on_stdout(self, data: bytes) -> None:
        if self.flood is None:
            self._stdout += data
        if len(self._stdout) > MAX_ANSWER_BYTES:
            self.flood = Failure("flood", TOO_LARGE)
            self._stdout.clear()
            self.kill()


def build_command_agent(
    *,
    command: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    workers: int = 1,
    start_timeout: float = 60.0,
    uid: int | None = None,
    gid: int | None = None,
    memory: str | None = None,
) -> WorkerPool:
    """A long-lived process, or several, of the user's own; `docs/agent-protocol.md` says what it must speak.

    Args:
        command: Executable and arguments; no shell is involved.
        cwd: Where the agent runs.
        env: The whole environment of the agent.
        timeout: Of one turn, in seconds.
        workers: Processes, at most.
        start_timeout: Until the agent says `ready`, in seconds.
        uid: The user to run as; None: the user that runs evalgate.
        gid: The group to run as.
        memory: What a process and its children may use, as `512m`; None: as much as there is.
    """
    options = PoolOptions(workers=workers, timeout_s=timeout, start_timeout_s=start_timeout)
    return WorkerPool(LaunchSpec(tuple(command), cwd, env, uid, gid, _parse_memory_limit(memory)), options)


def _parse_memory_limit(memory: str | None) -> int | None:
    return None if memory is None else parse_memory_size(memory)


class CommandAgentOptions(BaseModel):
    """A thresholds file's `agent` section of kind `command`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    named_by: ClassVar[str] = "command"

    command: Command
    """The program and its arguments; one string is split as a shell would."""
    mode: Literal["protocol", "per_turn"] = "protocol"
    """Whether one process speaks the worker protocol, or each turn has a process of its own that gets the
    message on stdin and writes the answer on stdout."""
    memory: MemoryOption = None
    """Memory that one worker and its children may use, as `512m`; no limit when absent."""
    otel: OtelOption = False
    """Whether calls and usage are read from the spans that the agent sends: docs/opentelemetry.md."""

    def build(self, place: AgentContext) -> Agent:
        """See `evalgate.core.protocols.AgentType`."""
        traces = resolve_otel_settings(self.otel)
        if traces is None:
            return self._build_agent(place)

        def build_with_env(variables: Mapping[str, str]) -> Agent:
            return self._build_agent(replace(place, env={**place.env, **variables}))

        return TracedAgent(build_with_env, traces, port=0)

    def _build_agent(self, place: AgentContext) -> WorkerPool | PerTurnAgent:
        command = shlex.split(self.command) if isinstance(self.command, str) else self.command
        if self.mode == "per_turn":
            launch = LaunchSpec(
                tuple(command),
                place.folder,
                place.env,
                place.uid,
                place.gid,
                _parse_memory_limit(self.memory),
            )
            return PerTurnAgent(launch, timeout_s=place.timeout)
        return build_command_agent(
            command=command,
            cwd=place.folder,
            env=place.env,
            timeout=place.timeout,
            workers=place.workers,
            uid=place.uid,
            gid=place.gid,
            memory=self.memory,
        )

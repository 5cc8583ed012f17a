"""Agents in any language: programs that speak the worker protocol, or that answer one message per process."""

import asyncio
import shlex
import signal
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict
from typing_extensions import override

from evalgate.agents.tracing.trace_context import current_turn
from evalgate.agents.tracing.traced_agent import OtelOption, TracedAgent, resolve_otel_settings
from evalgate.agents.workers.pool import PoolOptions, WorkerPool
from evalgate.agents.workers.process import (
    AgentProcess,
    LaunchSpec,
    MemoryOption,
    describe_start_error,
    parse_memory_size,
)
from evalgate.agents.workers.protocol import MAX_ANSWER_BYTES, TOO_LARGE, WorkerProtocolError
from evalgate.config.schema.field_types import Command
from evalgate.core.protocols import Agent, AgentContext, AgentError, AgentUnreachableError, SessionResult
from evalgate.core.sanitize import replace_lone_surrogates
from evalgate.core.types import EvalCase, Failure, Reply, UserMessage

_EXIT_GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL for a process that did not answer within the time limit."""


class PerTurnAgent:
    """An `Agent` that starts a new process for each message. No process runs between turns."""

    def __init__(self, launch: LaunchSpec, *, timeout_s: float) -> None:
        self._launch = launch
        self._timeout_s = timeout_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Return at once, as no process runs between turns."""

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> "PerTurnSession":
        """Return a conversation, which starts a process for each turn.

        `run` and `alone` have no effect, since conversations share no process.
        """
        del run, alone
        return PerTurnSession(self._launch, case, self._timeout_s)


class PerTurnSession:
    """An `AgentSession` that starts a process for each turn. `async with` returns the session itself."""

    def __init__(self, launch: LaunchSpec, case: EvalCase, timeout_s: float) -> None:
        self._launch = launch
        self._case = case
        self._timeout_s = timeout_s
        self._id = str(uuid.uuid4())
        self._turns = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Return at once, as nothing stays open."""

    async def run_turn(self, message: UserMessage) -> Reply:
        """Start a process with the message as its stdin, and return its stdout as the reply.

        Raises:
            AgentError: the message has attachments, or the process timed out, wrote more than 16 MiB, was
                killed, or ended with an exit code other than 0.
            AgentUnreachableError: the process cannot be started.
        """
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
            process.close_stdin()  # many programs read to the end before they answer
            return Reply(await self._wait_for_answer(process))
        finally:
            process.kill()  # also the processes that it started and left behind
            await process.ended

    async def end(self) -> SessionResult:
        """Return an empty result, as a program cannot report its usage or state."""
        return SessionResult()

    def _build_turn_env(self) -> dict[str, str]:
        trace = current_turn.get()
        return {
            **({} if trace is None else trace.build_variables(self._launch.env)),
            "EVALGATE_SESSION": self._id,
            # A variable can hold neither a lone surrogate nor a null byte, and a case's id may.
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
    """Process that answers one message with its whole stdout.

    It is an `AgentProcess` and also the listener of this process: its own methods receive the events.
    """

    def __init__(self) -> None:
        super().__init__(self)
        self._stdout = bytearray()
        self.flood: Failure | None = None
        """Failure of an answer that is longer than `MAX_ANSWER_BYTES`; None for a shorter answer."""

    @property
    def answer(self) -> str:
        """Return the process's stdout without trailing line ends, as a shell's `$(…)` does."""
        return self._stdout.decode("utf-8", "replace").rstrip("\r\n")

    def on_line(self, line: bytes) -> None:
        """Ignore lines: the answer is the whole output."""

    def on_protocol_error(self, error: WorkerProtocolError) -> None:
        """Ignore protocol errors: there is no protocol."""

    def on_process_ended(self) -> None:
        """Ignore the end of the process: `run_turn` awaits the future `ended` instead."""

    @override
    def _on_stdout(self, data: bytes) -> None:
        if self.flood is None:
            self._stdout += data
        # Not cut off: the beginning of an answer would be scored as if the agent had ended there.
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
    """Build an agent of long-lived processes that speak the protocol of `docs/agent-protocol.md`.

    Args:
        command: Executable and arguments; no shell is involved.
        cwd: Working folder of the agent.
        env: The whole environment of the agent.
        timeout: Seconds that one turn may take.
        workers: Largest number of processes. A session that must be alone may add processes, up to 4 in all.
        start_timeout: Seconds until the agent must report `ready`.
        uid: The user to run as; None: the user that runs evalgate.
        gid: The group to run as; None: the group that runs evalgate.
        memory: Memory that a process and its children may use, such as `512m`; None: no limit.

    Raises:
        ValueError: `memory` is not a valid size.
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
    """The program and its arguments. A string is split into words as in a shell; no shell is started."""
    mode: Literal["protocol", "per_turn"] = "protocol"
    """`protocol`: a process serves many turns and speaks the worker protocol. `per_turn`: each turn starts a
    new process, which gets the message on stdin and writes the answer to stdout."""
    memory: MemoryOption = None
    """Memory that one worker and its children may use, as `512m`; no limit when absent."""
    otel: OtelOption = False
    """If true, tool calls and usage are read from the spans that the agent sends: docs/opentelemetry.md."""

    def build(self, context: AgentContext) -> Agent:
        """Build the agent. If `otel` is set, evalgate also receives the program's OpenTelemetry spans."""
        traces = resolve_otel_settings(self.otel)
        if traces is None:
            return self._build_agent(context)

        def build_with_env(variables: Mapping[str, str]) -> Agent:
            return self._build_agent(replace(context, env={**context.env, **variables}))

        return TracedAgent(build_with_env, traces, port=0)

    def _build_agent(self, context: AgentContext) -> WorkerPool | PerTurnAgent:
        command = shlex.split(self.command) if isinstance(self.command, str) else self.command
        if self.mode == "per_turn":
            launch = LaunchSpec(
                tuple(command),
                context.folder,
                context.env,
                context.uid,
                context.gid,
                _parse_memory_limit(self.memory),
            )
            return PerTurnAgent(launch, timeout_s=context.timeout)
        return build_command_agent(
            command=command,
            cwd=context.folder,
            env=context.env,
            timeout=context.timeout,
            workers=context.workers,
            uid=context.uid,
            gid=context.gid,
            memory=self.memory,
        )

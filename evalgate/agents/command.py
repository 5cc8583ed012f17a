"""Agents in any language: executables that speak the worker protocol, or answer one message a process."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from evalgate.config.values import Command
from evalgate.protocols import Agent, AgentPlace
from evalgate.telemetry.settings import OtelOption, otel_settings
from evalgate.telemetry.traced import TracedAgent
from evalgate.workerpool.memory import MemoryOption, memory_in_bytes
from evalgate.workerpool.perturn import PerTurnAgent
from evalgate.workerpool.pool import PoolOptions, WorkerPool
from evalgate.workerpool.process import Launch


def command_agent(
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
    return WorkerPool(Launch(tuple(command), cwd, env, uid, gid, _limit(memory)), options)


def _limit(memory: str | None) -> int | None:
    return None if memory is None else memory_in_bytes(memory)


class CommandAgent(BaseModel):
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

    def build(self, place: AgentPlace) -> Agent:
        """See `evalgate.protocols.AgentType`."""
        traces = otel_settings(self.otel)
        if traces is None:
            return self._agent(place)

        def told_where(variables: Mapping[str, str]) -> Agent:
            return self._agent(replace(place, env={**place.env, **variables}))

        return TracedAgent(told_where, traces, port=0)

    def _agent(self, place: AgentPlace) -> WorkerPool | PerTurnAgent:
        command = shlex.split(self.command) if isinstance(self.command, str) else self.command
        if self.mode == "per_turn":
            launch = Launch(
                tuple(command), place.folder, place.env, place.uid, place.gid, _limit(self.memory)
            )
            return PerTurnAgent(launch, timeout_s=place.timeout)
        return command_agent(
            command=command,
            cwd=place.folder,
            env=place.env,
            timeout=place.timeout,
            workers=place.workers,
            uid=place.uid,
            gid=place.gid,
            memory=self.memory,
        )

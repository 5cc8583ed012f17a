"""Agents written in Python or with Google ADK, each hosted by a worker in its own interpreter."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evalgate.agents.workers.pool import PoolOptions, WorkerPool
from evalgate.agents.workers.process import LaunchSpec, MemoryOption, parse_memory_size
from evalgate.core.protocols import AgentContext
from evalgate.core.types import JsonObject

_WORKER = Path(__file__).resolve().parent.parent / "host" / "__main__.py"


def build_python_launch(
    what: JsonObject,
    *,
    cwd: Path,
    env: Mapping[str, str],
    concurrency: int,
    python: str | None = None,
    uid: int | None = None,
    gid: int | None = None,
    memory: str | None = None,
) -> LaunchSpec:
    """A process that hosts what `what` names.

    Args:
        what: What the host loads: `entry`, and what a kind of agent says besides.
        cwd: Where it runs; first on its `sys.path`.
        env: Its whole environment.
        concurrency: Conversations at once: as many threads serve an agent that is not asynchronous.
        python: The interpreter, 3.9 or later; None: the one that runs evalgate.
        uid: The user to run as; None: the user that runs evalgate.
        gid: The group to run as.
        memory: What a process and its children may use, as `512m`; None: as much as there is.
    """
    limit = None if memory is None else parse_memory_size(memory)
    host = json.dumps({**what, "threads": concurrency})
    return LaunchSpec((python or sys.executable, str(_WORKER), host), cwd, env, uid, gid, limit)


def build_python_agent(
    *,
    entry: str,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    python: str | None = None,
    workers: int = 1,
    concurrency: int = 1,
    start_timeout: float = 60.0,
    uid: int | None = None,
    gid: int | None = None,
    memory: str | None = None,
    capture: bool = True,
) -> WorkerPool:
    """An attribute of a module: a function, or an object that can be asked.

    Args:
        entry: `package.module:attribute` or `path/file.py:attribute`, seen from `cwd`.
        cwd: Where the agent runs; first on its `sys.path`.
        env: The whole environment of the agent.
        timeout: Of one turn, in seconds.
        python: The interpreter, 3.9 or later; None: the one that runs evalgate.
        workers: Processes, at most.
        concurrency: Conversations at once over all processes: as many threads serve a synchronous agent.
        start_timeout: Of importing the agent, in seconds.
        uid: The user to run as; None: the user that runs evalgate.
        gid: The group to run as.
        memory: What a process and its children may use, as `512m`; None: as much as there is.
        capture: Whether model calls and spans are captured of an agent that reports none itself.
    """
    launch = build_python_launch(
        {"entry": entry, "capture": capture},
        cwd=cwd,
        env=env,
        concurrency=concurrency,
        python=python,
        uid=uid,
        gid=gid,
        memory=memory,
    )
    options = PoolOptions(workers=workers, timeout_s=timeout, start_timeout_s=start_timeout)
    return WorkerPool(launch, options)


class PythonAgentOptions(BaseModel):
    """A thresholds file's `agent` section of kind `python`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    named_by: ClassVar[str] = "entry"

    entry: str
    """`package.module:attribute` or `path/file.py:attribute`."""
    memory: MemoryOption = None
    """Memory that one worker and its children may use, as `512m`; no limit when absent."""
    capture: bool = True
    """Whether tool calls and usage of an agent that reports none are read from its requests to models and
    its OpenTelemetry spans: docs/agents.md."""

    @field_validator("entry")
    @classmethod
    def _validate_entry(cls, entry: str) -> str:
        if not all(entry.rpartition(":")[::2]):
            raise ValueError(f"must be `package.module:attribute` or `file.py:attribute`, not {entry!r}")
        return entry

    def build(self, place: AgentContext) -> WorkerPool:
        """See `evalgate.core.protocols.AgentType`."""
        return build_python_agent(
            entry=self.entry,
            cwd=place.folder,
            env=place.env,
            timeout=place.timeout,
            python=place.python,
            workers=place.workers,
            concurrency=place.concurrency,
            uid=place.uid,
            gid=place.gid,
            memory=self.memory,
            capture=self.capture,
        )


class AdkAgentOptions(BaseModel):
    """A thresholds file's `agent` section of kind `adk`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    named_by: ClassVar[str] = "entry"

    entry: str = Field(min_length=1)
    """`package.module`, `path/to/agent_folder` or `path/file.py`: what has `app`, `root_agent` or
    `get_agent_async`, itself or in its `agent`, or a folder with `root_agent.yaml`. `:attribute` behind it
    names the agent outright."""
    agent_name: str | None = Field(default=None, min_length=1)
    """The agent below the root that is gated instead of it."""
    start_timeout: float = Field(default=120.0, gt=0, allow_inf_nan=False)
    """Seconds that importing the package and the agent may take."""
    memory: MemoryOption = None
    """Memory that one worker and its children may use, as `512m`; no limit when absent."""

    def build(self, place: AgentContext) -> WorkerPool:
        """See `evalgate.core.protocols.AgentType`."""
        launch = build_python_launch(
            {"entry": self.entry, "adk": True, "agent": self.agent_name},
            cwd=place.folder,
            env=place.env,
            concurrency=place.concurrency,
            python=place.python,
            uid=place.uid,
            gid=place.gid,
            memory=self.memory,
        )
        options = PoolOptions(
            workers=place.workers, timeout_s=place.timeout, start_timeout_s=self.start_timeout
        )
        return WorkerPool(launch, options)

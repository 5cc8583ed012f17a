"""Agents in Python or of Google ADK, hosted by worker processes with the agent's own interpreter."""

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

_HOST = Path(__file__).resolve().parent.parent / "host" / "__main__.py"


def build_python_launch(
    host_options: JsonObject,
    *,
    cwd: Path,
    env: Mapping[str, str],
    threads: int,
    python: str | None = None,
    uid: int | None = None,
    gid: int | None = None,
    memory: str | None = None,
) -> LaunchSpec:
    """Return the command, environment, user and limits of a process that hosts a Python agent.

    Args:
        host_options: Options of the host program, such as `entry`; the module `host.program` describes them.
        cwd: Working folder of the process, which is first on its `sys.path`.
        env: Whole environment of the process.
        threads: Largest number of turns of a synchronous agent at the same time, each in a thread.
        python: The interpreter, 3.9 or later; None: the one that runs evalgate.
        uid: The user to run as; None: the user that runs evalgate.
        gid: The group to run as; None: the group that runs evalgate.
        memory: Memory that a process and its children may use, such as `512m`; None: no limit.

    Raises:
        ValueError: `memory` is not a valid size.
    """
    limit = None if memory is None else parse_memory_size(memory)
    host = json.dumps({**host_options, "threads": threads})
    # The host is started by its path: the agent's own interpreter has no evalgate that `-m` could find.
    return LaunchSpec((python or sys.executable, str(_HOST), host), cwd, env, uid, gid, limit)


def build_python_agent(
    *,
    entry: str,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    python: str | None = None,
    workers: int = 1,
    threads: int = 1,
    start_timeout: float = 60.0,
    uid: int | None = None,
    gid: int | None = None,
    memory: str | None = None,
    capture: bool = True,
    track_files: bool = False,
) -> WorkerPool:
    """Build an agent from an attribute of a module: a function, or an agent object such as a LangChain chain.

    Args:
        entry: `package.module:attribute`, or `path/file.py:attribute` with a path relative to `cwd`.
        cwd: The agent's working folder, which is first on its `sys.path`.
        env: The whole environment of the agent.
        timeout: Seconds that one turn may take.
        python: The interpreter, 3.9 or later; None: the one that runs evalgate.
        workers: Largest number of processes. A session that must be alone may add processes, up to 4 in all.
        threads: Largest number of turns of a synchronous agent in one process, each in a thread.
        start_timeout: Seconds that a process may take to start and to import the agent.
        uid: The user to run as; None: the user that runs evalgate.
        gid: The group to run as; None: the group that runs evalgate.
        memory: Memory of a process and its children, as `512m`; None: no limit. Raises ValueError if invalid.
        capture: If True, and the agent reports no events itself, capture its model calls and spans.
        track_files: If True, record the files of the project that the agent opens.
    """
    launch = build_python_launch(
        {"entry": entry, "capture": capture, "track": track_files},
        cwd=cwd,
        env=env,
        threads=threads,
        python=python,
        uid=uid,
        gid=gid,
        memory=memory,
    )
    limits = {"timeout_s": timeout, "start_timeout_s": start_timeout}
    return WorkerPool(launch, PoolOptions(workers=workers, track_files=track_files, **limits))


class PythonAgentOptions(BaseModel):
    """A thresholds file's `agent` section of kind `python`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    named_by: ClassVar[str] = "entry"

    entry: str
    """The agent: `package.module:attribute`, or `path/file.py:attribute` relative to the working folder."""
    memory: MemoryOption = None
    """Memory that one worker and its children may use, as `512m`; no limit when absent."""
    capture: bool = True
    """If true, and the agent reports no tool calls or usage itself, evalgate reads them from the agent's
    requests to models and its OpenTelemetry spans: docs/agents.md."""

    @field_validator("entry")
    @classmethod
    def _validate_entry(cls, entry: str) -> str:
        if not all(entry.rpartition(":")[::2]):
            raise ValueError(f"must be `package.module:attribute` or `file.py:attribute`, not {entry!r}")
        return entry

    def build(self, context: AgentContext) -> WorkerPool:
        """Return the pool of worker processes that will host the agent; none is started yet."""
        return build_python_agent(
            entry=self.entry,
            cwd=context.folder,
            env=context.env,
            timeout=context.timeout,
            python=context.python,
            workers=context.workers,
            threads=context.concurrency,
            uid=context.uid,
            gid=context.gid,
            memory=self.memory,
            capture=self.capture,
            track_files=context.track_files,
        )


class AdkAgentOptions(BaseModel):
    """A thresholds file's `agent` section of kind `adk`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    named_by: ClassVar[str] = "entry"

    entry: str = Field(min_length=1)
    """The agent: `package.module`, `path/to/agent_folder` or `path/file.py`. The module, or its submodule
    `agent`, defines `app`, `root_agent` or `get_agent_async`. An agent of another name is written with this
    name: `path/file.py:my_agent`. A folder may have a `root_agent.yaml` instead of a module."""
    agent_name: str | None = Field(default=None, min_length=1)
    """Name of the sub-agent to run instead of the root agent."""
    start_timeout: float = Field(default=120.0, gt=0, allow_inf_nan=False)
    """Seconds that importing the package and the agent may take."""
    memory: MemoryOption = None
    """Memory that one worker and its children may use, as `512m`; no limit when absent."""

    def build(self, context: AgentContext) -> WorkerPool:
        """Return the pool of worker processes that will host the ADK agent; none is started yet."""
        launch = build_python_launch(
            {
                "entry": self.entry,
                "adk": True,
                "agent": self.agent_name,
                "track": context.track_files,
            },
            cwd=context.folder,
            env=context.env,
            threads=context.concurrency,
            python=context.python,
            uid=context.uid,
            gid=context.gid,
            memory=self.memory,
        )
        options = PoolOptions(
            workers=context.workers,
            timeout_s=context.timeout,
            start_timeout_s=self.start_timeout,
            track_files=context.track_files,
        )
        return WorkerPool(launch, options)

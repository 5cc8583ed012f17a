"""Agents of Google ADK, run by ADK's own Runner in an interpreter that has the package."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from evalgate.protocols import AgentPlace
from evalgate.workerpool.memory import MemoryOption
from evalgate.workerpool.pool import PoolOptions, WorkerPool
from evalgate.workerpool.pythonhost import python_launch


class AdkAgent(BaseModel):
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

    def build(self, place: AgentPlace) -> WorkerPool:
        """See `evalgate.protocols.AgentType`."""
        launch = python_launch(
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

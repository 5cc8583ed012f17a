"""The section `agent`."""

from typing import Annotated

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Strict,
)

from evalgate.config.values import Count, EnvironmentName


class AgentConfig(BaseModel):
    """How the agent is run. What else stands in the section is its kind's own, which checks it."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    kind: str = "python"
    """`python`, `adk`, `command`, `http`, `docker`, `replay`, or one of another package: docs/agents.md."""
    python: str | None = None
    """Interpreter that runs a Python agent; the gate's own when absent."""
    setup: str | None = None
    """Shell command that installs what the agent needs, run once before it starts."""
    workers: Count = Field(default=1, ge=1, le=256)
    """Processes that run the agent."""
    concurrency: Count = Field(default=16, ge=1, le=10_000)
    """Conversations at the same time, over all workers."""
    timeout: Annotated[float, Strict()] = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Seconds that one turn may take."""
    requests_per_minute: Count | None = Field(default=None, ge=1)
    """Turns that are begun in any minute, at most."""
    ramp_up: Annotated[float, Strict()] = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Seconds until `concurrency` conversations may go on at the same time; one at first."""
    retries: Count = Field(default=1, ge=0, le=10)
    """How often a run of a case is begun again when a service that the agent asks was busy or down."""
    env: tuple[EnvironmentName, ...] = ()
    """Environment variables that the agent gets beside the harmless ones; a trailing `*` is a prefix."""

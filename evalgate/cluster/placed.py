"""The agent where the user wants it to run."""

from collections.abc import Mapping

from evalgate.builtagent import built_agent
from evalgate.chosenagent import ChosenAgent
from evalgate.config import ExecutorConfig
from evalgate.protocols import Agent
from evalgate.system.workspace import Workspace

_RECORDING = "replay"
"""The kind that asks nobody: it needs no cluster."""


def placed_agent(
    executor: ExecutorConfig, chosen: ChosenAgent, workspace: Workspace, environ: Mapping[str, str]
) -> Agent:
    """The agent, not started yet: in workers of this machine, or in actors of a Ray cluster.

    Raises:
        EvalgateError: as `built_agent`.
    """
    if executor.kind == "local" or chosen.settings.kind == _RECORDING:
        return built_agent(chosen, workspace, environ)
    from evalgate.cluster.given import ray_agent

    return ray_agent(executor, chosen, workspace, environ)

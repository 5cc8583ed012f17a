"""Construction of an agent in a Ray cluster, and the environment that Ray and its actors receive."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from evalgate.agents.factory import AgentSpec
from evalgate.agents.ray.actor import ActorSpec
from evalgate.agents.ray.agent import ClusterAgent, ClusterLimits
from evalgate.agents.ray.client import ClusterSpec, RayClusterClient, build_python_path
from evalgate.config.schema.agent import AgentConfig, ExecutorConfig
from evalgate.documents.env_expansion import list_placeholders
from evalgate.system.workspace import Workspace, build_agent_environment

_PACKAGE = Path(__file__).parents[2]
_FEWEST_CALLS = 1_000
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "PYTHONUNBUFFERED": "1"}
"""Defaults of Ray's environment: no usage reports, and workers with the same priority as the gate."""


def build_ray_agent(
    executor: ExecutorConfig, chosen: AgentSpec, workspace: Workspace, environ: Mapping[str, str]
) -> ClusterAgent:
    """Build an agent in as many actors as it has workers; nothing is started yet."""
    settings = chosen.settings
    address = executor.address or environ.get("RAY_ADDRESS") or None
    if address == "local":  # Ray's word for a cluster of one's own
        address = None
    client = RayClusterClient(
        _build_cluster(executor, address, chosen, workspace, environ),
        _build_ray_env(environ),
        executor.start_timeout,
    )
    limits = ClusterLimits(
        workers=settings.workers, timeout_s=settings.timeout, start_timeout_s=executor.start_timeout
    )
    return ClusterAgent(client, limits)


def _build_cluster(
    executor: ExecutorConfig,
    address: str | None,
    chosen: AgentSpec,
    workspace: Workspace,
    environ: Mapping[str, str],
) -> ClusterSpec:
    is_ours, settings = address is None, chosen.settings
    is_sent = not is_ours and executor.workspace == "sent"
    runtime_env: dict[str, object] = {"py_modules": [str(_PACKAGE)], "excludes": list(executor.exclude)}
    if is_sent:
        runtime_env["working_dir"] = str(workspace.folder)
    spec = ActorSpec(
        section={**settings.model_dump(mode="json"), "workers": 1},
        what=chosen.what,
        folder=None if is_sent else str(workspace.folder),
        environ=_select_agent_env(settings, chosen.what, environ, with_harmless=is_ours),
        is_gates_machine=is_ours,
        owner=workspace.owner if is_ours else None,
    )
    return ClusterSpec(
        address=address,
        actors=settings.workers,
        cpus=executor.cpus,
        resources=executor.resources,
        runtime_env=runtime_env,
        calls=max(_FEWEST_CALLS, 2 * settings.concurrency),
        spec=spec.to_json(),
    )


def _select_agent_env(
    settings: AgentConfig, what: str, environ: Mapping[str, str], *, with_harmless: bool
) -> dict[str, str]:
    """Return the gate's variables for an actor: those of the agent, and those that its section names."""
    env = build_agent_environment(environ, settings.env)
    if not with_harmless:
        harmless = build_agent_environment(environ, ())
        env = {name: value for name, value in env.items() if name not in harmless or name in settings.env}
    named = list_placeholders(json.dumps([settings.model_dump(mode="json"), what]))
    return {**env, **{name: environ[name] for name in named if name in environ}}


def _build_ray_env(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of Ray, and of a cluster on this machine: no secrets except Ray's own."""
    ours = {name: value for name, value in environ.items() if name.startswith("RAY_")}
    ours.pop("RAY_ADDRESS", None)
    path = {"PYTHONPATH": build_python_path(os.environ)}
    return {**_SETTINGS, **build_agent_environment(environ, ()), **ours, **path}

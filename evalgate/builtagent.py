"""The agent with what it needs installed, in a folder and an environment."""

from collections.abc import Mapping

from evalgate import plugins
from evalgate.chosenagent import ChosenAgent
from evalgate.model import EvalSet, Record
from evalgate.protocols import Agent, AgentPlace
from evalgate.system.environment import agent_environment
from evalgate.system.workspace import Workspace


def built_agent(chosen: ChosenAgent, workspace: Workspace, environ: Mapping[str, str]) -> Agent:
    """The agent with what it needs installed, not started yet.

    Raises:
        EvalgateError: what it needs cannot be installed, or its options name what cannot be used.
    """
    config, python = chosen.settings, chosen.settings.python
    home = workspace.home(environ)
    env = {**agent_environment(environ, config.env), "HOME": str(home)}
    if config.setup is not None:
        from evalgate.system.provision import provision

        installed = provision(
            config.setup,
            python=config.python,
            cwd=workspace.folder,
            env=env,
            cache=home / ".cache" / "evalgate",
            user=workspace.agent_user,
        )
        python, env = installed.python, dict(installed.env)
    uid, gid = workspace.agent_user or (None, None)

    def read_recording(path: str) -> Record | EvalSet:
        from evalgate import recordings

        return recordings.read_recording(workspace.folder / path, path)

    place = AgentPlace(
        folder=workspace.folder,
        env=env,
        timeout=config.timeout,
        workers=config.workers,
        concurrency=config.concurrency,
        read_recording=read_recording,
        python=python,
        uid=uid,
        gid=gid,
        environ=environ,
    )
    return plugins.built_agent(config.kind, chosen.options, place)

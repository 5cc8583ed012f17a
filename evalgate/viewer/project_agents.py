"""List the agents that pages may start: the thresholds file's agent, and Google ADK agents in the folder."""

from contextlib import suppress
from pathlib import Path

from evalgate.config.loader import load_thresholds_or_default
from evalgate.config.schema.thresholds import Config
from evalgate.core.errors import InvalidInputError

PROJECT_AGENT = ""
"""Name of the thresholds file's agent in a choice. Any other name is the folder of a Google ADK agent."""
_MOST_AGENTS = 100
_AGENT_FILES = ("agent.py", "__init__.py", "root_agent.yaml")


def list_adk_agents(folder: Path) -> tuple[str, ...]:
    """Return the folders, one or two levels below `folder`, that contain a Google ADK agent; at most 100.

    The paths are relative to `folder` and sorted. As for `adk web`, a folder has an agent if
    `root_agent.yaml` is in it, or if `agent.py` or `__init__.py` mentions `root_agent`. Symbolic
    links and hidden folders are left out.
    """
    found = []
    for path in sorted((*folder.glob("*/"), *folder.glob("*/*/"))):
        if path.is_symlink() or any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        if any(_names_agent(path / name) for name in _AGENT_FILES):
            found.append(path.relative_to(folder).as_posix())
    return tuple(found[:_MOST_AGENTS])


def _names_agent(path: Path) -> bool:
    with suppress(OSError):
        return path.is_file() and (path.suffix == ".yaml" or b"root_agent" in path.read_bytes()[:200_000])
    return False


def list_agents(folder: Path, config: Config | None) -> tuple[str, ...]:
    """Return the agents to choose from, the default first: `PROJECT_AGENT`, then Google ADK agents' folders.

    `config` has the settings of the thresholds file; None if the file is invalid. `PROJECT_AGENT` is left out
    if `config` names no agent and `folder` has a Google ADK agent.
    """
    adk = list_adk_agents(folder)
    return (PROJECT_AGENT, *adk) if config is None or config.agent is not None or not adk else adk


def read_project_config(folder: Path, thresholds_file: str | None) -> Config | None:
    """Return the settings of the thresholds file; the defaults if there is no file, None if it is invalid."""
    try:
        return load_thresholds_or_default(folder, thresholds_file).config
    except InvalidInputError:
        return None


def describe_agent(choice: str) -> str:
    """Return the text that a page shows for an agent: `adk:FOLDER`, or `the agent of the thresholds file`."""
    return f"adk:{choice}" if choice else "the agent of the thresholds file"

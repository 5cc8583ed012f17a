"""Search for a Google ADK agent as ADK does: in a module, an agent folder or a file.

In a module, the first of these names counts: `app` (if it is an app of ADK), `root_agent`, `get_agent_async`.
If the module has none of the names, they are searched in the module's attribute `agent`, then in the module's
submodule `agent`. If they are not there either, ADK builds an agent from the file `root_agent.yaml` in the
package's folder.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
from types import ModuleType
from typing import Any, Iterator, Optional

from .entry import load_module, make_importable, resolve_attribute
from .errors import EntryNotFoundError, UnusableEntryError
from .frameworks.adk import is_adk, is_app

_NAMES = ("app", "root_agent", "get_agent_async")
_CONFIG = "root_agent.yaml"
_MAX_WHY = 500


def find_adk_agent(entry: str, sub_agent: str | None, loop: asyncio.AbstractEventLoop) -> object:
    """Return the agent, workflow or app that `entry` names; a path is relative to the working folder.

    For a path, the nearest `.env` file is loaded first. A function, such as `get_agent_async`, is called
    without arguments, and may return a tuple that begins with the agent.

    Args:
        entry: `package.module`, `path/to/agent_folder`, `path/file.py`, or `path/file.yaml` from which ADK
            builds an agent. An agent with a name that ADK does not search is written with `:attribute`.
        sub_agent: Name of an agent below the root to run instead of the root; None or "": the root.
        loop: Event loop that awaits the result of an asynchronous function.

    Raises:
        UnusableEntryError: there is no such agent, or the object is not an agent, workflow or app of ADK.
        BaseException: any exception that importing the module, or calling the function, raises.
    """
    found = _resolve_entry(entry)
    agent = _call_factory(found, loop) if inspect.isroutine(found) else found
    if not is_adk(agent):
        raise UnusableEntryError(f"it is of type {type(agent).__name__}, not an agent or app of Google ADK")
    return _select_sub_agent(agent, sub_agent) if sub_agent else agent


def _resolve_entry(entry: str) -> object:
    where, _, attribute = entry.partition(":")
    if where.endswith((".yaml", ".yml")) and not attribute:
        return _load_config_agent(os.path.abspath(where), where)
    module = _load_adk_module(where)
    return resolve_attribute(module, where, attribute) if attribute else _search_module(module, where)


def _load_config_agent(file: str, where: str) -> object:
    """Return the agent that ADK builds from a configuration file; load the nearest `.env` file first.

    `file` is the absolute path; `where` is the path that error messages show.

    Raises:
        EntryNotFoundError: there is no such file.
        UnusableEntryError: ADK cannot build an agent from the file.
    """
    if not os.path.isfile(file):
        raise EntryNotFoundError(f"there is no file {where} in {os.getcwd()}")
    folder = os.path.dirname(file)
    _load_dotenv(folder)
    # The file may name modules relative to the parent of its folder.
    make_importable(folder)
    adk, yaml = (importlib.import_module(name) for name in ("google.adk.agents.config_agent_utils", "yaml"))
    try:
        return adk.from_config(file)
    except (ValueError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise UnusableEntryError(f"{where} is no agent of Google ADK: {why[:_MAX_WHY]}") from None


def _load_adk_module(where: str) -> ModuleType:
    path = os.path.abspath(where)
    if os.path.isdir(path):
        _load_dotenv(path)
        return importlib.import_module(make_importable(path))
    if "/" in where and not where.endswith(".py"):
        raise EntryNotFoundError(f"there is no folder {where} in {os.getcwd()}")
    if where.endswith(".py"):
        _load_dotenv(os.path.dirname(path))
    return load_module(where)


def _load_dotenv(folder: str) -> None:
    """Load the nearest `.env` file in `folder` or above, up to the working folder.

    Outside of the working folder, only `folder` itself is searched. (ADK's tools search up to the root.)
    Environment variables that are set already keep their values. If `ADK_DISABLE_LOAD_DOTENV` is `1` or
    `true`, load nothing.
    """
    if os.environ.get("ADK_DISABLE_LOAD_DOTENV", "").lower() in ("1", "true"):
        return
    for each in _iter_parent_folders(folder):
        file = os.path.join(each, ".env")
        if os.path.isfile(file):
            importlib.import_module("dotenv").load_dotenv(file, override=False)
            return


def _iter_parent_folders(folder: str) -> Iterator[str]:
    """Yield `folder` and its parents up to the working folder.

    Yield only `folder` if it is not in the working folder.
    """
    top = os.getcwd()
    yield folder
    while folder != top and folder.startswith(top + os.sep):
        folder = os.path.dirname(folder)
        yield folder


def _search_module(module: ModuleType, where: str) -> object:
    for owner in (module, getattr(module, "agent", None), _import_agent_submodule(module)):
        for name in _NAMES:
            found = getattr(owner, name, None)
            # `app` is often the name of a web application: only an app of ADK counts.
            if found is not None and (name != "app" or is_app(found)):
                return found
    for folder in getattr(module, "__path__", ()):
        file = os.path.join(folder, _CONFIG)
        if os.path.isfile(file):
            return _load_config_agent(file, os.path.relpath(file))
    raise UnusableEntryError(
        f"neither `{where}` nor its `agent` has one of {', '.join(_NAMES)}, nor is there a {_CONFIG}"
    )


def _import_agent_submodule(module: ModuleType) -> Optional[ModuleType]:
    if not hasattr(module, "__path__"):
        return None
    name = module.__name__ + ".agent"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The submodule exists and imports something that is missing: that error is the one to show.
        if error.name != name:
            raise
        return None


def _call_factory(function: Any, loop: asyncio.AbstractEventLoop) -> object:
    async def await_agent(awaitable: Any) -> object:
        return await awaitable  # `run_until_complete` needs a coroutine, and not every awaitable is one

    agent = function()
    if inspect.isawaitable(agent):
        agent = loop.run_until_complete(await_agent(agent))
    # As in ADK, a tuple is the agent with an exit stack, which is never closed: the process ends instead.
    return agent[0] if isinstance(agent, tuple) and agent else agent


def _select_sub_agent(agent: Any, name: str) -> object:
    """Return the agent called `name`: the root agent, or a sub-agent at any depth.

    If `agent` is an app, return a copy of the app with the found agent as its root.

    Raises:
        EntryNotFoundError: there is no agent of this name.
    """
    root = agent.root_agent if is_app(agent) else agent
    found = root.find_agent(name) if hasattr(root, "find_agent") else None
    if found is None:
        raise EntryNotFoundError(
            f"there is no agent `{name}` in it; there are: {', '.join(_list_agent_names(root))}"
        )
    # A copy, because code of the agent may refer to the app itself.
    return agent.model_copy(update={"root_agent": found}) if is_app(agent) else found


def _list_agent_names(agent: Any) -> Iterator[str]:
    yield agent.name
    for each in getattr(agent, "sub_agents", ()):
        yield from _list_agent_names(each)

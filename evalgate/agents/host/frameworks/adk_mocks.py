"""A plugin of Google ADK that answers mocked tools, and a check for tools that the plugin cannot answer."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from ..errors import UnsupportedCaseError
from ..mocked_tools import Mocks
from . import is_a

_CONTROL_TOOLS = frozenset({"transfer_to_agent", "exit_loop", "set_model_response", "finish_task"})
"""ADK's own tools that control which agent runs, and when it ends. They are never mocked."""
_REQUEST_TOOLS = ("PreloadMemoryTool", "ExampleTool")
"""ADK's tools that only add text to the request to the model; they are never run and need no mock."""


def create_mock_plugin(mocks: Mocks) -> Any:
    """Return an ADK plugin that answers mocked tools; list this plugin before the agent's own plugins."""

    async def before_tool_callback(_self: Any, *, tool: Any, tool_args: Any, **_: Any) -> Any:
        if _is_control_tool(tool) or not mocks.is_mocked(tool.name):
            return None
        result = mocks.require_result(tool.name, tool_args)
        # ADK wraps the results of functions in the same way.
        return result if isinstance(result, dict) else {"result": result}

    base = importlib.import_module("google.adk.plugins.base_plugin").BasePlugin
    return type("Mocking", (base,), {"before_tool_callback": before_tool_callback})(name="evalgate_mocks")


def _is_control_tool(tool: Any) -> bool:
    module = getattr(getattr(tool, "func", None), "__module__", None) or type(tool).__module__
    return tool.name in _CONTROL_TOOLS and module.startswith("google.adk.")


def refuse_unmockable_tools(root: Any, mocks: Mocks) -> None:
    """Raise an error if the case mocks a tool that the mock plugin cannot answer.

    Args:
        root: Agent or workflow; the agents below it are checked as well.
        mocks: Mocks of the conversation. A code executor counts as a tool called `code_executor`.

    Raises:
        UnsupportedCaseError: a mocked tool is a code executor, is run by the model's provider or by a
            workflow, or belongs to an agent that ADK runs without plugins. The message names the tool and
            the agent.
    """
    for agent, has_callbacks in _walk_agents(root, mocks, set()):
        if getattr(agent, "code_executor", None) is not None and mocks.is_ever_mocked("code_executor"):
            raise UnsupportedCaseError(
                f"the code executor of agent `{agent.name}` cannot be mocked; name `code_executor` in `live` "
                "to let it run"
            )
        for name in _list_unmockable_tools(agent, has_callbacks):
            if mocks.is_ever_mocked(name):
                raise UnsupportedCaseError(
                    f"`{name}` of `{agent.name}` is not run with callbacks of tools, so it cannot be "
                    "mocked; name it in `live` to let it run"
                )


def _list_unmockable_tools(agent: Any, has_callbacks: bool) -> list[str]:
    """Return the names of the agent's tools that are called for real even if they are mocked.

    If `has_callbacks` is False, ADK calls no plugins for the agent, and all of its tools are returned.
    Otherwise, the tools that the model's provider or a workflow runs are returned.
    """
    if is_a(agent, "google.adk", "_ToolNode"):
        return [agent.tool.name]
    base = importlib.import_module("google.adk.tools.base_tool").BaseTool
    tools = [
        each
        for each in getattr(agent, "tools", None) or ()
        if not any(is_a(each, "google.adk", name) for name in _REQUEST_TOOLS)
    ]
    if not has_callbacks:  # a function has only `__name__`, and the tools of a toolset are not known yet
        return [
            str(getattr(each, "name", None) or getattr(each, "__name__", type(each).__name__))
            for each in tools
        ]
    return [
        each.name
        for each in tools
        if isinstance(each, base) and type(each).run_async is base.run_async  # the model's provider runs it
    ]


def _walk_agents(
    agent: Any, mocks: Mocks, seen: set[tuple[int, bool]], has_callbacks: bool = True
) -> Iterator[tuple[Any, bool]]:
    """Yield (agent, has_callbacks) for an agent and all agents below it, at any depth.

    Agents below are sub-agents, nodes of a workflow, and agents that tools call. An agent is left out
    if only mocked tools call it. `has_callbacks` is False if ADK calls no plugins for the agent, for example
    because its `AgentTool` has `include_plugins=False`.

    `seen` has (id of the agent, has_callbacks) for each agent already yielded, since agents may form a cycle.
    The function adds each agent that it yields to `seen`.
    """
    if (id(agent), has_callbacks) in seen:
        return
    seen.add((id(agent), has_callbacks))
    yield agent, has_callbacks
    graph = getattr(agent, "graph", None)
    for each in [*(getattr(agent, "sub_agents", None) or ()), *(getattr(graph, "nodes", None) or ())]:
        yield from _walk_agents(each, mocks, seen, has_callbacks)
    for tool in getattr(agent, "tools", None) or ():
        if is_a(tool, "google.adk", "AgentTool") and not mocks.is_ever_mocked(tool.name):
            is_watched = has_callbacks and getattr(tool, "include_plugins", True)
            yield from _walk_agents(tool.agent, mocks, seen, is_watched)

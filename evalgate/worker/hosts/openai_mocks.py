"""Agents of the OpenAI Agents SDK with mocked tools: clones, so that the agents stay as they are."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ..failures import Unsupported  # noqa: TID252  the package has two names; an absolute import would fix one
from ..mocks import Mocks  # noqa: TID252


def mocking(agent: Any, mocks: Mocks) -> Any:
    """A clone of the agent, and of all that it hands over to, in which no mocked tool is called.

    Raises:
        Unsupported: an agent has tools that cannot be replaced: of an MCP server, or of the provider.
    """
    return _Cloning(mocks).clone(agent)


class _Cloning:
    def __init__(self, mocks: Mocks) -> None:
        self._mocks = mocks
        self._clones: dict[int, tuple[Any, Any]] = {}
        """By the identity of the agent, which is kept alive with its clone."""

    def clone(self, agent: Any) -> Any:
        if id(agent) in self._clones:
            return self._clones[id(agent)][1]
        if getattr(agent, "mcp_servers", None):
            raise Unsupported(
                f"the case mocks tools, and those of the MCP servers of agent `{agent.name}` cannot be mocked"
            )
        tools = [self._tool(each) for each in agent.tools]
        found = agent.clone(tools=tools, handoffs=[])
        self._clones[id(agent)] = (agent, found)
        # Agents can hand over in a circle: the clone is known before its handoffs are cloned.
        found.handoffs = [self._handoff(each) for each in agent.handoffs]
        return found

    def _handoff(self, handoff: Any) -> Any:
        invoke = getattr(handoff, "on_invoke_handoff", None)
        if invoke is None:
            return self.clone(handoff)

        async def on_invoke_handoff(*arguments: Any) -> Any:
            return self.clone(await invoke(*arguments))

        return dataclasses.replace(handoff, on_invoke_handoff=on_invoke_handoff)

    def _tool(self, tool: Any) -> Any:
        invoke = getattr(tool, "on_invoke_tool", None)
        if invoke is None:
            if self._mocks.ever_mocked(tool.name):
                raise Unsupported(f"`{tool.name}` is a tool of the model's provider, which cannot be mocked")
            return tool
        mocks = self._mocks

        async def on_invoke_tool(context: Any, arguments: str) -> Any:
            if mocks.mocked(tool.name):
                return mocks.result(tool.name, json.loads(arguments or "{}"))
            return await invoke(context, arguments)

        return dataclasses.replace(tool, on_invoke_tool=on_invoke_tool)

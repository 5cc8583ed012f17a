"""Agents of the OpenAI Agents SDK, with mocked tools where the case has some.

A later turn goes to the agent that answered last, with everything that was said. The session's state is the
run's context, for tools that take a dict.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from typing import Any, Optional

from ..failures import Unsupported  # noqa: TID252  the package has two names; an absolute import would fix one
from ..session import FEATURE, Mocks, Session  # noqa: TID252  the package has two names; an absolute import would fix one
from . import Host, is_a
from .event_recorder import Telling, as_text, hosted, refuse_attachments


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


def host(agent: object) -> Optional[Host]:
    """A host for an agent of the SDK."""
    # `agents` is a common name: a class of the user's own would have none of these.
    if not is_a(agent, "agents", "Agent") or not hasattr(agent, "handoffs"):
        return None
    return hosted(lambda session: _Conversation(agent, session), FEATURE)


class _Conversation:
    def __init__(self, agent: Any, session: Session) -> None:
        self._agent = mocking(agent, session.mocks) if session.mocks else agent
        self._said: list[Any] = list(session.context_messages)

    async def turn(self, text: str, session: Session) -> Optional[str]:
        refuse_attachments(session, "an agent of the OpenAI Agents SDK")
        runner = importlib.import_module("agents").Runner
        asked = [*self._said, {"role": "user", "content": text}]
        try:
            result = await runner.run(self._agent, asked, context=session.state)
        except Exception as error:
            done = getattr(error, "run_data", None)
            if done is not None:
                _tell(done, session)
            raise
        _tell(result, session)
        self._agent, self._said = result.last_agent, result.to_input_list()
        return as_text(result.final_output)


def _tell(run: Any, session: Session) -> None:
    telling = Telling(session)
    used = run.context_wrapper.usage
    telling.used(used.input_tokens, used.output_tokens)
    for item in run.new_items:
        _tell_item(item, telling)


def _tell_item(item: Any, telling: Telling) -> None:
    raw, author = item.raw_item, getattr(getattr(item, "agent", None), "name", None)
    if item.type == "message_output_item":
        telling.says("".join(getattr(part, "text", None) or "" for part in raw.content), author)
    elif item.type in ("tool_call_item", "handoff_call_item"):
        # The provider's own tools have no name but their type.
        name = _of(raw, "name") or _of(raw, "type") or ""
        telling.calls(name, _of(raw, "arguments"), _of(raw, "call_id"), author)
    elif item.type == "tool_call_output_item":
        telling.answers(None, item.output, _of(raw, "call_id"), author)
    elif item.type == "handoff_output_item":
        telling.answers(None, _of(raw, "output"), _of(raw, "call_id"), item.source_agent.name)


def _of(raw: Any, key: str) -> Any:
    return raw.get(key) if isinstance(raw, dict) else getattr(raw, key, None)

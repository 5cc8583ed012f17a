"""Agents of the OpenAI Agents SDK, with mocked tools where the case has some.

A later turn goes to the agent that answered last, with everything that was said. The session's state is the
run's context, for tools that take a dict.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from typing import Any, Optional

from ..failures import UnsupportedCaseError  # noqa: TID252  the package has two names; an absolute import would fix one
from ..session import FEATURE, Mocks, Session  # noqa: TID252  the package has two names; an absolute import would fix one
from . import AgentHost, is_a
from .event_recorder import EventRecorder, as_text, create_conversation_host, refuse_attachments


def clone_with_mocks(agent: Any, mocks: Mocks) -> Any:
    """A clone of the agent, and of all that it hands over to, in which no mocked tool is called.

    Raises:
        UnsupportedCaseError: an agent has tools that cannot be replaced: of an MCP server, or of the
            provider.
    """
    return _MockCloner(mocks).clone_agent(agent)


class _MockCloner:
    def __init__(self, mocks: Mocks) -> None:
        self._mocks = mocks
        self._clones: dict[int, tuple[Any, Any]] = {}
        """By the identity of the agent, which is kept alive with its clone."""

    def clone_agent(self, agent: Any) -> Any:
        if id(agent) in self._clones:
            return self._clones[id(agent)][1]
        if getattr(agent, "mcp_servers", None):
            raise UnsupportedCaseError(
                f"the case mocks tools, and those of the MCP servers of agent `{agent.name}` cannot be mocked"
            )
        tools = [self._mock_tool(each) for each in agent.tools]
        found = agent.clone(tools=tools, handoffs=[])
        self._clones[id(agent)] = (agent, found)
        # Agents can hand over in a circle: the clone is known before its handoffs are cloned.
        found.handoffs = [self._clone_handoff(each) for each in agent.handoffs]
        return found

    def _clone_handoff(self, handoff: Any) -> Any:
        invoke = getattr(handoff, "on_invoke_handoff", None)
        if invoke is None:
            return self.clone_agent(handoff)

        async def on_invoke_handoff(*arguments: Any) -> Any:
            return self.clone_agent(await invoke(*arguments))

        return dataclasses.replace(handoff, on_invoke_handoff=on_invoke_handoff)

    def _mock_tool(self, tool: Any) -> Any:
        invoke = getattr(tool, "on_invoke_tool", None)
        if invoke is None:
            if self._mocks.is_ever_mocked(tool.name):
                raise UnsupportedCaseError(
                    f"`{tool.name}` is a tool of the model's provider, which cannot be mocked"
                )
            return tool
        mocks = self._mocks

        async def on_invoke_tool(context: Any, arguments: str) -> Any:
            if mocks.is_mocked(tool.name):
                return mocks.require_result(tool.name, json.loads(arguments or "{}"))
            return await invoke(context, arguments)

        return dataclasses.replace(tool, on_invoke_tool=on_invoke_tool)


def create_host(agent: object) -> Optional[AgentHost]:
    """A host for an agent of the SDK."""
    # `agents` is a common name: a class of the user's own would have none of these.
    if not is_a(agent, "agents", "Agent") or not hasattr(agent, "handoffs"):
        return None
    return create_conversation_host(lambda session: _OpenAiConversation(agent, session), FEATURE)


class _OpenAiConversation:
    def __init__(self, agent: Any, session: Session) -> None:
        self._agent = clone_with_mocks(agent, session.mocks) if session.mocks else agent
        self._said: list[Any] = list(session.context_messages)

    async def run_turn(self, text: str, session: Session) -> Optional[str]:
        refuse_attachments(session, "an agent of the OpenAI Agents SDK")
        runner = importlib.import_module("agents").Runner
        asked = [*self._said, {"role": "user", "content": text}]
        try:
            result = await runner.run(self._agent, asked, context=session.state)
        except Exception as error:
            done = getattr(error, "run_data", None)
            if done is not None:
                _record_run(done, session)
            raise
        _record_run(result, session)
        self._agent, self._said = result.last_agent, result.to_input_list()
        return as_text(result.final_output)


def _record_run(run: Any, session: Session) -> None:
    telling = EventRecorder(session)
    used = run.context_wrapper.usage
    telling.record_usage(used.input_tokens, used.output_tokens)
    for item in run.new_items:
        _record_item(item, telling)


def _record_item(item: Any, telling: EventRecorder) -> None:
    raw, author = item.raw_item, getattr(getattr(item, "agent", None), "name", None)
    if item.type == "message_output_item":
        telling.record_text("".join(getattr(part, "text", None) or "" for part in raw.content), author)
    elif item.type in ("tool_call_item", "handoff_call_item"):
        # The provider's own tools have no name but their type.
        name = _get_field(raw, "name") or _get_field(raw, "type") or ""
        telling.record_call(name, _get_field(raw, "arguments"), _get_field(raw, "call_id"), author)
    elif item.type == "tool_call_output_item":
        telling.record_result(None, item.output, _get_field(raw, "call_id"), author)
    elif item.type == "handoff_output_item":
        telling.record_result(
            None, _get_field(raw, "output"), _get_field(raw, "call_id"), item.source_agent.name
        )


def _get_field(raw: Any, key: str) -> Any:
    return raw.get(key) if isinstance(raw, dict) else getattr(raw, key, None)

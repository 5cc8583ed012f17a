"""Adapter for agents of the OpenAI Agents SDK. If the case mocks tools, clones of the agents are run.

Each turn after the first starts with the agent that answered last, and with the whole conversation. The SDK
passes the session's state, a dict, to the tools as the context of the run.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
from typing import Any, Optional

from ..errors import UnsupportedCaseError
from ..mocked_tools import FEATURES, Mocks
from ..session import Session
from ..tools import find_session
from . import HostedAgent, is_a
from .event_recorder import EventRecorder, adapt_conversations, as_text

_MARK = "evalgate_mocks"
_ROLES = ("user", "assistant", "system", "developer")


def clone_with_mocks(agent: Any, mocks: Mocks) -> Any:
    """Return a clone of the agent in which mocks answer calls of mocked tools.

    The agents in `handoffs` are cloned as well. An agent behind a handoff object is cloned when the handoff
    takes place.

    Raises:
        UnsupportedCaseError: the model's provider runs a mocked tool of an agent that is cloned now.
    """
    return _MockCloner(mocks).clone_agent(agent)


class _MockCloner:
    def __init__(self, mocks: Mocks) -> None:
        self._mocks = mocks
        self._clones: dict[int, tuple[Any, Any]] = {}
        """(agent, clone) by the `id` of the agent. The reference to the agent keeps this id unique."""

    def clone_agent(self, agent: Any) -> Any:
        if getattr(agent, _MARK, None) is self._mocks:
            return agent  # a clone already
        if id(agent) in self._clones:
            return self._clones[id(agent)][1]
        tools = [self._mock_tool(each) for each in agent.tools]
        found = agent.clone(tools=tools, handoffs=[])
        setattr(found, _MARK, self._mocks)
        self._clones[id(agent)] = (agent, found)
        if getattr(agent, "mcp_servers", None):
            self._mock_mcp_tools(found)
        # Agents can hand over in a cycle: the clone must be known before its handoffs are cloned.
        found.handoffs = [self._clone_handoff(each) for each in agent.handoffs]
        return found

    def _mock_mcp_tools(self, clone: Any) -> None:
        """Patch the clone to mock tools of its MCP servers. The servers still list the tools."""
        list_tools = clone.get_mcp_tools

        async def get_mcp_tools(*values: Any, **named: Any) -> list[Any]:
            return [self._mock_tool(each) for each in await list_tools(*values, **named)]

        clone.get_mcp_tools = get_mcp_tools

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


def _install_run_mocks() -> None:
    """Wrap the methods of `Runner`, so that mocks also apply to an agent that a tool runs.

    Methods that are wrapped already are skipped.
    """
    runner = importlib.import_module("agents").Runner
    for name in ("run", "run_sync", "run_streamed"):
        method = getattr(runner, name)
        if not hasattr(method, _MARK):
            setattr(runner, name, _mock_starting_agent(method))


def _mock_starting_agent(run: Any) -> Any:
    @functools.wraps(run)
    def run_mocked(starting_agent: Any, *values: Any, **named: Any) -> Any:
        session = find_session(getattr(starting_agent, "name", "agent"))
        if session is not None and session.mocks:
            try:
                starting_agent = clone_with_mocks(starting_agent, session.mocks)
            except UnsupportedCaseError as error:
                session.mocks.missing = error  # the agent that asked this one may hide the error
                raise
        return run(starting_agent, *values, **named)

    setattr(run_mocked, _MARK, True)
    return staticmethod(run_mocked)


def adapt_agent(agent: object) -> Optional[HostedAgent]:
    """Adapt an agent of the OpenAI Agents SDK; return None for any other object."""
    # `agents` is a common package name: a class of the user's own would have no handoffs.
    if not is_a(agent, "agents", "Agent") or not hasattr(agent, "handoffs"):
        return None
    return adapt_conversations(
        "an agent of the OpenAI Agents SDK", lambda session: _OpenAiConversation(agent, session), *FEATURES
    )


class _OpenAiConversation:
    def __init__(self, agent: Any, session: Session) -> None:
        self._agent = agent
        if session.mocks:
            _install_run_mocks()
            self._agent = clone_with_mocks(agent, session.mocks)
        self._history: list[Any] = _check_context_messages(session)

    async def run_turn(self, text: str, session: Session) -> Optional[str]:
        runner = importlib.import_module("agents").Runner
        messages = [*self._history, {"role": "user", "content": text}]
        try:
            result = await runner.run(self._agent, messages, context=session.state, **_create_hooks(session))
        except Exception as error:
            # The SDK attaches what the run did before it failed.
            done = getattr(error, "run_data", None)
            if done is not None:
                _record_run(done, session)
            raise
        _record_run(result, session)
        self._agent, self._history = result.last_agent, result.to_input_list()
        return as_text(result.final_output)


def _check_context_messages(session: Session) -> list[Any]:
    """Return the messages that precede the conversation, unchanged, after checking them.

    Raises:
        UnsupportedCaseError: a message is not valid for OpenAI's Responses API.
    """
    for message in session.context_messages:
        role, content = message.get("role"), message.get("content")
        # Other items of the API, such as the call of a tool, have a type and no role.
        if "type" not in message and (role not in _ROLES or not isinstance(content, (str, list))):
            raise UnsupportedCaseError(
                f"a context message of role {role!r} with a content of type {type(content).__name__} cannot "
                "be told to an agent of the OpenAI Agents SDK"
            )
    return list(session.context_messages)


def _create_hooks(session: Session) -> dict[str, Any]:
    if session.trace is None:
        return {}
    from .openai_agents_trace import create_trace_hooks

    return {"hooks": create_trace_hooks(session.trace)}


def _record_run(run: Any, session: Session) -> None:
    recorder = EventRecorder(session)
    used = run.context_wrapper.usage
    recorder.record_usage(used.input_tokens, used.output_tokens)
    for item in run.new_items:
        _record_item(item, recorder)


def _record_item(item: Any, recorder: EventRecorder) -> None:
    raw, author = item.raw_item, getattr(getattr(item, "agent", None), "name", None)
    if item.type == "message_output_item":
        recorder.record_text("".join(getattr(part, "text", None) or "" for part in raw.content), author)
    elif item.type in ("tool_call_item", "handoff_call_item"):
        # The provider's own tools have a type and no name.
        name = _get_field(raw, "name") or _get_field(raw, "type") or ""
        recorder.record_call(name, _get_field(raw, "arguments"), _get_field(raw, "call_id"), author)
    elif item.type == "tool_call_output_item":
        recorder.record_result(None, item.output, _get_field(raw, "call_id"), author)
    elif item.type == "handoff_output_item":
        recorder.record_result(
            None, _get_field(raw, "output"), _get_field(raw, "call_id"), item.source_agent.name
        )


def _get_field(raw: Any, key: str) -> Any:
    return raw.get(key) if isinstance(raw, dict) else getattr(raw, key, None)

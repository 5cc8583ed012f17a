"""Adapter for agents of the Microsoft Agent Framework; each conversation has a session of the framework."""

from __future__ import annotations

import importlib
from typing import Any, Optional

from ..session import Session
from . import HostedAgent, is_a
from .event_recorder import (
    EventRecorder,
    adapt_conversations,
    parse_tool_output,
    read_context_messages,
)

_NAME = "an agent of the Microsoft Agent Framework"


def adapt_agent(agent: object) -> Optional[HostedAgent]:
    """Adapt an agent of the Microsoft Agent Framework; return None for any other object."""
    if not is_a(agent, "agent_framework", "BaseAgent"):
        return None
    found = adapt_conversations(_NAME, lambda session: _AgentFrameworkConversation(agent, session))
    return found._replace(shareable=not _is_workflow(agent))


def _is_workflow(agent: object) -> bool:
    return is_a(agent, "agent_framework", "WorkflowAgent")


class _AgentFrameworkConversation:
    def __init__(self, agent: Any, session: Session) -> None:
        self._agent = agent
        # A workflow stores the conversation itself; with a session it would get each message twice.
        self._session = None if _is_workflow(agent) else agent.create_session()
        message = importlib.import_module("agent_framework").Message
        self._unsent = [message(role, [text]) for role, text in read_context_messages(session, _NAME)]
        self._message = message

    async def run_turn(self, text: str, session: Session) -> Optional[str]:
        recorder = EventRecorder(session)
        unsent, self._unsent = self._unsent, []
        messages = [*unsent, self._message("user", [text])]
        response = await self._agent.run(messages, session=self._session)
        used = response.usage_details or {}
        recorder.record_usage(used.get("input_token_count"), used.get("output_token_count"))
        for message in response.messages:
            _record_message(message, recorder)
        return recorder.choose_response(getattr(response, "value", None))


def _record_message(message: Any, recorder: EventRecorder) -> None:
    author = message.author_name
    if message.role == "assistant":
        recorder.record_text(
            "".join(each.text or "" for each in message.contents if each.type == "text"), author
        )
    for content in message.contents:
        if content.type == "function_call":
            recorder.record_call(content.name, content.arguments, content.call_id, author)
        elif content.type == "function_result":
            recorder.record_result(None, parse_tool_output(content.result), content.call_id, author)

"""Adapter for agents and teams of AutoGen. They store messages, so each conversation gets a copy."""

from __future__ import annotations

import importlib
from typing import Any, Iterator, Optional

from ..errors import UnsupportedCaseError
from ..session import Session
from . import HostedAgent, is_a
from .autogen_trace import ToolSteps, current_recorder, trace_clients
from .event_recorder import (
    EventRecorder,
    adapt_conversations,
    as_text,
    parse_tool_output,
    read_context_messages,
)

_NAME = "an agent of AutoGen"
_TEXTS = ("TextMessage", "ThoughtEvent", "ToolCallSummaryMessage", "HandoffMessage", "StopMessage")


def adapt_agent(agent: object) -> Optional[HostedAgent]:
    """Adapt an agent or a team of AutoGen; return None for any other object."""
    if not any(is_a(agent, "autogen_agentchat", name) for name in ("BaseChatAgent", "BaseGroupChat")):
        return None
    found = adapt_conversations(_NAME, lambda session: _AutoGenConversation(agent, session))
    return found._replace(shareable=False, shared_parts=tuple(_find_clients(agent)))


def _find_clients(agent: Any) -> Iterator[object]:
    """Yield the model clients of an agent or a team.

    Copies of the agent may share its clients, which store no conversation, only a count of tokens.
    """
    for name in ("_model_client", "_team"):
        part = getattr(agent, name, None)
        if part is not None:
            yield from _find_clients(part) if name == "_team" else (part,)
    for each in getattr(agent, "_participants", ()):
        yield from _find_clients(each)


class _AutoGenConversation:
    def __init__(self, agent: Any, session: Session) -> None:
        self._agent = agent
        self._unsent = read_context_messages(session, _NAME)
        if self._unsent and not hasattr(agent, "model_context"):
            raise UnsupportedCaseError(
                "messages that precede the conversation cannot be told to a team of AutoGen"
            )

    async def run_turn(self, text: str, session: Session) -> Optional[str]:
        await self._add_context_messages()
        recorder, steps = EventRecorder(session), None
        if session.trace is not None:
            trace_clients(_find_clients(self._agent))
            steps = ToolSteps(session.trace)
        token = current_recorder.set(session.trace)
        try:
            async for message in self._agent.run_stream(task=text):
                if steps is not None:
                    steps.note_message(message)
                _record_message(message, recorder)
        finally:
            current_recorder.reset(token)
        return recorder.response

    async def _add_context_messages(self) -> None:
        models = importlib.import_module("autogen_core.models")
        unsent, self._unsent = self._unsent, []
        for role, text in unsent:
            kind, source = (
                (models.UserMessage, "user")
                if role == "user"
                else (models.AssistantMessage, self._agent.name)
            )
            await self._agent.model_context.add_message(kind(content=text, source=source))


def _record_message(message: Any, recorder: EventRecorder) -> None:
    kind, author = type(message).__name__, getattr(message, "source", None)
    used = getattr(message, "models_usage", None)
    if used is not None:
        recorder.record_usage(used.prompt_tokens, used.completion_tokens)
    if author == "user" or author is None:  # the user's message, or the result, which repeats all messages
        return
    if kind == "ToolCallRequestEvent":
        for call in message.content:
            recorder.record_call(call.name, call.arguments, call.id, author)
    elif kind == "ToolCallExecutionEvent":
        for result in message.content:
            recorder.record_result(result.name, parse_tool_output(result.content), result.call_id, author)
    elif kind in _TEXTS:
        recorder.record_text(message.content, author)
    elif kind == "MultiModalMessage":
        texts = [part for part in message.content if isinstance(part, str)]
        recorder.record_text("\n".join(texts), author)
    # The class is generic: its name ends with the type of the content.
    elif kind.startswith("StructuredMessage"):
        recorder.record_text(as_text(message.content) or "", author)

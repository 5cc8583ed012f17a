"""Adapter for agents and agent workflows of LlamaIndex; each conversation has a context and a memory."""

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

_NAME = "an agent of LlamaIndex"
# Names of the providers for token counts; LlamaIndex passes their answers on as they are.
_TOKENS = (("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens"))


def adapt_agent(agent: object) -> Optional[HostedAgent]:
    """Adapt an agent or an agent workflow of LlamaIndex; return None for any other object."""
    if not any(is_a(agent, "llama_index", name) for name in ("BaseWorkflowAgent", "AgentWorkflow")):
        return None
    return adapt_conversations(_NAME, lambda session: _LlamaIndexConversation(agent, session))


class _LlamaIndexConversation:
    def __init__(self, agent: Any, session: Session) -> None:
        self._agent = agent
        self._context = importlib.import_module("llama_index.core.workflow").Context(agent)
        # A context alone does not keep its memory between runs.
        self._memory = importlib.import_module("llama_index.core.memory").Memory.from_defaults()
        message = importlib.import_module("llama_index.core.llms").ChatMessage
        earlier = read_context_messages(session, _NAME)
        self._unsent = [message(role=role, content=text) for role, text in earlier]

    async def run_turn(self, text: str, session: Session) -> Optional[str]:
        recorder = EventRecorder(session)
        if self._unsent:
            await self._memory.aput_messages(self._unsent)
            self._unsent = []
        running = self._agent.run(user_msg=text, ctx=self._context, memory=self._memory)
        author: Optional[str] = None
        async for event in running.stream_events():
            author = getattr(event, "current_agent_name", author)
            _record_event(event, author, recorder)
        result = await running
        response = recorder.choose_response(getattr(result, "structured_response", None))
        # After a tool with `return_direct`, only the result has the answer: no event has it.
        return response or getattr(getattr(result, "response", None), "content", None)


def _record_event(event: Any, author: Optional[str], recorder: EventRecorder) -> None:
    kind = type(event).__name__
    if kind == "AgentOutput":
        recorder.record_usage(*_count_tokens(event.raw))
        recorder.record_text(event.response.content or "", author)
    elif kind == "ToolCall":
        recorder.record_call(event.tool_name, event.tool_kwargs, event.tool_id, author)
    elif kind == "ToolCallResult":
        output = event.tool_output
        is_json = isinstance(output.raw_output, (str, int, float, bool, dict, list))
        result = output.raw_output if is_json else parse_tool_output(output.content)
        recorder.record_result(event.tool_name, result, event.tool_id, author)


def _count_tokens(raw: Any) -> tuple[object, object]:
    used = _get_value(raw, "usage")
    for names in _TOKENS:
        found = tuple(_get_value(used, name) for name in names)
        if any(isinstance(each, int) for each in found):
            return found[0], found[1]
    return None, None


def _get_value(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)

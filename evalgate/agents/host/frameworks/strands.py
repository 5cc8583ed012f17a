"""Adapter for agents of Strands Agents. They store messages, so each conversation gets a copy.

A hook of the framework records each message when the agent adds it to the conversation.
"""

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
from .strands_trace import StrandsSteps

_NAME = "an agent of Strands"


def adapt_agent(agent: object) -> Optional[HostedAgent]:
    """Adapt an agent of Strands; return None for any other object."""
    if not is_a(agent, "strands", "Agent"):
        return None
    return adapt_conversations(_NAME, lambda session: _StrandsConversation(agent, session))._replace(
        shareable=False
    )


class _StrandsConversation:
    def __init__(self, agent: Any, session: Session) -> None:
        self._agent = agent
        self._recorder: Optional[EventRecorder] = None
        for role, text in read_context_messages(session, _NAME):
            agent.messages.append({"role": role, "content": [{"text": text}]})
        for key, value in session.state.items():
            agent.state.set(key, value)
        added = importlib.import_module("strands.hooks").MessageAddedEvent
        agent.hooks.add_callback(added, lambda event: self._record_message(event.message))
        if session.trace is not None:
            StrandsSteps(agent, session.trace)

    async def run_turn(self, text: str, session: Session) -> Optional[str]:
        self._recorder = recorder = EventRecorder(session)
        before = self._count_tokens()
        try:
            result = await self._agent.invoke_async(text)
        finally:
            now = self._count_tokens()
            recorder.record_usage(now[0] - before[0], now[1] - before[1])
            session.state = self._agent.state.get()
        return recorder.choose_response(getattr(result, "structured_output", None))

    def _count_tokens(self) -> tuple[int, int]:
        used = self._agent.event_loop_metrics.accumulated_usage
        return used["inputTokens"], used["outputTokens"]

    def _record_message(self, message: Any) -> None:
        # Messages before the first turn belong to no turn.
        if self._recorder is None:
            return
        if message["role"] == "assistant":
            self._recorder.record_text("".join(block.get("text") or "" for block in message["content"]))
        for block in message["content"]:
            call, answer = block.get("toolUse"), block.get("toolResult")
            if call:
                self._recorder.record_call(call["name"], call["input"], call["toolUseId"])
            if answer:
                self._recorder.record_result(None, _read_content(answer["content"]), answer["toolUseId"])


def _read_content(blocks: Any) -> object:
    results = [
        block["json"] if "json" in block else parse_tool_output(block.get("text", "")) for block in blocks
    ]
    return results[0] if len(results) == 1 else results

"""Agents of Strands Agents, which keep their conversation: each conversation needs one of its own.

Hooks of the framework tell each message in the moment in which the agent adds it to the conversation.
"""

from __future__ import annotations

import importlib
from typing import Any, Optional

from ..session import Session  # noqa: TID252  the package has two names; an absolute import would fix one
from . import Host, is_a
from .event_recorder import Telling, as_text, hosted, read_earlier, read_result, refuse_attachments

_NAME = "an agent of Strands"


def host(agent: object) -> Optional[Host]:
    """Return a host for an agent of Strands, else None."""
    if not is_a(agent, "strands", "Agent"):
        return None
    return hosted(lambda session: _Conversation(agent, session))._replace(shareable=False)


class _Conversation:
    def __init__(self, agent: Any, session: Session) -> None:
        self._agent = agent
        self._telling: Optional[Telling] = None
        for role, text in read_earlier(session, _NAME):
            agent.messages.append({"role": role, "content": [{"text": text}]})
        for key, value in session.state.items():
            agent.state.set(key, value)
        added = importlib.import_module("strands.hooks").MessageAddedEvent
        agent.hooks.add_callback(added, lambda event: self._tell(event.message))

    async def turn(self, text: str, session: Session) -> Optional[str]:
        refuse_attachments(session, _NAME)
        self._telling = telling = Telling(session)
        before = self._count_tokens()
        try:
            result = await self._agent.invoke_async(text)
        finally:
            now = self._count_tokens()
            telling.used(now[0] - before[0], now[1] - before[1])
            session.state = self._agent.state.get()
        structured = getattr(result, "structured_output", None)
        return telling.response if structured is None else as_text(structured)

    def _count_tokens(self) -> tuple[int, int]:
        used = self._agent.event_loop_metrics.accumulated_usage
        return used["inputTokens"], used["outputTokens"]

    def _tell(self, message: Any) -> None:
        # What the framework adds before the first turn is no part of any.
        if self._telling is None:
            return
        if message["role"] == "assistant":
            self._telling.says("".join(block.get("text") or "" for block in message["content"]))
        for block in message["content"]:
            call, answer = block.get("toolUse"), block.get("toolResult")
            if call:
                self._telling.calls(call["name"], call["input"], call["toolUseId"])
            if answer:
                self._telling.answers(None, _read_content(answer["content"]), answer["toolUseId"])


def _read_content(blocks: Any) -> object:
    found = [block["json"] if "json" in block else read_result(block.get("text", "")) for block in blocks]
    return found[0] if len(found) == 1 else found

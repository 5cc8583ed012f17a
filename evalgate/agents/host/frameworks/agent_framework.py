"""Agents of the Microsoft Agent Framework, with a session of the framework for each conversation."""

from __future__ import annotations

import importlib
from typing import Any, Optional

from ..session import Session  # noqa: TID252  the package has two names; an absolute import would fix one
from . import Host, is_a
from .event_recorder import Telling, as_text, hosted, read_earlier, read_result, refuse_attachments

_NAME = "an agent of the Microsoft Agent Framework"


def host(agent: object) -> Optional[Host]:
    """Return a host for an agent of the framework, else None."""
    if not is_a(agent, "agent_framework", "BaseAgent"):
        return None
    found = hosted(lambda session: _Conversation(agent, session))
    return found._replace(shareable=not _is_workflow(agent))


def _is_workflow(agent: object) -> bool:
    return is_a(agent, "agent_framework", "WorkflowAgent")


class _Conversation:
    def __init__(self, agent: Any, session: Session) -> None:
        self._agent = agent
        # A workflow keeps what was said, and would be told it again from a session.
        self._session = None if _is_workflow(agent) else agent.create_session()
        message = importlib.import_module("agent_framework").Message
        self._unsaid = [message(role, [text]) for role, text in read_earlier(session, _NAME)]
        self._message = message

    async def turn(self, text: str, session: Session) -> Optional[str]:
        refuse_attachments(session, _NAME)
        telling = Telling(session)
        unsaid, self._unsaid = self._unsaid, []
        asked = [*unsaid, self._message("user", [text])]
        response = await self._agent.run(asked, session=self._session)
        used = response.usage_details or {}
        telling.used(used.get("input_token_count"), used.get("output_token_count"))
        for message in response.messages:
            _tell(message, telling)
        value = getattr(response, "value", None)
        return telling.response if value is None else as_text(value)


def _tell(message: Any, telling: Telling) -> None:
    author = message.author_name
    if message.role == "assistant":
        telling.says("".join(each.text or "" for each in message.contents if each.type == "text"), author)
    for content in message.contents:
        if content.type == "function_call":
            telling.calls(content.name, content.arguments, content.call_id, author)
        elif content.type == "function_result":
            telling.answers(None, read_result(content.result), content.call_id, author)

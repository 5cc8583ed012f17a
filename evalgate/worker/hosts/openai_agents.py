"""Agents of the OpenAI Agents SDK, asked through its own Runner.

A later turn goes to the agent that answered last, with everything that was said. The session's state is the
run's context, for tools that take a dict.
"""

from __future__ import annotations

import importlib
from typing import Any, Optional

from ..mocks import FEATURE  # noqa: TID252
from ..session import Session  # noqa: TID252  the package has two names; an absolute import would fix one
from . import Host, is_a
from .openai_mocks import mocking
from .telling import Telling, as_text, hosted, refuse_attachments


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

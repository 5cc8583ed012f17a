"""An agent of LangChain on LangGraph."""

import asyncio
import json

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from script import Hang, act, get_forecast


class Scripted(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, *_, **__):
        raise NotImplementedError

    async def _agenerate(self, messages, *_, **__):
        said = [message.content for message in messages if message.type == "human"]
        last = messages[-1]
        try:
            found = act(said, json.loads(last.content) if last.type == "tool" else None)
        except Hang:
            await asyncio.sleep(600)
        if isinstance(found, str):
            answer = AIMessage(found)
        else:
            answer = AIMessage("", tool_calls=[{"name": found[0], "args": found[1], "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])


agent = create_agent(Scripted(), [get_forecast])

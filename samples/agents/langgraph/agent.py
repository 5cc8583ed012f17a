"""An agent of LangChain on LangGraph. Its model is scripted, so that the sample needs no key."""

import json
import re

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool


@tool
def get_forecast(city: str) -> dict:
    """The forecast for a city."""
    return {"city": city, "forecast": "sunny"}


class Scripted(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        cities = re.findall(r"\bin (\w+)", " ".join(str(message.content) for message in messages))
        if messages[-1].type == "tool":
            found = json.loads(messages[-1].content)
            answer = AIMessage(f"{found['city']}: {found['forecast']}.")
        elif cities:
            answer = AIMessage("", tool_calls=[{"name": "get_forecast", "args": {"city": cities[-1]}, "id": "1"}])
        else:
            answer = AIMessage("Which city?")
        return ChatResult(generations=[ChatGeneration(message=answer)])


agent = create_agent(Scripted(), [get_forecast])

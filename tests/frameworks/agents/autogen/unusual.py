"""Agents of AutoGen that answer with a text and pictures, or whose tools return texts like Python literals."""

from typing import Any

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import MultiModalMessage
from desk import Scripted


class Drawing(BaseChatAgent):
    """Answers with two texts."""

    @property
    def produced_message_types(self) -> Any:
        return (MultiModalMessage,)

    async def on_messages(self, *_: Any) -> Response:
        return Response(chat_message=MultiModalMessage(content=["A picture", "of it."], source=self.name))

    async def on_reset(self, *_: Any) -> None: ...


async def get_order(order_id: str) -> str:
    """Looks an order up."""
    return "{(1,2): 'x'}"


drawing = Drawing("drawing", "Draws.")
agent = AssistantAgent("desk", Scripted(), tools=[get_order], reflect_on_tool_use=True)

"""An agent of LlamaIndex with a tool whose result is the answer."""

from typing import Any

from desk import Scripted
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool


async def get_order(order_id: str) -> str:
    """Looks an order up."""
    return f"Order {order_id} is lost."


tool: Any = FunctionTool.from_defaults(async_fn=get_order, return_direct=True)
agent = FunctionAgent(name="desk", description="Answers.", tools=[tool], llm=Scripted())

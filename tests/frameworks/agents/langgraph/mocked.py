"""A graph that says which of its tools were called for real, and one with tools in threads of its own."""

from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel, Field
from pydantic.v1 import BaseModel as OldModel
from scripted import ScriptedModel

CALLED: list[str] = []


class Scripted(ScriptedModel):
    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        if messages[-1].type == "tool":
            found = ", ".join(str(each.content) for each in messages if each.type == "tool")
            return AIMessage(f"{found}; called for real: {', '.join(sorted(CALLED)) or 'nothing'}")
        named = (("find_order", {"order_id": "5"}), ("refund", {"amount": 1}))
        return AIMessage("", tool_calls=[{"name": name, "args": args, "id": name} for name, args in named])


@tool
def find_order(order_id: str, state: Annotated[dict[str, Any], InjectedState]) -> dict[str, int]:
    """Find an order."""
    CALLED.append(f"find_order of {len(state['messages'])} messages")
    return {"total": 9}


@tool(response_format="content_and_artifact")
async def refund(amount: int) -> tuple[str, int]:
    """Refund an order."""
    CALLED.append("refund")
    return f"refunded {amount}", amount


agent = create_agent(Scripted(), [find_order, refund])


class Named(Scripted):
    """Calls the tool that the user names."""

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        if messages[-1].type == "tool":
            return super().answer(messages)
        name = str(messages[-1].content)
        args = {"orderId": "5"} if name == "by_alias" else {"order_id": "5"}
        return AIMessage("", tool_calls=[{"name": name, "args": args, "id": name}])


class Order(BaseModel):
    order_id: str


class AliasedOrder(BaseModel):
    order_id: str = Field(alias="orderId")


class OldOrder(OldModel):
    order_id: str


SCHEMA = {"title": "order", "type": "object", "properties": {"order_id": {"type": "string"}}}


@tool(args_schema=SCHEMA)
def by_schema(order_id: str, state: Annotated[dict[str, Any], InjectedState], runtime: ToolRuntime) -> str:
    """Find an order."""
    CALLED.append(f"by_schema of {len(state['messages'])} messages, {runtime.tool_call_id}")
    return "found"


@tool(args_schema={"title": "order", "type": "object"})
def without_properties(order_id: str) -> str:
    """Find an order."""
    CALLED.append("without_properties")
    return "found"


@tool(args_schema=Order)
def by_model(order_id: str, runtime: ToolRuntime) -> str:
    """Find an order."""
    CALLED.append(f"by_model {runtime.tool_call_id}")
    return "found"


@tool(args_schema=AliasedOrder)
def by_alias(order_id: str, runtime: ToolRuntime) -> str:
    """Find an order."""
    CALLED.append(f"by_alias {runtime.tool_call_id}")
    return "found"


@tool(args_schema=OldOrder)
def by_old_model(order_id: str) -> str:
    """Find an order."""
    CALLED.append("by_old_model")
    return "found"


injecting = create_agent(Named(), [by_schema, without_properties, by_model, by_alias, by_old_model])

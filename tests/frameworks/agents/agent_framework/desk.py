"""Agents of the Microsoft Agent Framework, with a scripted model."""

from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    UsageDetails,
    WorkflowBuilder,
)


class Scripted(BaseChatClient):
    def _inner_get_response(self, *, messages: Any, **_: Any) -> Any:
        async def respond() -> ChatResponse:
            used = UsageDetails(input_token_count=10, output_token_count=4)
            return ChatResponse(messages=[Message("assistant", _script(messages))], usage_details=used)

        return respond()


class Client(FunctionInvocationLayer, Scripted): ...


def _script(messages: Any) -> list[Any]:
    last = messages[-1]
    if last.role == "tool":
        return ["Order 5 has shipped."]
    if last.text == "boom":
        raise RuntimeError("no model")
    if last.text.startswith("Where"):
        call = Content.from_function_call("call-1", "get_order", arguments='{"order_id": "5"}')
        return [Content.from_text("Let me look."), call]
    return ["You said: " + ", ".join(each.text for each in messages if each.role == "user")]


def get_order(order_id: str) -> dict[str, str]:
    """Looks an order up."""
    return {"order_id": order_id, "status": "shipped"}


agent = Agent(Client(), name="desk", tools=[get_order])
workflow = WorkflowBuilder(start_executor=agent).build()


def make_agent() -> Any:
    return WorkflowBuilder(start_executor=Agent(Client(), name="desk")).build().as_agent()

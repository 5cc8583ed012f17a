"""Agents of AutoGen, with a scripted model."""

import threading
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage


class Scripted(ChatCompletionClient):
    component_type = "model"

    def __init__(self) -> None:
        self.connection = threading.Lock()  # what cannot be copied, as in a real client

    async def create(self, messages: Any, **_: Any) -> CreateResult:
        content, thought = _script(messages)
        return CreateResult(
            finish_reason="stop" if isinstance(content, str) else "function_calls",
            content=content,
            usage=RequestUsage(10, 4),
            cached=False,
            thought=thought,
        )

    def create_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None: ...

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    total_usage = actual_usage

    def count_tokens(self, *_: Any, **__: Any) -> int:
        return 0

    remaining_tokens = count_tokens

    @property
    def capabilities(self) -> ModelInfo:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False
        )


def _script(messages: Any) -> tuple[Any, str | None]:
    last = messages[-1]
    if type(last).__name__ == "FunctionExecutionResultMessage":
        return "Order 5 has shipped.", None
    if last.content == "boom":
        raise RuntimeError("no model")
    if last.content.startswith("Where"):
        call = FunctionCall(id="call-1", name="get_order", arguments='{"order_id": "5"}')
        return [call], "Let me look."
    said = [each.content for each in messages if type(each).__name__ == "UserMessage"]
    return "You said: " + ", ".join(said), None


async def get_order(order_id: str) -> dict[str, str]:
    """Looks an order up."""
    return {"order_id": order_id, "status": "shipped"}


agent = AssistantAgent("desk", Scripted(), tools=[get_order], reflect_on_tool_use=True)
team = RoundRobinGroupChat(
    [AssistantAgent("clerk", Scripted()), AssistantAgent("chief", Scripted())],
    termination_condition=MaxMessageTermination(3),
)

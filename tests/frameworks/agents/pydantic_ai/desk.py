"""Agents of Pydantic AI, with a scripted model."""

from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, RunContext, ToolOutput
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage


def _script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=_parts(messages), usage=RequestUsage(input_tokens=10, output_tokens=4))


def _parts(messages: list[ModelMessage]) -> list[Any]:
    last = messages[-1].parts[-1]
    if last.part_kind == "tool-return":
        return [TextPart("Order 5 has shipped.")]
    if last.content == "boom":
        raise RuntimeError("no model")
    if last.part_kind == "retry-prompt":
        return [TextPart("I cannot.")]
    if last.content == "scrawl":
        return [ToolCallPart("get_order", '{"order_id":', tool_call_id="call-1")]
    if last.content.startswith("Where"):
        call = ToolCallPart("get_order", {"order_id": "5"}, tool_call_id="call-1")
        return [TextPart("Let me look."), call]
    said = [part.content for each in messages for part in each.parts if part.part_kind == "user-prompt"]
    return [TextPart("You said: " + ", ".join(said))]


agent = Agent(FunctionModel(_script), deps_type=dict[str, Any])


@agent.tool
def get_order(context: RunContext[dict[str, Any]], order_id: str) -> dict[str, str]:
    """Looks an order up."""
    context.deps.setdefault("seen", []).append(order_id)
    return {"order_id": order_id, "status": "shipped"}


class Place(BaseModel):
    city: str


def _typed(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"city": "Rome"})])


typed = Agent(FunctionModel(_typed), output_type=Place)
named = Agent(FunctionModel(_typed), deps_type=dict, output_type=ToolOutput(Place, name="give_place"))

"""Agents of the OpenAI Agents SDK, with a scripted model."""

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, ModelResponse, RunContextWrapper, Usage, function_tool, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic import BaseModel

set_tracing_disabled(True)


def says(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])


def calls(name: str, arguments: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(type="function_call", call_id="call-1", name=name, arguments=arguments)


class Scripted(Model):
    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        output = _script(system_instructions, input)
        used = Usage(requests=1, input_tokens=10, output_tokens=4, total_tokens=14)
        return ModelResponse(output=output, usage=used, response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _script(instructions: str | None, items: list[Any]) -> list[Any]:
    last = items[-1]
    if instructions == "typed":
        return [says('{"city":"Rome"}')]
    if last.get("type") == "function_call_output" and "Order" not in str(last["output"]):
        return [says("Order 5 has shipped.")] if instructions != "books" else [says("Booked.")]
    content = last["content"]
    if content == "boom":
        raise RuntimeError("no model")
    if content.startswith("Where"):
        return [says("Let me look."), calls("get_order", '{"order_id": "5"}')]
    if content.startswith("Book"):
        return [calls("transfer_to_booking", "{}")]
    said = [each["content"] for each in items if each.get("role") == "user"]
    return [says(("booking: " if instructions == "books" else "") + "You said: " + ", ".join(said))]


@function_tool
def get_order(context: RunContextWrapper[dict[str, Any]], order_id: str) -> dict[str, str]:
    """Looks an order up."""
    context.context.setdefault("seen", []).append(order_id)
    return {"order_id": order_id, "status": "shipped"}


class Place(BaseModel):
    city: str


booking = Agent(name="booking", instructions="books", model=Scripted())
agent = Agent(name="desk", model=Scripted(), tools=[get_order], handoffs=[booking])
typed = Agent(name="typed", instructions="typed", model=Scripted(), output_type=Place)

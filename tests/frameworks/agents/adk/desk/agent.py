"""One agent with tools, state and callbacks, of the structure of Google's customer-service sample."""

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import ToolContext
from scripted import Scripted, answers, asked


def get_order(order_id: str, tool_context: ToolContext) -> dict[str, Any]:
    """Looks an order up."""
    seen = tool_context.state.get("seen", [])
    tool_context.state["seen"] = [*seen, order_id]
    return {"order_id": order_id, "status": "shipped"}


def cancel_order(order_id: str, reason: str = "") -> dict[str, Any]:
    """Cancels an order."""
    raise RuntimeError(f"the backend for {order_id} is down")


def _script(request: LlmRequest) -> object:
    said, found = asked(request), answers(request)
    if said == "boom":
        raise RuntimeError("no model")
    if said == "filtered":
        return LlmResponse(error_code="SAFETY", error_message="not that")
    if said == "silence":
        return [""]
    if said == "日本":
        return ["東京は18度です"]
    if said.startswith("Cancel"):
        return [("cancel_order", {"order_id": "7"})]
    if said.startswith("Where") and not found:
        return ["Let me look.", ("get_order", {"order_id": said.split()[-1].strip("?")})]
    if said.startswith("Both") and not found:
        return [("get_order", {"order_id": "1"}), ("get_order", {"order_id": "2"})]
    if found:
        return ["; ".join(f"Order {each['order_id']} has {each['status']}." for each in found)]
    return [f"Hello, how can I help? ({len(request.contents)})"]


def _greet(callback_context: Any) -> None:
    callback_context.state["turns"] = callback_context.state.get("turns", 0) + 1
    callback_context.state["temp:scratch"] = "gone after the turn"


root_agent = LlmAgent(
    name="desk",
    model=Scripted(script=_script),
    instruction="You answer for {shop?}.",
    tools=[get_order, cancel_order],
    output_key="answer",
    before_agent_callback=_greet,
)

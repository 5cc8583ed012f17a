"""Agents of smolagents, with a scripted model."""

from typing import Any

from smolagents import CodeAgent, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import TokenUsage


def _call(name: str, arguments: dict[str, Any]) -> ChatMessageToolCall:
    function = ChatMessageToolCallFunction(name=name, arguments=arguments)
    return ChatMessageToolCall(function=function, id="call-1", type="function")


def _answer(content: str, *calls: ChatMessageToolCall) -> ChatMessage:
    used = TokenUsage(10, 4)
    return ChatMessage(MessageRole.ASSISTANT, content, tool_calls=list(calls) or None, token_usage=used)


def _text(message: Any) -> str:
    return "".join(part.get("text") or "" for part in message.content)


class Scripted(Model):
    def generate(self, messages: Any, *_: Any, **__: Any) -> ChatMessage:
        last = _text(messages[-1])
        if last.startswith("Observation:"):
            return _answer("", _call("final_answer", {"answer": "Order 5 has shipped."}))
        said = [_text(each).removeprefix("New task:\n") for each in messages if each.role == MessageRole.USER]
        if said[-1] == "boom":
            raise RuntimeError("no model")
        if said[-1].startswith("Where"):
            return _answer("Let me look.", _call("get_order", {"order_id": "5"}))
        return _answer("", _call("final_answer", {"answer": "You said: " + ", ".join(said)}))


class Coding(Model):
    def generate(self, messages: Any, *_: Any, **__: Any) -> ChatMessage:
        return _answer('Let me look.\n<code>\norder = get_order("5")\nfinal_answer(order["status"])\n</code>')


@tool
def get_order(order_id: str) -> dict:
    """Looks an order up.

    Args:
        order_id: Its number.
    """
    return {"order_id": order_id, "status": "shipped"}


agent = ToolCallingAgent(tools=[get_order], model=Scripted(), verbosity_level=0)
coding = CodeAgent(tools=[get_order], model=Coding(), verbosity_level=0)

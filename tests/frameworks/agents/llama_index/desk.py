"""Agents of LlamaIndex, with a scripted model."""

from collections.abc import AsyncIterator
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata, MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection


class Scripted(MockLLM, FunctionCallingLLM):
    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, model_name="scripted")

    def _prepare_chat_with_tools(self, *_: Any, **__: Any) -> dict[str, Any]:
        raise NotImplementedError

    async def astream_chat_with_tools(self, *_: Any, chat_history: Any, **__: Any) -> AsyncIterator[Any]:
        async def respond() -> AsyncIterator[ChatResponse]:
            text, calls = _script(chat_history)
            message = ChatMessage(role="assistant", content=text, additional_kwargs={"tool_calls": calls})
            used = {"usage": {"prompt_tokens": 10, "completion_tokens": 4}}
            yield ChatResponse(message=message, delta=text, raw=used)

        return respond()

    def get_tool_calls_from_response(self, response: ChatResponse, **_: Any) -> list[ToolSelection]:
        return response.message.additional_kwargs["tool_calls"]


def _script(messages: Any) -> tuple[str, list[ToolSelection]]:
    last = messages[-1]
    if last.role == "tool":
        return "Order 5 has shipped.", []
    if last.content == "boom":
        raise RuntimeError("no model")
    if last.content.startswith("Where"):
        call = ToolSelection(tool_id="call-1", tool_name="get_order", tool_kwargs={"order_id": "5"})
        return "Let me look.", [call]
    return "You said: " + ", ".join(each.content for each in messages if each.role == "user"), []


async def get_order(order_id: str) -> dict[str, str]:
    """Looks an order up."""
    return {"order_id": order_id, "status": "shipped"}


agent = FunctionAgent(name="desk", description="Answers.", tools=[get_order], llm=Scripted())
workflow = AgentWorkflow(agents=[agent], root_agent="desk")
engine = SimpleChatEngine.from_defaults(llm=Scripted())

"""A graph that says which of its tools were called for real, and one with tools in threads of its own."""

from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.prebuilt import InjectedState

CALLED: list[str] = []


class Scripted(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> "Scripted":
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        if messages[-1].type == "tool":
            found = ", ".join(str(each.content) for each in messages if each.type == "tool")
            answer = AIMessage(f"{found}; called for real: {', '.join(sorted(CALLED)) or 'nothing'}")
        else:
            named = (("find_order", {"order_id": "5"}), ("refund", {"amount": 1}))
            calls = [{"name": name, "args": args, "id": name} for name, args in named]
            answer = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


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

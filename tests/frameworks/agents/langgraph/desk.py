"""An agent of LangChain on LangGraph, with a scripted model."""

import operator
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from scripted import ScriptedModel


class Scripted(ScriptedModel):
    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        used = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}
        return AIMessage(**_script(messages), usage_metadata=used)


def _script(messages: list[BaseMessage]) -> dict[str, Any]:
    last = messages[-1]
    if last.type == "tool":
        return {"content": "Order 5 has shipped."}
    if last.content == "boom":
        raise RuntimeError("no model")
    if last.content.startswith("Where"):
        call = {"name": "get_order", "args": {"order_id": "5"}, "id": "call-1"}
        return {"content": [{"type": "text", "text": "Let me look."}], "tool_calls": [call]}
    said = [message.content for message in messages if message.type == "human"]
    return {"content": "You said: " + ", ".join(said)}


@tool
def get_order(order_id: str) -> dict[str, str]:
    """Looks an order up."""
    return {"order_id": order_id, "status": "shipped"}


agent = create_agent(Scripted(), [get_order])
remembering = create_agent(Scripted(), [get_order], checkpointer=InMemorySaver())
model = Scripted()
chain = ChatPromptTemplate.from_messages([("human", "{question}")]) | Scripted()
with_tool = RunnableLambda(lambda text: get_order.invoke({"order_id": text})["status"])
two_inputs = ChatPromptTemplate.from_messages([("human", "{question} {place}")]) | Scripted()


class Counting(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    count: Annotated[int, operator.add]


def _count(state: Counting) -> dict[str, Any]:
    return {"count": 1, "messages": [AIMessage(f"count was {state['count']}", name="counter")]}


_builder = StateGraph(Counting)
_builder.add_node("count", _count)
_builder.add_edge(START, "count")
_builder.add_edge("count", END)
counting = _builder.compile(checkpointer=InMemorySaver())
not_compiled = _builder


def _book(state: MessagesState) -> dict[str, Any]:
    seat = interrupt("Which seat?")
    sure = interrupt({"sure": seat})
    return {"messages": [AIMessage(f"{seat}: {sure}")]}


_asking = StateGraph(MessagesState)
_asking.add_node("begin", lambda _: {"messages": [AIMessage("Let me book.")]})
_asking.add_node("book", _book)
_asking.add_edge(START, "begin")
_asking.add_edge("begin", "book")
_asking.add_edge("book", END)
asking = _asking.compile(checkpointer=InMemorySaver())


class Question(TypedDict):
    question: str
    answer: str


_plain = StateGraph(Question, input_schema=TypedDict("Asked", {"question": str}))
_plain.add_node("answer", lambda state: {"answer": state["question"].upper()})
_plain.add_edge(START, "answer")
plain = _plain.compile()


class Chain(Runnable):
    """Keeps what was said, as LangChain's older chains do."""

    def __init__(self) -> None:
        self.memory: list[str] = []

    def invoke(self, input: str, *_: Any, **__: Any) -> str:
        self.memory.append(input)
        return ", ".join(self.memory)


with_memory = Chain()

"""Graphs and runnables whose messages, tools and state are unusual, with a scripted model."""

from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, PIIMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from scripted import ScriptedModel


class Scripted(ScriptedModel):
    """Calls the tool that the user names, and repeats its result; without a tool, it writes an address."""

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        last = messages[-1]
        if last.type == "tool":
            return AIMessage(f"It is {last.content[:5]}.")
        if last.content.endswith("_it"):
            return AIMessage("", tool_calls=[{"name": last.content, "args": {"word": "plain"}, "id": "call-1"}])
        return AIMessage("Write to ada@example.com.")


@tool
def repeat_it(word: str) -> str:
    """Repeat a word."""
    return word


@tool
def nest_it(word: str) -> str:
    """Return a text that begins as JSON does and is nested too deep for it."""
    return "[" * 200_000


@tool
def break_it(word: str) -> str:
    """Fail."""
    raise ValueError("broken")


class Editing(AgentMiddleware[Any, Any]):
    """Replaces the arguments of a call before the tool runs."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        last = state["messages"][-1]
        calls = [{**call, "args": {"word": "edited"}} for call in last.tool_calls]
        return {"messages": [AIMessage(last.content, id=last.id, tool_calls=calls)]} if calls else None


class Kept(TypedDict):
    messages: Annotated[list[Any], add_messages]
    found: Any


class Replaced(TypedDict):
    messages: list[Any]
    """Without a reducer: what a node returns replaces all messages."""


def _compile(state: type, node: Any) -> Any:
    builder = StateGraph(state)
    builder.add_node("answer", node)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile()


def _catch(text: str) -> str:
    try:
        return str(break_it.invoke({"word": text}))
    except ValueError:
        return "caught"


itself: list[Any] = []
itself.append(itself)
plain = create_agent(Scripted(), [repeat_it, nest_it])
redacting = create_agent(
    Scripted(), [], middleware=[PIIMiddleware("email", strategy="redact", apply_to_output=True)]
)
editing = create_agent(Scripted(), [repeat_it], middleware=[Editing()])
keeping = _compile(
    Kept, lambda _: {"messages": [AIMessage("kept")], "found": {("a", 1): itself, "b": {2}}}
)
circular = _compile(Kept, lambda _: {"messages": [AIMessage("kept")], "found": itself})
replacing = _compile(
    Replaced, lambda state: {"messages": [AIMessage(f"of {len(state['messages'])}: {state['messages'][-1]}")]}
)
catching = RunnableLambda(_catch)

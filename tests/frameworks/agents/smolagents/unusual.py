"""Agents of smolagents that share a tool, call tools at the same time, and answer with objects."""

import time
from decimal import Decimal
from typing import Any

from desk import _answer, _call, _text
from smolagents import CodeAgent, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

OBJECTS = {"decimal": Decimal("1.50"), "tuples": {(1, 2): "x"}, "set": {1}}


class Calling(Model):
    """Calls the tools that the user names ("wait 3 wait 0"), then answers with what they returned."""

    def generate(self, messages: Any, *_: Any, **__: Any) -> ChatMessage:
        last = _text(messages[-1])
        if last.startswith("Observation:"):
            return _answer("", _call("final_answer", {"answer": last.splitlines()[-1]}))
        said = [_text(each) for each in messages if each.role == MessageRole.USER][-1]
        words = ["wait", "1"] if "helpful agent" in said else said.removeprefix("New task:").split()
        if words == ["helper", "1"]:
            return _answer("", _call("helper", {"task": "wait"}))
        named = [(words[at], words[at + 1]) for at in range(0, len(words), 2)]
        return _answer("", *(_make_call(f"call-{at}", *each) for at, each in enumerate(named)))


def _make_call(id_: str, name: str, seconds: str) -> ChatMessageToolCall:
    function = ChatMessageToolCallFunction(name=name, arguments={"seconds": int(seconds)})
    return ChatMessageToolCall(function=function, id=id_, type="function")


class Answering(Model):
    """Answers with the object that the user names."""

    def generate(self, messages: Any, *_: Any, **__: Any) -> ChatMessage:
        said = _text(messages[-1]).split()[-1]
        return _answer(f'<code>\nfinal_answer(get_object("{said}"))\n</code>')


@tool
def wait(seconds: int) -> str:
    """Wait.

    Args:
        seconds: How long, in tenths.
    """
    time.sleep(seconds / 10)
    return f"waited {seconds}"


@tool
def get_object(name: str) -> object:
    """Return an object.

    Args:
        name: Its name.
    """
    return OBJECTS[name]


helper = ToolCallingAgent(
    tools=[wait], model=Calling(), name="helper", description="Helps.", verbosity_level=0
)
sharing = ToolCallingAgent(tools=[wait], model=Calling(), managed_agents=[helper], verbosity_level=0)
answering = CodeAgent(tools=[get_object], model=Answering(), verbosity_level=0)

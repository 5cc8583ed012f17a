"""Agents of Google ADK with unusual tools and events, and one whose tool asks another agent."""

from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.tools import AgentTool, ToolContext
from google.genai import types
from scripted import Scripted, answers, asked


def odd(tool_context: ToolContext) -> dict[str, Any]:
    """Returns what JSON cannot hold, and stores it."""
    tool_context.state["odd"] = {(1, 2): "x"}
    return {"odd": {(1, 2): "x"}, "even": 2}


def _call(request: LlmRequest) -> list[Any]:
    if answers(request):
        return ["Done."]
    return [(asked(request), {} if asked(request) == "odd" else {"request": "odd"})]


inner = LlmAgent(name="inner", model=Scripted(script=_call), tools=[odd])
outer = LlmAgent(name="outer", model=Scripted(script=_call), tools=[AgentTool(inner)])


class Streaming(BaseAgent):
    """Sends its answer in parts, and then the whole of it."""

    async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Event]:
        for text, is_partial in (("Hel", True), ("lo", True), ("Hello", False)):
            content = types.Content(role="model", parts=[types.Part(text=text)])
            yield Event(author=self.name, partial=is_partial, content=content)


streaming = Streaming(name="streaming")

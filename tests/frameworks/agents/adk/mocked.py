"""Agents of Google ADK with tools that no callback can answer, and agents that ask other agents."""

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.models.llm_request import LlmRequest
from google.adk.tools import AgentTool, google_search
from scripted import Scripted, answers, asked

searching = LlmAgent(name="searching", model=Scripted(script=lambda _: ["Done."]), tools=[google_search])
computing = LlmAgent(name="computing", model=Scripted(script=lambda _: ["Done."]), code_executor=UnsafeLocalCodeExecutor())


def pay_back() -> str:
    """Pays a refund."""
    return "paid"


def _delegate(request: LlmRequest) -> list[Any]:
    found = answers(request)
    return [str(found[0]["result"])] if found else [(asked(request), {} if asked(request) == "pay_back" else ASK)]


ASK = {"request": "pay_back"}
refunder, lone = (LlmAgent(name=each, model=Scripted(script=_delegate), tools=[pay_back]) for each in ("refunder", "lone"))
delegating = LlmAgent(
    name="delegating",
    model=Scripted(script=_delegate),
    tools=[AgentTool(refunder)],
)
isolating = LlmAgent(
    name="isolating", model=Scripted(script=_delegate), tools=[AgentTool(lone, include_plugins=False)]
)
finding = LlmAgent(name="finding", model=Scripted(script=_delegate), tools=[AgentTool(searching)])

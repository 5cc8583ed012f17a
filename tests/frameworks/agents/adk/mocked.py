"""Agents of Google ADK with tools that no callback can answer."""

from google.adk.agents import LlmAgent
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.tools import google_search
from scripted import Scripted

searching = LlmAgent(name="searching", model=Scripted(script=lambda _: ["Done."]), tools=[google_search])
computing = LlmAgent(name="computing", model=Scripted(script=lambda _: ["Done."]), code_executor=UnsafeLocalCodeExecutor())

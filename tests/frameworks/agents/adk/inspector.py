"""An app with a plugin; its agent says what its model was shown."""

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps.app import App
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from scripted import Scripted


def _shown(request: LlmRequest) -> object:
    return [" | ".join(f"{content.role}:{','.join(map(_part, content.parts))}" for content in request.contents)]


def _part(part: Any) -> str:
    return part.text or part.inline_data.mime_type


class Meeting(BasePlugin):
    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        callback_context.state["user:met"] = agent.name


other = LlmAgent(name="other", model=Scripted(script=lambda _: ["the other one"]))
app = App(
    name="inspector",
    root_agent=LlmAgent(name="inspector", model=Scripted(script=_shown), sub_agents=[other]),
    plugins=[Meeting(name="meeting")],
)
not_an_agent = 5

"""An agent whose tool's answer is the answer: the model is not asked to put it into words."""

from google.adk.agents import LlmAgent
from google.adk.tools.tool_context import ToolContext
from scripted import Scripted


def get_menu(day: str, tool_context: ToolContext) -> dict[str, str]:
    """The menu of a day."""
    tool_context.actions.skip_summarization = True
    return {"menu": f"soup on {day}"}


root_agent = LlmAgent(
    name="verbatim",
    model=Scripted(script=lambda _: [("get_menu", {"day": "Monday"})]),
    tools=[get_menu],
)

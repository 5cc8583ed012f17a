"""An agent whose tools have defaults and converted arguments, and one with a tool of the provider."""

from datetime import date

from pydantic_ai import Agent
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.toolsets import FunctionToolset

CALLED: list[str] = []


def _script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    results = [part for each in messages for part in each.parts if part.part_kind == "tool-return"]
    if results:
        found = ", ".join(str(part.content) for part in results)
        return ModelResponse(parts=[TextPart(f"{found}; called: {CALLED}")])
    return ModelResponse(
        parts=[
            ToolCallPart("plan", {"day": "2026-11-23"}, tool_call_id="a"),
            ToolCallPart("find", '{"text": "x"}', tool_call_id="b"),
        ]
    )


more = FunctionToolset()


@more.tool_plain
def find(text: str, limit: int = 5) -> list[str]:
    """Find something."""
    CALLED.append("find")
    return [text] * limit


agent = Agent(FunctionModel(_script), toolsets=[more])


@agent.tool_plain
def plan(day: date, hours: int = 8) -> str:
    """Plan a day."""
    CALLED.append("plan")
    return f"{day:%A}"


searching = Agent(FunctionModel(_script), capabilities=[NativeTool(WebSearchTool())])


def _delegate(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last = messages[-1].parts[-1]
    if last.part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(str(last.content))])
    return ModelResponse(parts=[ToolCallPart(str(last.content), {}, tool_call_id="a")])


refunder = Agent(FunctionModel(_delegate))
more_tools = FunctionToolset()
delegating = Agent(FunctionModel(_delegate))


@refunder.tool_plain
@more_tools.tool_plain(name="pay_more")
def pay_back() -> str:
    """Pay a refund."""
    CALLED.append("pay_back")
    return "paid"


@delegating.tool_plain
async def ask() -> str:
    """Ask the refunder."""
    return (await refunder.run("pay_back")).output


@delegating.tool_plain
async def ask_more() -> str:
    """Ask the refunder, with another tool."""
    return (await refunder.run("pay_more", toolsets=[more_tools])).output


@delegating.tool_plain
async def ask_searcher() -> str:
    """Ask the agent with a tool of the provider, and hide its errors."""
    try:
        return (await searching.run("Search")).output
    except Exception:
        return "nothing found"

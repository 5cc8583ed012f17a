"""An agent with an MCP server and a tool that fails, and one with a tool of the model's provider."""

from typing import Any

from agents import Agent, ModelResponse, Runner, Usage, WebSearchTool, function_tool
from agents.mcp import MCPServer
from desk import Scripted, calls, says
from mcp.types import CallToolResult, GetPromptResult, ListPromptsResult, TextContent, Tool

CALLED: list[str] = []


class Shop(MCPServer):
    """A server without a process, which says what it was called with."""

    @property
    def name(self) -> str:
        return "shop"

    async def connect(self) -> None:
        pass

    async def cleanup(self) -> None:
        pass

    async def list_tools(self, *_: Any, **__: Any) -> list[Tool]:
        schema = {"type": "object", "properties": {"order_id": {"type": "string"}}}
        return [Tool(name="find_order", input_schema=schema, inputSchema=schema)]

    async def call_tool(self, tool_name: str, *_: Any, **__: Any) -> CallToolResult:
        CALLED.append(tool_name)
        return CallToolResult(content=[TextContent(type="text", text="found 9")])

    async def list_prompts(self) -> ListPromptsResult:
        raise NotImplementedError

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> GetPromptResult:
        raise NotImplementedError


@function_tool(failure_error_function=None)
def refund(amount: int = 3) -> str:
    """Refund an order."""
    CALLED.append("refund")
    raise ValueError("no money")


class Asking(Scripted):
    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        outputs = [each["output"] for each in input if each.get("type") == "function_call_output"]
        steps = [calls("find_order", '{"order_id": "5"}'), calls("refund", "{}")]
        steps[1].call_id = "call-2"
        output = steps[len(outputs)] if outputs[1:] == [] else says(f"{outputs}; called: {CALLED}")
        used = Usage(requests=1, input_tokens=10, output_tokens=4, total_tokens=14)
        return ModelResponse(output=[output], usage=used, response_id=None)


agent = Agent(name="shop", model=Asking(), tools=[refund], mcp_servers=[Shop()])
searching = Agent(name="searching", model=Asking(), tools=[WebSearchTool()])


class Delegating(Scripted):
    """Calls the tool that the user names, or the last tool of the agent that it is; then repeats the result."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        last = input[-1]
        name = {"refunder": "pay_back", "searcher": ""}.get(system_instructions, last.get("content"))
        arguments = '{"input": "x"}' if str(name).startswith("ask") else "{}"
        output = says(str(last["output"])) if "output" in last else calls(name, arguments) if name else says("found")
        return ModelResponse(output=[output], usage=Usage(), response_id=None)


@function_tool
def pay_back() -> str:
    """Pay a refund."""
    CALLED.append("pay_back")
    return "paid"


refunder = Agent(name="refunder", instructions="refunder", model=Delegating(), tools=[pay_back])
searcher = Agent(name="searcher", instructions="searcher", model=Delegating(), tools=[WebSearchTool()])


@function_tool
async def ask_by_code(input: str) -> str:
    """Ask the refunder."""
    return str((await Runner.run(refunder, input)).final_output)


delegating = Agent(
    name="delegating",
    model=Delegating(),
    tools=[refunder.as_tool("ask", "Asks."), ask_by_code, searcher.as_tool("ask_searcher", "Searches.")],
)

"""Agents of Pydantic AI that drop messages, ask other agents, or write texts in parts."""

from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage


def _count(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call `count` with 1, 2, 3 and 4, then answer in two parts."""
    last = messages[-1].parts[-1]
    number = int(str(last.content)) + 1 if last.part_kind == "tool-return" else 1
    parts: list[Any] = [ToolCallPart("count", {"number": number}, tool_call_id=f"call-{number}")]
    if number > 4:
        parts = [TextPart("Four "), TextPart("calls.")]
    return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=10, output_tokens=4))


forgetting = Agent(
    FunctionModel(_count), capabilities=[ProcessHistory(lambda messages: messages[-3:])]
)


@forgetting.tool_plain
def count(number: int) -> int:
    """Return the number."""
    return number


def _delegate(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last = messages[-1].parts[-1]
    is_told = last.part_kind == "tool-return"
    part = TextPart(str(last.content)) if is_told else ToolCallPart("ask", {}, tool_call_id="call-1")
    return ModelResponse(parts=[part], usage=RequestUsage(input_tokens=10, output_tokens=4))


delegating = Agent(FunctionModel(_delegate))


@delegating.tool
async def ask(context: RunContext[None]) -> str:
    """Ask another agent."""
    return (await forgetting.run("count", usage=context.usage)).output


odd = Agent(FunctionModel(_delegate))


@odd.tool_plain(name="ask")
def return_tuples() -> Any:
    """Return a dict that JSON cannot hold."""
    return {(1, 2): "x"}

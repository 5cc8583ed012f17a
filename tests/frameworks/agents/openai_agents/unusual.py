"""An agent of the OpenAI Agents SDK with tools whose results JSON cannot hold."""

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, ModelResponse, Usage, function_tool, set_tracing_disabled
from agents.models.interface import Model
from desk import says
from openai.types.responses import ResponseFunctionToolCall

set_tracing_disabled(True)


class Scripted(Model):
    """Calls the tool that the user names, and repeats its result."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        last = input[-1]
        call = ResponseFunctionToolCall(
            type="function_call", call_id="call-1", name=str(last.get("content")), arguments="{}"
        )
        output = says(str(last["output"])) if "output" in last else call
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@function_tool
def tuples() -> Any:
    """Return a dict that JSON cannot hold."""
    return {(1, 2): "x"}


@function_tool
def circle() -> Any:
    """Return a list that JSON cannot hold."""
    found: list[Any] = []
    found.append(found)
    return found


agent = Agent(name="odd", model=Scripted(), tools=[tuples, circle])

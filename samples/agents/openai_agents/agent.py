"""An agent of the OpenAI Agents SDK. Its model is scripted, so that the sample needs no key."""

import json
import re

from agents import Agent, ModelResponse, Usage, function_tool, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)


@function_tool
def get_forecast(city: str) -> str:
    """The forecast for a city."""
    return f"{city}: sunny."


def says(text):
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="1", type="message", role="assistant", status="completed", content=[part])


class Scripted(Model):
    async def get_response(self, system_instructions, input, *args, **options):
        cities = re.findall(r"\bin (\w+)", " ".join(str(item.get("content")) for item in input))
        if input[-1].get("type") == "function_call_output":
            answer = says(input[-1]["output"])
        elif cities:
            arguments = json.dumps({"city": cities[-1]})
            answer = ResponseFunctionToolCall(
                type="function_call", call_id="1", name="get_forecast", arguments=arguments
            )
        else:
            answer = says("Which city?")
        return ModelResponse(output=[answer], usage=Usage(), response_id=None)

    def stream_response(self, *args, **options):
        raise NotImplementedError


agent = Agent(name="weather", model=Scripted(), tools=[get_forecast])

"""An agent of Pydantic AI. Its model is scripted, so that the sample needs no key: put your model's name there."""

import re

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel


def scripted(messages, info):
    parts = [part for message in messages for part in message.parts]
    cities = re.findall(r"\bin (\w+)", " ".join(str(part.content) for part in parts if hasattr(part, "content")))
    if parts[-1].part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(parts[-1].content)])
    if cities:
        return ModelResponse(parts=[ToolCallPart("get_forecast", {"city": cities[-1]})])
    return ModelResponse(parts=[TextPart("Which city?")])


agent = Agent(FunctionModel(scripted))


@agent.tool_plain
def get_forecast(city: str) -> str:
    """The forecast for a city."""
    return f"{city}: sunny."

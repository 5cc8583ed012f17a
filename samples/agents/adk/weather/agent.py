"""An agent of Google ADK. Its model is scripted, so that the sample needs no key: put your model's name there."""

import re

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types


def get_forecast(city: str) -> dict:
    """The forecast for a city."""
    return {"city": city, "forecast": "sunny"}


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        texts = [part.text or "" for content in llm_request.contents for part in content.parts]
        cities = re.findall(r"\bin (\w+)", " ".join(texts))
        if last.function_response:
            found = last.function_response.response
            part = types.Part(text=f"{found['city']}: {found['forecast']}.")
        elif cities:
            part = types.Part(function_call=types.FunctionCall(name="get_forecast", args={"city": cities[-1]}))
        else:
            part = types.Part(text="Which city?")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


root_agent = LlmAgent(name="weather", model=Scripted(model="scripted"), tools=[get_forecast])

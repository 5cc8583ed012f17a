"""An agent of Google ADK, for ADK's own Runner and for `adk api_server`."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from script import Hang, act, get_forecast


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for content in llm_request.contents for part in content.parts]
        said = [part.text for content in llm_request.contents if content.role == "user" for part in content.parts]
        answered = parts[-1].function_response
        try:
            found = act([text for text in said if text], answered.response if answered else None)
        except Hang:
            await asyncio.sleep(600)
        if isinstance(found, str):
            part = types.Part(text=found)
        else:
            part = types.Part(function_call=types.FunctionCall(name=found[0], args=found[1]))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


root_agent = LlmAgent(name="talker", model=Scripted(model="scripted"), tools=[get_forecast])

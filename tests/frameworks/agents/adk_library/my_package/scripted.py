"""A model without a network: a function says what it answers."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class Scripted(BaseLlm):
    """`script` gets the request and gives parts: texts, and calls as (name, arguments)."""

    model: str = "scripted"
    script: Callable[[LlmRequest], Any]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        said = self.script(llm_request)
        if isinstance(said, LlmResponse):
            yield said
            return
        parts = [_part(each) for each in said]
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=3, thoughts_token_count=1
        )
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=used)


def _part(each: Any) -> types.Part:
    if isinstance(each, str):
        return types.Part(text=each)
    if isinstance(each, types.Part):
        return each
    return types.Part(function_call=types.FunctionCall(name=each[0], args=each[1]))


def answers(request: LlmRequest) -> list[Any]:
    """What tools answered since the user spoke."""
    found = []
    for content in reversed(request.contents):
        if content.role == "user" and content.parts and content.parts[0].text:
            break
        found[:0] = [part.function_response.response for part in content.parts or () if part.function_response]
    return found


def asked(request: LlmRequest) -> str:
    """What the user said last."""
    for content in reversed(request.contents):
        if content.role == "user" and content.parts and content.parts[0].text:
            return content.parts[0].text
    return ""

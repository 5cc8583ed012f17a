"""Agents that use a provider's SDK and nothing of evalgate. Each calls a tool to answer a question about the weather."""

import asyncio
import importlib
import inspect
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import openai

URL = os.environ["PROVIDER_URL"]
_MODEL = "small"
_TOOLS: Any = [{"type": "function", "function": {"name": "get_forecast", "parameters": {"type": "object"}}}]
_RESPONSE_TOOLS: Any = [{"type": "function", "name": "get_forecast", "parameters": {}, "strict": False}]
_ANTHROPIC_TOOLS: Any = [{"name": "get_forecast", "input_schema": {"type": "object"}}]


# Made when they are needed: the capture must not depend on it.
@cache
def _openai() -> Any:
    return openai.OpenAI(base_url=f"{URL}/v1", api_key="k")


@cache
def _async_openai() -> Any:
    return openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key="k")


@cache
def _anthropic() -> Any:
    return importlib.import_module("anthropic").Anthropic(base_url=URL, api_key="k")


@cache
def _async_anthropic() -> Any:
    return importlib.import_module("anthropic").AsyncAnthropic(base_url=URL, api_key="k")


def get_forecast(city: str) -> str:
    """Return the weather; this is the tool."""
    return json.dumps({"city": city, "sky": "sunny"})


def _ran(message: Any) -> list[Any]:
    """Run the tool calls of a model's message. Return the message and the results, to append to the history."""
    return [
        message.model_dump(exclude_none=True),
        *(
            {
                "role": "tool",
                "tool_call_id": call.id,
                "content": get_forecast(**json.loads(call.function.arguments)),
            }
            for call in message.tool_calls
        ),
    ]


# --- chat completions ---------------------------------------------------------------------------------------


def chat(text: str) -> str:
    """Ask the model and run its tool calls in a loop, until it answers."""
    messages: list[Any] = [{"role": "user", "content": text}]
    while True:
        message = (
            _openai()
            .chat.completions.create(model=_MODEL, messages=messages, tools=_TOOLS)
            .choices[0]
            .message
        )
        if not message.tool_calls:
            return str(message.content)
        messages += _ran(message)


async def async_chat(text: str) -> str:
    """Do the same with the asynchronous client of the SDK."""
    messages: list[Any] = [{"role": "user", "content": text}]
    while True:
        answer = await _async_openai().chat.completions.create(model=_MODEL, messages=messages, tools=_TOOLS)
        message = answer.choices[0].message
        await asyncio.sleep(0)  # others take their turn
        if not message.tool_calls:
            return str(message.content)
        messages += _ran(message)


def chat_with_raw_response(text: str) -> str:
    """Request the raw HTTP response and parse it in the agent."""
    messages: list[Any] = [{"role": "user", "content": text}]
    while True:
        raw = _openai().chat.completions.with_raw_response.create(
            model=_MODEL, messages=messages, tools=_TOOLS
        )
        message = raw.parse().choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages += _ran(message)


def chat_parse(text: str) -> str:
    """Use the SDK's helper for structured outputs."""
    messages: list[Any] = [{"role": "user", "content": text}]
    tools = [{**each, "function": {**each["function"], "strict": True}} for each in _TOOLS]
    while True:
        message = (
            _openai().chat.completions.parse(model=_MODEL, messages=messages, tools=tools).choices[0].message
        )
        if not message.tool_calls:
            return str(message.content)
        messages += _ran(message)


def chat_stream(text: str) -> Iterator[str]:
    """Use `stream=True`, and yield the text as it arrives."""
    messages: list[Any] = [{"role": "user", "content": text}]
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    while True:
        calls: dict[int, dict[str, str]] = {}
        for chunk in _openai().chat.completions.create(
            model=_MODEL, messages=messages, tools=_TOOLS, **options
        ):
            for choice in chunk.choices:
                if choice.delta.content:
                    yield choice.delta.content
                for piece in choice.delta.tool_calls or ():
                    call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
                    call["id"] += piece.id or ""
                    call["name"] += piece.function.name or ""
                    call["arguments"] += piece.function.arguments or ""
        if not calls:
            return
        wanted = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in calls.values()
        ]
        messages.append({"role": "assistant", "tool_calls": wanted})
        for call in calls.values():
            result = get_forecast(**json.loads(call["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


async def async_chat_stream_helper(text: str) -> str:
    """Use the SDK's helper that assembles a stream."""
    messages: list[Any] = [{"role": "user", "content": text}]
    while True:
        manager = _async_openai().chat.completions.stream(
            model=_MODEL,
            messages=messages,
            tools=[{**each, "function": {**each["function"], "strict": True}} for each in _TOOLS],
            stream_options={"include_usage": True},
        )
        async with manager as stream:
            message = (await stream.get_final_completion()).choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages += _ran(message)


def chat_in_pool(text: str) -> str:
    """Ask the model in a pool of threads of the agent."""
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(chat, text).result()


def chat_in_thread(text: str) -> str:
    """Ask the model in a new thread of the agent."""
    found = []
    thread = threading.Thread(target=lambda: found.append(chat(text)))
    thread.start()
    thread.join()
    return found[0]


async def chat_in_executor(text: str) -> str:
    """Call the blocking SDK in an event loop."""
    return await asyncio.get_running_loop().run_in_executor(None, chat, text)


# --- responses ----------------------------------------------------------------------------------------------


def responses(text: str) -> str:
    """Let the provider store the conversation, and send only the id of its last response."""
    model_input: Any = text
    previous: Any = openai.omit
    while True:
        answer = _openai().responses.create(
            model=_MODEL, input=model_input, tools=_RESPONSE_TOOLS, previous_response_id=previous
        )
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return str(answer.output_text)
        model_input, previous = [_output(call) for call in calls], answer.id


async def async_responses_stream(text: str) -> str:
    """Stream the answer, and send the whole conversation in each request."""
    model_input: list[Any] = [{"role": "user", "content": text}]
    while True:
        answer: Any = None
        async for event in await _async_openai().responses.create(
            model=_MODEL, input=model_input, tools=_RESPONSE_TOOLS, stream=True
        ):
            if event.type == "response.completed":
                answer = event.response
                break
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return str(answer.output_text)
        model_input += [*(call.model_dump() for call in calls), *map(_output, calls)]


def _output(call: Any) -> Any:
    result = get_forecast(**json.loads(call.arguments))
    return {"type": "function_call_output", "call_id": call.call_id, "output": result}


# --- Anthropic ----------------------------------------------------------------------------------------------


def messages(text: str) -> str:
    """Ask the model and run its tool calls in a loop, until it answers."""
    messages: list[Any] = [{"role": "user", "content": text}]
    while True:
        answer = _anthropic().messages.create(
            model=_MODEL, max_tokens=99, messages=messages, tools=_ANTHROPIC_TOOLS
        )
        if answer.stop_reason != "tool_use":
            return str(answer.content[0].text)
        messages += _ran_blocks(answer)


async def async_messages(text: str) -> str:
    """Do the same with the asynchronous client of the SDK."""
    messages: list[Any] = [{"role": "user", "content": text}]
    while True:
        answer = await _async_anthropic().messages.create(
            model=_MODEL, max_tokens=99, messages=messages, tools=_ANTHROPIC_TOOLS
        )
        if answer.stop_reason != "tool_use":
            return str(answer.content[0].text)
        messages += _ran_blocks(answer)


async def async_messages_stream(text: str) -> AsyncIterator[str]:
    """Use the SDK's helper that streams texts."""
    messages: list[Any] = [{"role": "user", "content": text}]
    while True:
        manager = _async_anthropic().messages.stream(
            model=_MODEL, max_tokens=99, messages=messages, tools=_ANTHROPIC_TOOLS
        )
        async with manager as stream:
            async for piece in stream.text_stream:
                yield piece
            answer = await stream.get_final_message()
        if answer.stop_reason != "tool_use":
            return
        messages += _ran_blocks(answer)


def _ran_blocks(answer: Any) -> list[Any]:
    return [
        {"role": "assistant", "content": [block.model_dump() for block in answer.content]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": block.id, "content": get_forecast(**block.input)}
                for block in answer.content
                if block.type == "tool_use"
            ],
        },
    ]


# --- what must not be counted twice, or at all --------------------------------------------------------------


def reports_itself(text: str) -> dict[str, Any]:
    """Events that the agent reports take precedence over captured ones."""
    response = chat(text)
    call = {"name": "own_name", "args": {"for": text}, "result": "own result"}
    return {"response": response, "tool_calls": [call], "usage": {"input_tokens": 1, "output_tokens": 2}}


def says_that_there_were_none(text: str) -> dict[str, Any]:
    """Report an empty list of tool calls, which hides the captured calls."""
    return {"response": chat(text), "tool_calls": []}


def structured(text: str) -> str:
    """Force a tool call that is never run, as agents do to get structured output."""
    forced: Any = {"type": "function", "function": {"name": "Answer"}}
    message = _openai().chat.completions.create(
        model=_MODEL, messages=[{"role": "user", "content": text}], tools=_TOOLS, tool_choice=forced
    )
    calls: Any = message.choices[0].message.tool_calls
    return str(json.loads(calls[0].function.arguments)["answer"])


class Remembers:
    """Agent that sends the whole conversation in every turn."""

    def __init__(self) -> None:
        self._said: dict[str, list[Any]] = {}

    def run(self, text: str, session: Any) -> str:
        """Run one turn."""
        messages = self._said.setdefault(session.id, [])
        messages.append({"role": "user", "content": text})
        while True:
            message = (
                _openai()
                .chat.completions.create(model=_MODEL, messages=messages, tools=_TOOLS)
                .choices[0]
                .message
            )
            if not message.tool_calls:
                messages.append({"role": "assistant", "content": message.content})
                return str(message.content)
            messages += _ran(message)


remembers = Remembers()


def fails(text: str) -> str:
    """Ask the model, then raise an error."""
    chat(text)
    raise ValueError("after the model answered")


# --- all in one process -------------------------------------------------------------------------------------


def sync_variant(text: str) -> str:
    """Call the agent function of this module that is named before the colon in the text."""
    name, _, question = text.partition(": ")
    found = globals()[name](question)
    return found if isinstance(found, str) else "".join(found)


async def async_variant(text: str) -> str:
    """Call the asynchronous agent function that is named before the colon in the text."""
    name, _, question = text.partition(": ")
    found = globals()[name](question)
    return await found if inspect.isawaitable(found) else "".join([piece async for piece in found])

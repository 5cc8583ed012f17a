"""Model and tools of Pydantic AI that record their calls as steps of a trace."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any, Iterator, Optional

from ..trace import OpenSpan, TraceRecorder, ignore_errors


def create_traced_model(model: Any, recorder: TraceRecorder) -> Any:
    """Return a Pydantic AI model that forwards each request to `model` and records it as a step of a trace.

    Streamed requests are forwarded without being recorded. `model` may be a model object or its name.
    """

    async def request(self: Any, messages: Any, settings: Any, parameters: Any) -> Any:
        step = recorder.start_span("model", self.model_name)
        step.request = lambda: _describe_request(messages, settings, parameters)
        try:
            response = await self.wrapped.request(messages, settings, parameters)
        except BaseException as error:
            recorder.end_span(step, error=repr(error))
            raise
        _end_model(recorder, step, response)
        return response

    base = importlib.import_module("pydantic_ai.models.wrapper").WrapperModel
    return type("Tracing", (base,), {"request": request})(model)


@ignore_errors
def _end_model(recorder: TraceRecorder, step: OpenSpan, response: Any) -> None:
    used = response.usage
    step.usage = {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "models": [response.model_name or step.name],
    }
    recorder.end_span(step, _dump_messages([response]))


@contextlib.contextmanager
def trace_tools(agent: Any, recorder: Optional[TraceRecorder]) -> Iterator[None]:
    """Record the calls of the agent's tools as steps of a trace, within the `with` block.

    Do nothing if `recorder` is None or the toolsets of the agent cannot be replaced.
    """
    if recorder is None or not hasattr(agent, "toolsets") or not hasattr(agent, "override"):
        yield
        return

    async def call_tool(self: Any, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        step = recorder.start_span("tool", name, request=tool_args)
        try:
            result = await self.wrapped.call_tool(name, tool_args, ctx, tool)
        except BaseException as error:
            recorder.end_span(step, error=repr(error))
            raise
        recorder.end_span(step, result)
        return result

    base = importlib.import_module("pydantic_ai.toolsets").WrapperToolset
    tracing = type("Tracing", (base,), {"call_tool": call_tool})
    # `toolsets` includes the agent's own functions, which `tools` would add once more.
    with agent.override(toolsets=[tracing(each) for each in agent.toolsets], tools=[]):
        yield


def _describe_request(messages: Any, settings: Any, parameters: Any) -> dict[str, Any]:
    tools = [
        {"name": each.name, "description": each.description, "parameters": each.parameters_json_schema}
        for each in (*parameters.function_tools, *parameters.output_tools)
    ]
    # Additions to the HTTP request may hold credentials.
    plain = {key: value for key, value in (settings or {}).items() if not key.startswith("extra_")}
    request = {"messages": _dump_messages(messages), "settings": plain, "tools": tools}
    return {key: value for key, value in request.items() if value}


def _dump_messages(messages: Any) -> Any:
    adapter = importlib.import_module("pydantic_ai.messages").ModelMessagesTypeAdapter
    return adapter.dump_python(list(messages), mode="json")

"""Hooks of Strands Agents that record calls of models and tools as steps of a trace."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, Optional

from ..trace import OpenSpan, TraceRecorder, ignore_errors
from .event_recorder import parse_tool_output


class StrandsSteps:
    """Recorder of the model calls and tool calls of one conversation, through hooks of the agent.

    It holds the steps that have not ended yet. The constructor adds the hooks.
    """

    def __init__(self, agent: Any, recorder: TraceRecorder) -> None:
        self._agent = agent
        self._recorder = recorder
        self._model: Optional[OpenSpan] = None
        self._tools: Dict[str, OpenSpan] = {}
        hooks = importlib.import_module("strands.hooks")
        callbacks: Dict[str, Callable[[Any], None]] = {
            "BeforeModelCallEvent": self._begin_model,
            "AfterModelCallEvent": self._end_model,
            "BeforeToolCallEvent": self._begin_tool,
            "AfterToolCallEvent": self._end_tool,
        }
        for name, callback in callbacks.items():
            if hasattr(hooks, name):  # not in every release
                agent.hooks.add_callback(getattr(hooks, name), ignore_errors(callback))

    def _begin_model(self, _event: Any) -> None:
        agent = self._agent
        config = agent.model.get_config() or {}
        name = config.get("model_id") or type(agent.model).__name__
        self._model = self._recorder.start_span("model", name, author=agent.name)
        request = {
            "system": agent.system_prompt,
            "messages": list(agent.messages),
            "tools": agent.tool_registry.get_all_tool_specs(),
            "settings": config.get("params"),
        }
        self._model.request = {key: value for key, value in request.items() if value}

    def _end_model(self, event: Any) -> None:
        step, self._model = self._model, None
        if step is None:
            return
        message = getattr(event.stop_response, "message", None)
        used = ((message or {}).get("metadata") or {}).get("usage")
        if used:
            step.usage = {
                "input_tokens": used["inputTokens"],
                "output_tokens": used["outputTokens"],
                "models": [step.name],
            }
        error = "" if event.exception is None else repr(event.exception)
        self._recorder.end_span(step, None if message is None else message["content"], error)

    def _begin_tool(self, event: Any) -> None:
        call = event.tool_use
        self._tools[call["toolUseId"]] = self._recorder.start_span(
            "tool", call["name"], author=self._agent.name, request=call["input"]
        )

    def _end_tool(self, event: Any) -> None:
        step = self._tools.pop(event.tool_use["toolUseId"], None)
        if step is None:
            return
        blocks = event.result.get("content") or []
        found = [
            each["json"] if "json" in each else parse_tool_output(each.get("text", "")) for each in blocks
        ]
        exception = getattr(event, "exception", None)
        error = repr(exception) if exception is not None else ""
        if not error and event.result.get("status") == "error":
            error = "the tool returned an error"
        self._recorder.end_span(step, found[0] if len(found) == 1 else found, error)

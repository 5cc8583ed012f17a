"""Hooks of the OpenAI Agents SDK that record agents, model calls and tool calls as steps of a trace."""

from __future__ import annotations

import functools
import importlib
from typing import Any, Callable, Dict, List, Optional

from ..trace import OpenSpan, TraceRecorder, ignore_errors
from .event_recorder import parse_tool_output


def create_trace_hooks(recorder: TraceRecorder) -> Any:
    """Return an SDK hooks object that records the steps of one run. It does not replace the agents' hooks."""
    steps = _AgentsSteps(recorder)
    callbacks: Dict[str, Callable[..., Any]] = {
        "on_agent_start": steps.begin_agent,
        "on_llm_start": steps.begin_model,
        "on_llm_end": steps.end_model,
        "on_tool_start": steps.begin_tool,
        "on_tool_end": steps.end_tool,
    }
    lifecycle = importlib.import_module("agents.lifecycle")
    # In newer releases `RunHooks` is `RunHooksBase[…]`, which `type` below does not accept as a base.
    base = getattr(lifecycle, "RunHooksBase", None) or lifecycle.RunHooks
    return type("Tracing", (base,), {name: _as_hook(action) for name, action in callbacks.items()})()


def _as_hook(action: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `action` as an asynchronous hook. Exceptions of `action` are only written to stderr."""
    call = ignore_errors(action)

    @functools.wraps(action)
    async def call_action(_self: Any, *args: Any, **options: Any) -> None:
        call(*args, **options)

    return call_action


class _AgentsSteps:
    """Open trace steps of one SDK run, which have begun and not ended: agents, a model call, tool calls."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._agents: List[OpenSpan] = []
        """Steps of the run's agents, each of which handed over to the next. All steps end with the turn."""
        self._model: Optional[OpenSpan] = None
        self._tools: Dict[object, OpenSpan] = {}

    def begin_agent(self, _context: Any, agent: Any) -> None:
        parent = self._agents[-1] if self._agents else None
        self._agents.append(self._recorder.start_span("agent", agent.name, parent=parent, author=agent.name))

    def begin_model(
        self, _context: Any, agent: Any, system_prompt: Optional[str], input_items: List[Any]
    ) -> None:
        name = getattr(agent.model, "model", None) or agent.model or "model"
        request = {
            "instructions": system_prompt,
            "settings": _read_settings(agent.model_settings),
            "tools": [_describe_tool(tool) for tool in agent.tools],
            "handoffs": [getattr(each, "name", None) or each.tool_name for each in agent.handoffs],
            "input": list(input_items),
        }
        name = name if isinstance(name, str) else type(name).__name__
        self._model = self._start_step("model", name, agent, {k: v for k, v in request.items() if v})

    def end_model(self, _context: Any, _agent: Any, response: Any) -> None:
        step, self._model = self._model, None
        if step is not None:
            used = response.usage
            step.usage = {
                "input_tokens": used.input_tokens,
                "output_tokens": used.output_tokens,
                "models": [step.name],
            }
            self._recorder.end_span(step, response.output)

    def begin_tool(self, context: Any, agent: Any, tool: Any) -> None:
        key = getattr(context, "tool_call_id", None) or tool.name
        request = parse_tool_output(getattr(context, "tool_arguments", None))
        self._tools[key] = self._start_step("tool", tool.name, agent, request)

    def end_tool(self, context: Any, _agent: Any, tool: Any, result: object) -> None:
        step = self._tools.pop(getattr(context, "tool_call_id", None) or tool.name, None)
        if step is not None:
            self._recorder.end_span(step, result)

    def _start_step(self, kind: str, name: object, agent: Any, request: object) -> OpenSpan:
        parent = next((each for each in reversed(self._agents) if each.author == agent.name), None)
        return self._recorder.start_span(kind, name, parent=parent, author=agent.name, request=request)


def _read_settings(settings: Any) -> Dict[str, Any]:
    """Return the settings that are not None, by name.

    Settings with a name that begins with `extra_` are left out, as they may hold credentials.
    """
    return {
        key: value
        for key, value in vars(settings).items()
        if value is not None and not key.startswith("extra_")
    }


def _describe_tool(tool: Any) -> Dict[str, Any]:
    keys = {"name": "name", "description": "description", "params_json_schema": "parameters"}
    return {key: getattr(tool, field) for field, key in keys.items() if getattr(tool, field, None)}

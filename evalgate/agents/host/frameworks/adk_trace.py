"""A plugin of Google ADK that records agents, model calls and tool calls as steps of a trace."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any, Callable, Dict, Optional, Tuple

from ..trace import OpenSpan, TraceRecorder

_Key = Tuple[Any, str, Any]
"""Id of an ADK invocation, its branch ("" if it has none), and the name of the agent."""
# `http_options` may hold credentials, and a response schema may be a class.
_LEFT_OUT = {"http_options", "response_schema"}


def create_trace_plugin(recorder: TraceRecorder) -> Any:
    """Return an ADK plugin that records steps of a trace; list this plugin before all others.

    If a plugin answers a call instead of the tool, ADK skips all plugins that are listed later.
    """
    steps = _AdkSteps(recorder)
    base = importlib.import_module("google.adk.plugins.base_plugin").BasePlugin
    callbacks: Dict[str, Callable[..., Any]] = {
        "before_agent_callback": steps.begin_agent,
        "after_agent_callback": steps.end_agent,
        "on_agent_error_callback": steps.end_agent,
        "before_model_callback": steps.begin_model,
        "after_model_callback": steps.end_model,
        "on_model_error_callback": steps.end_model,
        "before_tool_callback": steps.begin_tool,
        "after_tool_callback": steps.end_tool,
        "on_tool_error_callback": steps.end_tool,
    }
    methods = {name: _as_callback(action) for name, action in callbacks.items()}
    return type("Tracing", (base,), methods)(name="evalgate_trace")


def _as_callback(action: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `action` as an asynchronous callback of ADK. Exceptions of `action` are written to stderr.

    The callback returns None, so that ADK continues as if there were no callback.
    """

    @functools.wraps(action)
    async def call_action(_self: Any, **given: Any) -> None:
        try:
            action(**given)
        except Exception as error:  # noqa: BLE001  of a release that names things differently
            sys.stderr.write(f"evalgate: a step of the agent is missing in the trace ({error!r})\n")

    return call_action


class _AdkSteps:
    """Open trace steps of one conversation: they have begun, and wait for the ADK callback that ends them.

    A callback finds its step by the context that ADK passes to the callback.
    """

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._agents: list[tuple[_Key, str, OpenSpan]] = []
        """Agents that are running, the oldest first, each as (key of its context, branch, step)."""
        self._models: dict[_Key, OpenSpan] = {}
        self._tools: dict[object, OpenSpan] = {}

    def begin_agent(self, *, agent: Any, callback_context: Any, **_: Any) -> None:
        parent = self._find_parent(callback_context)
        span = self._recorder.start_span("agent", agent.name, parent=parent, author=agent.name)
        self._agents.append((_get_key(callback_context), _get_branch(callback_context), span))

    def end_agent(self, *, callback_context: Any, error: Optional[BaseException] = None, **_: Any) -> None:
        key = _get_key(callback_context)
        # A callback of the agent may have answered in the place of its model, which was then not called.
        unused = self._models.pop(key, None)
        if unused is not None:
            self._recorder.drop_span(unused)
        for index in reversed(range(len(self._agents))):
            if self._agents[index][0] == key:
                self._recorder.end_span(self._agents.pop(index)[2], error=error or "")
                return

    def begin_model(self, *, callback_context: Any, llm_request: Any, **_: Any) -> None:
        key = _get_key(callback_context)
        unused = self._models.pop(key, None)
        if unused is not None:
            self._recorder.drop_span(unused)
        self._models[key] = self._recorder.start_span(
            "model",
            llm_request.model or "model",
            parent=self._find_parent(callback_context),
            author=callback_context.agent_name,
            # When the call is over: the callbacks of the agent may still change it.
            request=lambda: _describe_request(llm_request),
        )

    def end_model(
        self,
        *,
        callback_context: Any,
        llm_response: Any = None,
        error: Optional[BaseException] = None,
        **_: Any,
    ) -> None:
        if getattr(llm_response, "partial", False):
            return  # the whole answer follows
        span = self._models.pop(_get_key(callback_context), None)
        if span is None:
            return
        used = getattr(llm_response, "usage_metadata", None)
        if used is not None:
            from .adk import count_tokens

            model = getattr(llm_response, "model_version", None) or span.name
            span.usage = {**count_tokens(used), "models": [model]}
        failed = getattr(llm_response, "error_message", None) or getattr(llm_response, "error_code", None)
        self._recorder.end_span(span, llm_response, error or failed or "")

    def begin_tool(self, *, tool: Any, tool_args: Any, tool_context: Any, **_: Any) -> None:
        self._tools[_get_tool_key(tool, tool_context)] = self._recorder.start_span(
            "tool",
            tool.name,
            parent=self._find_parent(tool_context),
            author=tool_context.agent_name,
            request=tool_args,
        )

    def end_tool(
        self,
        *,
        tool: Any,
        tool_context: Any,
        result: object = None,
        error: Optional[BaseException] = None,
        **_: Any,
    ) -> None:
        span = self._tools.pop(_get_tool_key(tool, tool_context), None)
        if span is not None:
            self._recorder.end_span(span, result, error or "")

    def _find_parent(self, context: Any) -> Optional[OpenSpan]:
        """Return the open step that is the parent of a new step of `context`; None if no step is open.

        The parent is the first that exists of these open steps:

        1. the step of the context's own agent
        2. of the steps of the agents above, the one that began last
        3. the step of the tool call that began last, because this tool called the agent
        """
        key, branch = _get_key(context), _get_branch(context)
        inner = [span for own, _, span in self._agents if own == key]
        if inner:
            return inner[-1]
        # The step of the context's own agent is not open: look for an agent above.
        above = [span for own, of, span in self._agents if own[0] == key[0] and branch.startswith(of)]
        if above:
            return above[-1]
        # A tool that is an agent starts a new invocation. Its steps belong to the tool that began last.
        return next(reversed([*self._tools.values()]), None)


def _get_key(context: Any) -> _Key:
    return context.invocation_id, _get_branch(context), context.agent_name


def _get_branch(context: Any) -> str:
    return str(getattr(getattr(context, "_invocation_context", None), "branch", None) or "")


def _get_tool_key(tool: Any, context: Any) -> object:
    return context.function_call_id or (_get_key(context), tool.name)


def _describe_request(request: Any) -> dict[str, Any]:
    config = request.config
    described: dict[str, Any] = {"model": request.model}
    if config is not None:
        # One by one: tools may hold functions, which no model of pydantic writes as JSON.
        settings = {name: getattr(config, name) for name in type(config).model_fields}
        described["config"] = {
            name: value for name, value in settings.items() if value is not None and name not in _LEFT_OUT
        }
    described["contents"] = request.contents
    return described

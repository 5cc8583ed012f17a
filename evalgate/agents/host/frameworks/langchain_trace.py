"""A callback handler of LangChain that records model calls and tool calls as steps of a trace."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, Optional

from ..trace import OpenSpan, TraceRecorder

_UNKNOWN = "model"
"""Name of the step of a model call if the name of the model is unknown."""


def create_trace_handler(recorder: TraceRecorder) -> Any:
    """Return a callback handler that records steps of a trace; LangChain only logs errors of the handler."""
    steps = _LangChainSteps(recorder)
    base = importlib.import_module("langchain_core.callbacks").BaseCallbackHandler
    callbacks: Dict[str, Callable[..., Any]] = {
        "on_chain_start": steps.begin_chain,
        "on_chat_model_start": steps.begin_model,
        "on_llm_start": steps.begin_model,
        "on_llm_end": steps.end_model,
        "on_llm_error": steps.fail_step,
        "on_tool_start": steps.begin_tool,
        "on_tool_end": steps.end_tool,
        "on_tool_error": steps.fail_step,
    }
    # Inline, since callbacks in other threads would see later times.
    methods: Dict[str, Any] = {name: staticmethod(action) for name, action in callbacks.items()}
    return type("Tracing", (base,), {**methods, "run_inline": True})()


class _LangChainSteps:
    """Open trace steps of one turn, which have begun and not ended, by the id of their LangChain run."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._open: Dict[object, OpenSpan] = {}
        self._parents: Dict[object, Optional[OpenSpan]] = {}
        """Parent of the steps that begin within a LangChain run, by the id of the run; None: no parent."""

    def begin_chain(self, _serialized: Any, _inputs: Any, *, run_id: Any, **more: Any) -> None:
        self._parents[run_id] = self._parents.get(more.get("parent_run_id"))

    def begin_model(self, _serialized: Any, messages: Any, *, run_id: Any, **more: Any) -> None:
        settings, metadata = more.get("invocation_params") or {}, more.get("metadata") or {}
        name = settings.get("model") or settings.get("model_name") or metadata.get("ls_model_name")
        sent = messages[0] if len(messages) == 1 else messages
        # Additions to the HTTP request may hold credentials.
        plain = {
            key: value
            for key, value in settings.items()
            if value is not None and not key.startswith(("extra_", "default_"))
        }
        request = {"settings": plain, "messages": sent}
        self._begin_step("model", name or _UNKNOWN, request, run_id, more)

    def begin_tool(self, serialized: Any, text: str, *, run_id: Any, **more: Any) -> None:
        name = (serialized or {}).get("name") or more.get("name") or ""
        self._begin_step("tool", name, more.get("inputs") or text, run_id, more)

    def _begin_step(self, kind: str, name: object, request: object, run_id: object, more: Any) -> None:
        author = (more.get("metadata") or {}).get("langgraph_node")
        parent = self._parents.get(more.get("parent_run_id"))
        step = self._recorder.start_span(kind, name, parent=parent, author=author, request=request)
        self._open[run_id] = self._parents[run_id] = step

    def end_model(self, response: Any, *, run_id: Any, **_: Any) -> None:
        step = self._open.pop(run_id, None)
        if step is None:
            return
        answers = [each for batch in response.generations for each in batch]
        used = [getattr(getattr(each, "message", None), "usage_metadata", None) for each in answers]
        known = [each for each in used if each]
        if known:
            step.usage = {
                key: sum(each.get(key) or 0 for each in known) for key in ("input_tokens", "output_tokens")
            }
            step.usage["models"] = [] if step.name == _UNKNOWN else [step.name]
        messages = [getattr(each, "message", None) or getattr(each, "text", None) for each in answers]
        self._recorder.end_span(step, messages[0] if len(messages) == 1 else messages)

    def end_tool(self, output: Any, *, run_id: Any, **_: Any) -> None:
        step = self._open.pop(run_id, None)
        if step is not None:
            self._recorder.end_span(step, getattr(output, "content", output))

    def fail_step(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        step = self._open.pop(run_id, None)
        if step is not None:
            self._recorder.end_span(step, None, error or type(error).__name__)

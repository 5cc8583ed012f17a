"""Recording of AutoGen's model calls and tool calls as steps of a trace.

Model clients are wrapped, and tool calls are read from AutoGen's events. Copies of an agent may share a
client, so the recorder of the running turn is in a context variable.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import Any, AsyncIterator, Callable, Dict, Iterable, Optional

from ..trace import OpenSpan, TraceRecorder, ignore_errors
from .event_recorder import parse_tool_output

current_recorder: ContextVar[Optional[TraceRecorder]] = ContextVar("current_recorder", default=None)
"""Recorder of the turn that the current task runs; None if no trace of the turn is recorded."""

_MARK = "_evalgate_is_traced"


def trace_clients(clients: Iterable[Any]) -> None:
    """Wrap model clients, so that the recorder of the running turn records their calls.

    The recorder is read from the context variable `current_recorder`. Clients wrapped before are skipped.
    """
    for client in clients:
        if not getattr(client, _MARK, False):
            setattr(client, _MARK, True)
            client.create = _trace_create(client, client.create)
            client.create_stream = _trace_stream(client, client.create_stream)


def _trace_create(client: Any, create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    async def create_traced(messages: Any, **options: Any) -> Any:
        step = _start_step(client, messages, options)
        try:
            result = await create(messages, **options)
        except BaseException as error:
            _end_step(step, None, repr(error))
            raise
        _end_step(step, result)
        return result

    return create_traced


def _trace_stream(client: Any, create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    async def stream_traced(messages: Any, **options: Any) -> AsyncIterator[Any]:
        step, last = _start_step(client, messages, options), None
        try:
            async for item in create(messages, **options):
                last = item
                yield item
        except BaseException as error:
            _end_step(step, None, repr(error))
            raise
        _end_step(step, last)

    return stream_traced


@ignore_errors
def _start_step(client: Any, messages: Any, options: Dict[str, Any]) -> Optional[OpenSpan]:
    recorder = current_recorder.get()
    if recorder is None:
        return None
    model = getattr(client, "_create_args", {}).get("model") or type(client).__name__
    # `extra_create_args` may hold credentials.
    request = {
        "messages": list(messages),
        "tools": [getattr(each, "schema", each) for each in options.get("tools") or ()],
    }
    return recorder.start_span(
        "model", model, request={key: value for key, value in request.items() if value}
    )


@ignore_errors
def _end_step(step: Optional[OpenSpan], result: Any, error: str = "") -> None:
    recorder = current_recorder.get()
    if step is None or recorder is None:
        return
    used = getattr(result, "usage", None)
    if used is not None:
        step.usage = {
            "input_tokens": used.prompt_tokens,
            "output_tokens": used.completion_tokens,
            "models": [step.name],
        }
    parts = {key: getattr(result, key, None) for key in ("thought", "content")}
    recorder.end_span(step, {key: value for key, value in parts.items() if value}, error)


class ToolSteps:
    """Recorder of one turn's tool calls as trace steps; it holds the calls that have no result yet."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._open: Dict[str, OpenSpan] = {}

    @ignore_errors
    def note_message(self, message: Any) -> None:
        """Begin a step for each tool call that a message requests; end the step when the result arrives."""
        kind = type(message).__name__
        if kind == "ToolCallRequestEvent":
            for call in message.content:
                args = parse_tool_output(call.arguments)
                self._open[call.id] = self._recorder.start_span(
                    "tool", call.name, author=message.source, request=args
                )
        elif kind == "ToolCallExecutionEvent":
            for result in message.content:
                step = self._open.pop(result.call_id, None)
                if step is not None:
                    error = "the tool returned an error" if result.is_error else ""
                    self._recorder.end_span(step, parse_tool_output(result.content), error)

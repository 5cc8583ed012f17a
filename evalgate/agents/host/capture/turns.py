"""Captured events of turns, and the context variable that assigns code to a turn."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Any, Optional

from .model_apis import CapturedAnswer, ToolAnswer, limit_json_depth

if TYPE_CHECKING:
    from ..trace import OpenSpan, TraceRecorder

# Limit per turn: traced messages repeat the whole conversation in each span.
_MAX_SPAN_BYTES = 16 * 1024 * 1024
_current: contextvars.ContextVar[Optional[TurnCapture]] = contextvars.ContextVar(
    "evalgate_turn", default=None
)
_in_progress: set[TurnCapture] = set()


def get_current_turn() -> Optional[TurnCapture]:
    """Return the turn in progress that the calling code belongs to, or None.

    Code without a turn in its context, for example in a thread that C code started, belongs to the turn in
    progress if there is exactly one. Code of a turn that has ended belongs to no turn.
    """
    turn = _current.get()
    if turn is not None:
        # A thread that outlives its turn must not add events to the turn that is in progress by then.
        return turn if turn.is_open else None
    turns = list(_in_progress)
    return turns[0] if len(turns) == 1 else None


def set_turn(turn: Optional[TurnCapture]) -> contextvars.Token[Optional[TurnCapture]]:
    """Set the turn of the current context; return the token for `reset_turn`."""
    return _current.set(turn)


def reset_turn(token: contextvars.Token[Optional[TurnCapture]]) -> None:
    """Undo the call of `set_turn` that returned `token`."""
    _current.reset(token)


def get_inherited_turn() -> Optional[TurnCapture]:
    """Return the turn of the current context, for a new thread to inherit; None if there is no turn.

    The turn may have ended.
    """
    return _current.get()


class SessionCapture:
    """Factory of the captures of a session's turns. It keeps the tool calls that wait for a result."""

    def __init__(self, trace: Optional[TraceRecorder] = None, only_trace: bool = False) -> None:
        self.unanswered: dict[str, dict[str, Any]] = {}
        """Events of tool calls without a result, by the key of the call."""
        self._trace = trace
        self._only_trace = only_trace

    def begin_turn(self) -> TurnCapture:
        """Begin and return the capture of a turn.

        Code in the current context belongs to this turn. So do the tasks and threads that this code starts.
        """
        turn = TurnCapture(self.unanswered, self._trace, self._only_trace)
        _in_progress.add(turn)
        set_turn(turn)
        return turn


class TurnCapture:
    """Captured events, usage and spans of one turn. All methods may be called in any thread."""

    def __init__(
        self,
        unanswered: dict[str, dict[str, Any]],
        trace: Optional[TraceRecorder] = None,
        only_trace: bool = False,
    ) -> None:
        self.is_open = True
        self._trace = trace
        self._only_trace = only_trace
        """True for an agent that reports its events itself. Then `close` returns only the spans of the turn,
        and the number of dropped spans."""
        self._unanswered = unanswered
        self._events: list[dict[str, Any]] = []
        self._forced: list[dict[str, Any]] = []
        self._usage: Optional[dict[str, int]] = None
        self._models: list[str] = []
        self._spans: list[dict[str, Any]] = []
        self._span_bytes = 0
        self._dropped_spans = 0
        self._streams: list[Any] = []
        self._tool_steps: dict[str, OpenSpan] = {}
        """Open trace steps of tool calls, by the key of the call.

        A step begins with the model's answer that requests the call, and ends with the request that has the
        result.
        """
        self._lock = threading.Lock()

    def begin_request(self, body: dict[str, Any]) -> Optional[OpenSpan]:
        """Begin and return the trace step of a request to a model; `body` is the request's JSON.

        Return None if no trace is kept or the turn is over.
        """
        return self._start_step("model", body.get("model") or "model", body)

    def _start_step(self, kind: str, name: object, request: object) -> Optional[OpenSpan]:
        if self._trace is None or not self.is_open:
            return None
        span = self._trace.start_span(kind, name, request=request)
        span.attributes = {"evalgate.captured_from": "http"}
        return span

    def end_request(
        self, span: OpenSpan, body: Any, answer: Optional[CapturedAnswer] = None, error: object = ""
    ) -> None:
        """End the trace step of a request to a model.

        Args:
            span: The step.
            body: Body of the model's answer; None if there is none.
            answer: Parsed answer, from which the step gets its usage; None: the step has no usage.
            error: Reason why the request failed; "" if it was answered.
        """
        if self._trace is None:
            return
        if answer is not None and answer.tokens is not None:
            given, made = answer.tokens
            models = [answer.model] if answer.model else []
            span.usage = {"input_tokens": given, "output_tokens": made, "models": models}
        self._trace.end_span(span, body, error)

    def add_results(self, results: list[ToolAnswer]) -> None:
        """Record the tool results in a request to a model, for captured calls that have no result yet.

        Results of other calls are ignored. If several results have the same key, only the last one counts.
        """
        last = {each.key: each for each in results}  # an id may occur again: the last result is the newest
        with self._lock:
            for key, answered in last.items():
                call = self._unanswered.pop(key, None)
                step = self._tool_steps.pop(key, None)
                if step is not None and self._trace is not None:
                    self._trace.end_span(step, answered.result)
                if call is not None and self.is_open:
                    result = {"name": call["name"], "id": call.get("id"), "result": answered.result}
                    self._events.append({"type": "tool_result", **result})

    def add_answer(self, answer: CapturedAnswer, forced: Optional[str]) -> None:
        """Add the tool calls and the usage of a model's answer; do nothing if the turn has ended.

        If the model called a tool without being forced, the text of the answer is an intermediate message,
        and is added, too. Any other text is left out: it may be the reply, which the agent returns itself.

        Args:
            answer: Content of the answer.
            forced: Name of the tool that the request forced the model to call; None if there was none.
        """
        with self._lock:
            if not self.is_open:
                return
            if answer.text and any(call.name != forced for call in answer.calls):
                self._events.append({"type": "message", "text": answer.text})
            for call in answer.calls:
                event = {"type": "tool_call", "name": call.name, "args": call.args, "id": call.id}
                self._events.append(event)
                if call.result is not None:
                    self._events.append(
                        {"type": "tool_result", "name": call.name, "id": call.id, "result": call.result}
                    )
                    continue
                self._unanswered[call.key] = event
                if call.name == forced:
                    self._forced.append(event)
                elif (step := self._start_step("tool", call.name, call.args)) is not None:
                    self._tool_steps[call.key] = step
            self._count_usage(answer)

    def _count_usage(self, answer: CapturedAnswer) -> None:
        if answer.tokens is not None:
            known = self._usage or {"input_tokens": 0, "output_tokens": 0}
            input_tokens, output_tokens = answer.tokens
            self._usage = {
                "input_tokens": known["input_tokens"] + input_tokens,
                "output_tokens": known["output_tokens"] + output_tokens,
            }
        if answer.model and answer.model not in self._models:
            self._models.append(answer.model)

    def add_span(self, span: dict[str, Any], size: int) -> None:
        """Add an ended span of about `size` bytes; do nothing if the turn has ended.

        If the spans of the turn would exceed 16 MiB, the span is only counted as dropped.
        """
        with self._lock:
            if not self.is_open:
                return
            if self._span_bytes + size > _MAX_SPAN_BYTES:
                self._dropped_spans += 1
                return
            self._span_bytes += size
            self._spans.append(span)

    def add_stream(self, stream: Any) -> None:
        """Register `stream`, the reader of an answer that is still arriving, so that `close` can end it."""
        with self._lock:
            self._streams.append(stream)

    def close(self) -> Optional[dict[str, Any]]:
        """End the turn and its streams; return the fields of a `captured` message for the gate.

        Return None if nothing was captured. Steps of tool calls without a result are left out of the trace.
        """
        with self._lock:
            streams, self._streams = self._streams, []
        # Without the lock, which a stream takes to add its answer.
        for stream in streams:
            stream.end()
        with self._lock:
            self.is_open = False
            _in_progress.discard(self)
            if self._trace is not None:
                for step in self._tool_steps.values():
                    self._trace.drop_span(step)
            if self._only_trace:
                if not (self._spans or self._dropped_spans):
                    return None
                return {"spans": self._spans, "dropped_spans": self._dropped_spans, "only_trace": True}
            if not (self._events or self._usage or self._models or self._spans or self._dropped_spans):
                return None  # as in most turns: many agents report all by themselves
            return self._build_fields()

    def _build_fields(self) -> Optional[dict[str, Any]]:
        # A forced call without a result is structured output: the SDK reads its arguments as an object.
        forced = {id(each) for each in self._forced}
        objects = {id(each) for each in self._unanswered.values() if id(each) in forced}
        events = [each for each in self._events if id(each) not in objects]
        fields: dict[str, Any] = {
            "events": [
                {key: limit_json_depth(value) for key, value in each.items() if value is not None}
                for each in events
            ]
        }
        if self._usage is not None or self._models:
            fields["usage"] = {**(self._usage or {}), "models": self._models}
        fields["spans"] = self._spans
        fields["dropped_spans"] = self._dropped_spans
        return {key: value for key, value in fields.items() if value} or None

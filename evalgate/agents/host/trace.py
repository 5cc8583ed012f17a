"""Recorder of the timed steps of a session, which sends each step to the gate when the step ends.

The gate requests the steps with `trace` in the message `start`. Recording must never break a turn: steps that
cannot be converted are left out, and large values are cut. Once more than 2,000 steps of the session have
begun, no further step is sent.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from typing import Any, Callable, Optional

from .trace_values import MOST_SPANS, ValueClipper, clip_name


def ignore_errors(action: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `action`, and returns None if `action` raises an exception.

    No turn may fail because of its trace, so the exception is only written to stderr.
    """

    @functools.wraps(action)
    def call_action(*args: Any, **options: Any) -> Any:
        try:
            return action(*args, **options)
        except Exception as error:  # noqa: BLE001  another release of a framework may pass other objects
            sys.stderr.write(f"evalgate: a step of the agent is missing in the trace ({error!r})\n")
            return None

    return call_action


class OpenSpan:
    """Step that has begun. Until it ends, all fields but `id`, `kind`, `parent` and `began` may be set."""

    def __init__(self, number: int, kind: str, name: str, parent: Optional[OpenSpan], author: str) -> None:
        self.id = str(number)
        self.kind = kind
        self.name = name
        self.parent = parent
        self.author = author
        self.request: object = None
        """Request of the step, or a function that returns the request, called at the end of the step."""
        self.attributes: Optional[dict[str, Any]] = None
        self.usage: Optional[dict[str, Any]] = None
        """`input_tokens`, `output_tokens`, `cost_usd` and `models`, as far as they are known."""
        self.is_report = False
        """True for a tool call that the agent itself reported, perhaps without reporting a result later."""
        self.began = time.perf_counter()
        """Start of the step in seconds of `time.perf_counter`."""


class TraceRecorder:
    """Recorder of the steps of one session, turn by turn. All methods may be called in any thread."""

    def __init__(self, session: str, send: Callable[[dict[str, Any]], None]) -> None:
        self._session = session
        self._send = send
        self._clipper = ValueClipper()
        self._lock = threading.Lock()
        self._issued = 0
        self._turn_began: Optional[float] = None
        self._open: dict[str, OpenSpan] = {}
        self._has_agent = False

    def begin_turn(self) -> None:
        """Start a turn, from which the times of its steps are counted; forget open steps of earlier turns."""
        with self._lock:
            self._turn_began, self._has_agent = time.perf_counter(), False
            self._open.clear()

    def start_span(
        self,
        kind: str,
        name: object,
        *,
        parent: Optional[OpenSpan] = None,
        author: object = "",
        request: object = None,
    ) -> OpenSpan:
        """Begin a step, which `end_span` or the end of the turn ends.

        `kind` is `agent`, `model`, `tool` or `other`. `author` is the name of the agent that took the step.
        `parent` is the step that contains it; None: no step. `request` is the data that the step received,
        or a function that is called when the step ends and returns this data.
        """
        with self._lock:
            self._issued += 1
            span = OpenSpan(self._issued, kind, clip_name(name), parent, clip_name(author))
            span.request = request
            self._open[span.id] = span
            self._has_agent = self._has_agent or kind == "agent"
        return span

    def end_span(self, span: OpenSpan, response: object = None, error: object = "") -> None:
        """End a step and send it; do nothing if the step has ended or its turn is over."""
        with self._lock:
            if self._open.pop(span.id, None) is not None:
                self._send_span(span, response, error)

    def drop_span(self, span: OpenSpan) -> None:
        """Discard an open step without sending it, because it did not take place."""
        with self._lock:
            self._open.pop(span.id, None)

    def close_turn(self, name: object, request: object, response: object, error: object = "") -> None:
        """End the turn and its open steps; do nothing if no turn is open.

        If no step of kind `agent` began in the turn, a step for the whole turn is added.

        Args:
            name: Name of the added step.
            request: Request of the added step.
            response: Response of the added step.
            error: Error of the turn, for the added step and for all open steps; "" if the turn succeeded.
        """
        with self._lock:
            if self._turn_began is None:
                return
            for span in reversed([*self._open.values()]):
                if span.is_report and not error:
                    span.attributes = {"result": "not reported"}
                    self._send_span(span, None, "", duration_s=0.0)
                    continue
                # Frameworks do not report the end of an agent that handed over to another one.
                missing = "" if span.kind == "agent" else "did not end before the turn did"
                self._send_span(span, None, error or missing)
            self._open.clear()
            if not self._has_agent:
                self._issued += 1
                whole = OpenSpan(self._issued, "agent", clip_name(name), None, "")
                whole.began, whole.request = self._turn_began, request
                self._send_span(whole, response, error)
            self._turn_began = None

    def _send_span(
        self, span: OpenSpan, response: object, error: object, duration_s: Optional[float] = None
    ) -> None:
        if self._turn_began is None or self._issued > MOST_SPANS * 2:
            return
        request = span.request
        try:
            message: dict[str, Any] = {
                "type": "span",
                "session": self._session,
                "id": span.id,
                "parent_id": "" if span.parent is None else span.parent.id,
                "kind": span.kind,
                "name": span.name,
                "author": span.author,
                "start_s": span.began - self._turn_began,
                "duration_s": time.perf_counter() - span.began if duration_s is None else duration_s,
                "request": self._clipper.clip_value(request() if callable(request) else request),
                "response": self._clipper.clip_value(response),
                "error": "" if not error else str(error)[:2000],
                "usage": span.usage,
                "attributes": span.attributes,
            }
            self._send({key: value for key, value in message.items() if value not in (None, "")})
        except Exception:  # noqa: BLE001  a foreign object that cannot be converted must not fail the turn
            return

"""The `Session` that an agent receives, with its recorder of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional

from .mocked_tools import Mocks
from .recorded_tools import CallRecording
from .tools import refuse_undecorated_call

if TYPE_CHECKING:
    from .trace import OpenSpan, TraceRecorder


class Recorder:
    """Sender of the events that an agent reports while a turn is in progress."""

    def __init__(self, session: str, send: Callable[[dict[str, Any]], None]) -> None:
        self.open = False
        """True while a turn is in progress."""
        self.events = 0
        """Number of events in this turn."""
        self.has_calls = False
        """True if the agent's answer listed the tool calls of this turn, even an empty list."""
        self.final: str | None = None
        """Final response that the agent reported as a message, if any."""
        self._session = session
        self._send = send

    def begin_turn(self) -> None:
        """Start a turn; reset the events, calls and final response of the previous turn."""
        self.open, self.events, self.has_calls, self.final = True, 0, False, None

    def report_event(self, kind: str, **fields: object) -> None:
        """Send one event of type `kind`; fields that are None are left out.

        Raises:
            RuntimeError: no turn is in progress: the turn ended or was cancelled.
            MessageTooLargeError: the event exceeds 16 MiB.
            TypeError, ValueError, RecursionError: the event cannot be written as JSON.
        """
        if not self.open:
            raise RuntimeError(f"session.{kind}() was called when no turn was in progress")
        message: dict[str, Any] = {"type": kind, "session": self._session}
        message.update({key: value for key, value in fields.items() if value is not None})
        self._send(message)
        self.events += 1


class Session:
    """Conversation, passed to agents that take (text, session). All methods may be called in any thread."""

    def __init__(self, start: dict[str, Any], recorder: Recorder) -> None:
        self.id: str = start["session"]
        self.case: str = start.get("case", "")
        self.app_name: str = start.get("app_name", "")
        self.user_id: str = start.get("user_id", "")
        self.context_messages: list[dict[str, Any]] = start.get("context_messages") or []
        """Messages that precede the conversation, as the eval set holds them."""
        self.state: dict[str, Any] = start.get("state") or {}
        """State that the agent may change. Its value after the last turn is the final state."""
        self.history: list[dict[str, str]] = []
        """Messages of earlier turns in order: `{"role": "user" | "agent", "text": …}`."""
        self.attachments: list[Any] = []
        """Parts of the user's message that are not text, as in the eval set."""
        recording = start.get("tool_recording")
        self.mocks = Mocks(
            start.get("tool_mocks") or [], None if recording is None else CallRecording(recording)
        )
        """Fixed and recorded tool results, for hosts that apply tool mocks."""
        self.ids: dict[str, str] = {}
        """Ids of the conversation in the agent's framework: `session_id` and `user_id`."""
        self.recorder = recorder
        """Recorder of events, without type checks. Adapters of frameworks use it directly."""
        self.trace: Optional[TraceRecorder] = None
        """Recorder of timed steps, for adapters of frameworks; None if the gate requested no trace."""
        self._calls: dict[str, OpenSpan] = {}
        """Open trace steps of reported tool calls, by call id, or by tool name if the call has no id."""

    def tool_call(
        self,
        name: str,
        args: dict[str, Any] | None = None,
        id: str | None = None,  # noqa: A002  the name on the wire
        author: str | None = None,
    ) -> None:
        """Report that the agent calls a tool.

        `id` is any text that identifies the call; pass the same text to `tool_result`. `author` is the name
        of the agent, if there are several agents.

        Raises:
            NoMatchingMockError: the tool is mocked, and evalgate could not intercept the call: no function of
                this name has the decorator `evalgate_host.tool`.
            RuntimeError: no turn is in progress.
            MessageTooLargeError: the call exceeds 16 MiB.
            TypeError, ValueError, RecursionError: an argument has a wrong type, or JSON cannot hold `args`.
        """
        _require_type("name", name, str)
        if self.mocks:
            refuse_undecorated_call(self, name)
        if args is not None:
            _require_type("args", args, dict)
        if id is not None or author is not None:
            _require_texts(id=id, author=author)
        self.recorder.report_event("tool_call", name=name, args=args or {}, id=id, author=author)
        if self.trace is not None:
            step = self.trace.start_span("tool", name, author=author, request=args or {})
            step.is_report = True
            self._calls[id or name] = step

    def tool_result(
        self,
        name: str,
        result: object = None,
        id: str | None = None,  # noqa: A002  the name on the wire
        author: str | None = None,
    ) -> None:
        """Report the result of a tool call.

        `id` is the id that was passed to `tool_call`; None if no id was passed. `author` is the
        name of the agent, if there are several agents.

        Raises:
            RuntimeError: no turn is in progress.
            MessageTooLargeError: the result exceeds 16 MiB.
            TypeError, ValueError, RecursionError: an argument has a wrong type, or JSON cannot hold `result`.
        """
        _require_type("name", name, str)
        _require_texts(id=id, author=author)
        self.recorder.report_event("tool_result", name=name, result=result, id=id, author=author)
        if self.trace is not None and (id or name) in self._calls:
            self.trace.end_span(self._calls.pop(id or name), result)

    def message(self, text: str, author: str | None = None, final: bool = False) -> None:
        """Report an intermediate message of the agent, or with `final` the final response.

        `author` is the name of the agent, if there are several agents.

        Raises:
            TypeError: an argument has the wrong type.
            RuntimeError: no turn is in progress.
            MessageTooLargeError: the message exceeds 16 MiB.
        """
        _require_type("text", text, str)
        _require_texts(author=author)
        self.recorder.report_event("message", text=text, author=author, final=True if final else None)
        if final:
            self.recorder.final = text

    def usage(self, input_tokens: int = 0, output_tokens: int = 0, cost_usd: float | None = None) -> None:
        """Report the tokens and the cost in US dollars since the last report; the gate adds the reports up.

        A `cost_usd` of None means that the cost is unknown.

        Raises:
            TypeError: an argument has the wrong type.
            RuntimeError: no turn is in progress.
        """
        _require_type("input_tokens", input_tokens, int)
        _require_type("output_tokens", output_tokens, int)
        _require_type("cost_usd", 0 if cost_usd is None else cost_usd, (int, float))
        self.recorder.report_event(
            "usage", input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost_usd
        )


def _require_type(field: str, value: object, kind: type | tuple[type, ...]) -> None:
    # A bool is an int to Python and a mistake here.
    if isinstance(value, kind) and value is not True and value is not False:
        return
    kinds = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
    raise TypeError(f"`{field}` must be of type {kinds}, not {type(value).__name__}")


def _require_texts(**fields: object) -> None:
    for field, value in fields.items():
        if value is not None:
            _require_type(field, value, str)

"""Parser of values that an agent returns or yields: texts and the dicts of `docs/agent-protocol.md`."""

from __future__ import annotations

from typing import Any

from .errors import InvalidAnswerError, MessageTooLargeError
from .session import Recorder, Session

_ANSWER_KEYS = ("response", "tool_calls", "state", "usage")
_CALL_KEYS = ("name", "args", "id", "author", "result")
_USAGE_KEYS = ("input_tokens", "output_tokens", "cost_usd")
_EVENT_KEYS = {
    "tool_call": ("name", "args", "id", "author"),
    "tool_result": ("name", "result", "id", "author"),
    "message": ("text", "author", "final"),
    "usage": _USAGE_KEYS,
}


class AnswerCollector:
    """Collector of one turn's answer from the values that the agent returns and yields."""

    def __init__(self, session: Session, recorder: Recorder) -> None:
        self._session = session
        self._recorder = recorder
        self._pieces: list[str] = []
        self._response: str | None = None

    def add_yielded(self, value: object) -> None:
        """Add one value that a generator yields.

        A text is a piece of the response. A dict with `type` is an event. Any other dict is an answer, with
        keys such as `response` and `tool_calls`.

        Raises:
            InvalidAnswerError: the value is neither a text nor a dict, or the dict has an invalid field.
            NoMatchingMockError: the dict reports a call of a mocked tool, which evalgate could not intercept:
                no function of this name has the decorator `evalgate_host.tool`.
            MessageTooLargeError: the dict has an event or a tool call of more than 16 MiB.
            RuntimeError: the dict has an event, a tool call or usage, and no turn is in progress.
        """
        if isinstance(value, str):
            self._pieces.append(value)
        elif isinstance(value, dict) and "type" in value:
            self._report_event(value)
        elif isinstance(value, dict):
            self._read_answer(value, "yielded")
        else:
            raise InvalidAnswerError(
                f"the agent yielded {_describe_type(value)}; expected a str, an event such as "
                '{"type": "tool_call", "name": …, "args": …}, or {"response": …}'
            )

    def add_returned(self, value: object) -> None:
        """Add the return value of the agent's function.

        None is ignored if the agent already gave a text or reported an event.

        Raises:
            InvalidAnswerError: the value is None and not ignored, is of another type than text and dict, or
                is a dict with an invalid field.
            NoMatchingMockError: the dict reports a call of a mocked tool, which evalgate could not intercept:
                no function of this name has the decorator `evalgate_host.tool`.
            MessageTooLargeError: the dict has a tool call of more than 16 MiB.
            RuntimeError: the dict has a tool call or usage, and no turn is in progress.
        """
        if isinstance(value, str):
            self._response = value
        elif isinstance(value, dict):
            self._read_answer(value, "returned")
        elif value is not None or self.is_empty():
            raise InvalidAnswerError(
                f'the agent returned {_describe_type(value)}; expected a str or a dict {{"response": str, …}}'
            )

    def is_empty(self) -> bool:
        """Return True as long as the agent has given no text and reported no event in this turn."""
        return not self._pieces and self._response is None and self._recorder.events == 0

    def get_response(self) -> str | None:
        """Return the text of the response; None if the agent gave none.

        The response is the text that the agent returned or gave as `response`. If there is none, it is the
        joined texts that the agent yielded, or else the message that the agent reported as final.
        """
        if self._response is not None:
            return self._response
        return "".join(self._pieces) if self._pieces else self._recorder.final

    def _read_answer(self, answer: dict[Any, Any], how: str) -> None:
        _check_keys(answer, _ANSWER_KEYS, f"the dict that the agent {how}")
        response = answer.get("response")
        if response is not None and not isinstance(response, str):
            raise InvalidAnswerError(f"the agent's `response` is {_describe_type(response)}; expected a str")
        # An empty list counts too: the agent says that it called no tool, and captured calls are left out.
        self._recorder.has_calls |= answer.get("tool_calls") is not None
        for call in _require_list(answer.get("tool_calls")):
            self._report_call(call)
        _update_state(self._session, answer.get("state"))
        if answer.get("usage") is not None:
            self._report_fields("usage", answer["usage"], _USAGE_KEYS)
        self._response = self._response if response is None else response

    def _report_call(self, call: object) -> None:
        if not isinstance(call, dict):
            raise InvalidAnswerError(
                f"one of `tool_calls` is {_describe_type(call)}; expected a dict "
                f'{{"name": str, "args": dict}}'
            )
        _check_keys(call, _CALL_KEYS, "one of `tool_calls`")
        self._report_fields("tool_call", {key: call[key] for key in call if key != "result"}, _CALL_KEYS)
        if "result" in call:
            self._report_fields("tool_result", {key: call[key] for key in call if key != "args"}, _CALL_KEYS)

    def _report_event(self, event: dict[Any, Any]) -> None:
        kind = event["type"]
        if kind not in _EVENT_KEYS:
            raise InvalidAnswerError(
                f"the agent yielded an event of type {kind!r}; known are {', '.join(_EVENT_KEYS)}"
            )
        self._report_fields(kind, {key: event[key] for key in event if key != "type"}, _EVENT_KEYS[kind])

    def _report_fields(self, kind: str, fields: object, known: tuple[str, ...]) -> None:
        if not isinstance(fields, dict):
            raise InvalidAnswerError(
                f"the agent's `{kind}` is {_describe_type(fields)}; expected a dict of {', '.join(known)}"
            )
        _check_keys(fields, known, f"the agent's `{kind}`")
        try:
            # The methods of the session check the types, as they do for agents that call them.
            getattr(self._session, kind)(**fields)
        except MessageTooLargeError:  # a ValueError, but with a kind of failure of its own
            raise
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidAnswerError(f"the agent's `{kind}` cannot be used: {error}") from None


def _update_state(session: Session, state: object) -> None:
    if state is None:
        return
    if not isinstance(state, dict):
        raise InvalidAnswerError(f"the agent's `state` is {_describe_type(state)}; expected a dict")
    session.state.update(state)


def _require_list(value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise InvalidAnswerError(
            f"the agent's `tool_calls` is {_describe_type(value)}; expected a list of dicts"
        )
    return list(value)


def _check_keys(fields: dict[Any, Any], known: tuple[str, ...], subject: str) -> None:
    unknown = [key for key in fields if key not in known]
    if unknown:
        raise InvalidAnswerError(
            f"{subject} has the unknown key {unknown[0]!r}; known are {', '.join(known)}"
        )


def _describe_type(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"

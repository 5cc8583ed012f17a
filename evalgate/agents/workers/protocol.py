"""The worker protocol: encoding of the gate's messages, parsing of the untrusted messages of workers.

Each message is one line of JSON.
"""

import json
import math

from pydantic_core import from_json, to_json

from evalgate.core.lazy_pattern import compile_lazily
from evalgate.core.sanitize import replace_lone_surrogates, shorten_text, truncate_start
from evalgate.core.types import (
    TRANSIENT_FAILURES,
    Event,
    Failure,
    JsonObject,
    Message,
    Outcome,
    RecordedAnswer,
    Reply,
    ToolCall,
    ToolMock,
    ToolRecording,
    ToolResult,
    Usage,
)

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Largest number of bytes without a line end. A worker that sends more is ended, with all of its sessions."""
MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Largest number of bytes that an agent may send in one turn. Parsing more JSON could block all cases.

`agents/host/channel.py` has the same number, because the host imports nothing of evalgate.
"""
TOO_LARGE = (
    f"the agent sent more than {MAX_ANSWER_BYTES >> 20} MiB in one turn; "
    "let it send large data as a reference"
)
MAX_DEPTH = 100
_MAX_QUOTED = 120
_HEAD_BYTES = 200

_ESCAPED_SURROGATE = compile_lazily(r"\\u[dD][89a-fA-F]")
_NAMED_SESSION = compile_lazily(rb'\{"type": ?"[a-z_]{1,20}", ?"session": ?"([0-9]{1,12})"')


class WorkerProtocolError(Exception):
    """Error for output of a worker that is not a valid message. Later output cannot be trusted either."""

    def __init__(self, sentence: str, kind: str = "protocol") -> None:
        super().__init__(sentence)
        self.failure = Failure(kind, sentence)


def _parse_float(text: str) -> float | str:
    value = float(text)
    if math.isfinite(value):
        return value
    return "Infinity" if value > 0 else "-Infinity"


# parse_constant: NaN, Infinity and -Infinity become strings, because the record cannot hold them as numbers.
_DECODER = json.JSONDecoder(parse_float=_parse_float, parse_constant=str)


def _parse_int(text: str) -> int:
    return int(text)


# The hooks look useless, but they call Python for each object and number, so that other threads can run in
# between. The plain decoder is in C and lets none run (`parse_int=int` stays in C, too). For 16 MiB of tool
# calls the event loop waited 1,650 ms with the plain decoder, and 16 ms with this one.
_YIELDING_DECODER = json.JSONDecoder(
    parse_float=_parse_float, parse_int=_parse_int, parse_constant=str, object_hook=lambda value: value
)
THREAD_PARSE_SIZE = 64 * 1024
"""Characters or bytes above which a JSON text should be parsed in a thread. Shorter texts take at most 10 ms.

In the event loop, a longer parse would make all other cases wait.
"""
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_NOT_ASCII = b"\xff"


def encode_message(message: JsonObject) -> bytes:
    """Return a message as one line of JSON in ASCII, with a line end."""
    try:
        line = to_json(message)
    except ValueError:  # a lone surrogate
        line = _NOT_ASCII
    # `to_json` escapes nothing beyond ASCII, and takes a third of the time.
    return (line if line.isascii() else _ENCODER.encode(message).encode("ascii")) + b"\n"


def decode_message(line: bytes) -> dict[str, object]:
    """Parse one line from a worker as a JSON object.

    Bytes that are not UTF-8 and lone surrogates become U+FFFD; NaN and infinite numbers become strings.

    Raises:
        WorkerProtocolError: the line is not a JSON object, nests too deep, or holds a number of more than
            4,300 digits.
    """
    try:
        # In half the time of `parse_untrusted_json`, and equal short texts share their memory.
        value: object = from_json(line, allow_inf_nan=False) if _is_safe_for_fast_parser(line) else None
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    text = line.decode("utf-8", "replace")
    try:
        value = parse_untrusted_json(text)
    except json.JSONDecodeError:
        raise _build_message_error(text) from None
    if not isinstance(value, dict):
        raise _build_message_error(text)
    return value


def _is_safe_for_fast_parser(line: bytes) -> bool:
    """Return True if the fast JSON parser can decode a line.

    Return False if the line may nest too deep, or may have a number beyond the range of a float.
    """
    # Every line is checked, and this takes half the time of a regular expression.
    marks = line.translate(_NUMBER_MARKS, b"+")
    return (
        # A number may be too large if it has an exponent of three digits, or 25 digits in a row.
        b"e000" not in marks
        and _MANY_DIGITS not in marks
        and (len(line) <= 2 * MAX_DEPTH or line.count(b"{") + line.count(b"[") <= MAX_DEPTH)
    )


_NUMBER_MARKS = bytes.maketrans(b"E123456789", b"e000000000")
_MANY_DIGITS = b"0" * 25


def peek_session_key(line: bytes) -> str | None:
    """Return the session key of a line of JSON without parsing the line, which may be too long for that.

    Return None if `type` and `session` are not the first two fields, within the first 200 bytes.
    """
    found = _NAMED_SESSION.match(line[:_HEAD_BYTES])
    return None if found is None else found[1].decode()


def parse_untrusted_json(text: str) -> object:
    """Parse an untrusted JSON text.

    NaN and infinite numbers become strings; lone surrogates become U+FFFD.

    Raises:
        json.JSONDecodeError: the text is not JSON.
        WorkerProtocolError: the value nests too deep, or holds a number of more than 4,300 digits.
    """
    try:
        value: object = (_DECODER if len(text) <= THREAD_PARSE_SIZE else _YIELDING_DECODER).decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # int() refuses to read on
        raise WorkerProtocolError("the agent sent a number of more than 4,300 digits") from None
    except RecursionError:
        raise _build_depth_error() from None
    # Both walks over the value are slow and rarely needed: the text shows whether they can find anything.
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_too_deep(value, MAX_DEPTH):
        raise _build_depth_error()
    return _clean_value(value) if _ESCAPED_SURROGATE.search(text) else value


def _build_message_error(text: str) -> WorkerProtocolError:
    return WorkerProtocolError(
        "the agent wrote something that is not the protocol on stdout: "
        f"{quote_text(text)}; print to stderr instead"
    )


def _build_depth_error() -> WorkerProtocolError:
    return WorkerProtocolError(f"the agent sent a value that nests deeper than {MAX_DEPTH} levels")


def quote_text(text: str) -> str:
    """Return `text` cut after 120 characters, in quotes and in ASCII with escapes."""
    return ascii(text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "...")


def _is_too_deep(value: object, limit: int) -> bool:
    # Level by level: recursion would fail on the values that this function looks for.
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        parents = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for children in parents for child in children if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _clean_value(value: object) -> object:
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if isinstance(value, list):
        return [_clean_value(each) for each in value]
    if isinstance(value, dict):
        return {replace_lone_surrogates(key): _clean_value(each) for key, each in value.items()}
    return value


# Above this, programs that read JSON numbers as floats lose digits.
_MAX_TOKENS = 2**53
_MAX_SENTENCE = 2_000
_MAX_TRACEBACK = 16 * 1024
_KIND = compile_lazily(r"[a-z][a-z_]{0,39}")
_EXTERNAL_FAULTS = TRANSIENT_FAILURES | {"unsupported", "no_mock"}


class InvalidMessageError(Exception):
    """Error for a message with a missing field or a field of a wrong type; the text names the field."""


def parse_tool_call(message: JsonObject) -> ToolCall:
    """Parse a message of type `tool_call`; raise InvalidMessageError if a field is wrong."""
    args = message.get("args")
    if args is not None and not isinstance(args, dict):
        raise _build_field_error(message, "args", "an object")
    name, id_, author = _read_labels(message)
    return ToolCall(name, args, id_, author)


def parse_tool_result(message: JsonObject) -> ToolResult:
    """Parse a message of type `tool_result`; raise InvalidMessageError if a field is wrong."""
    name, id_, author = _read_labels(message)
    return ToolResult(name, message.get("result"), id_, author)


def _read_labels(message: JsonObject) -> tuple[str, str | None, str | None]:
    """Return the name, id and author of a tool call or result; a missing id or author is None."""
    name = _require_text(message, "name")
    if "id" in message or "author" in message:
        return name, _read_label(message, "id"), _read_label(message, "author")
    return name, None, None


def parse_message(message: JsonObject) -> Message:
    """Parse a message of type `message`; raise InvalidMessageError if a field is wrong."""
    return Message(_require_text(message, "text"), _read_label(message, "author"))


_MISSING = object()


def parse_usage(message: JsonObject) -> Usage:
    """Parse a message of type `usage`; raise InvalidMessageError if a field is wrong."""
    cost = message.get("cost_usd", _MISSING)
    if cost is _MISSING:
        return Usage.from_tokens(*_read_tokens(message), None, _read_models(message))
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not _is_amount(cost):
        raise _build_field_error(message, "cost_usd", "a number, 0 or more")
    return Usage.from_tokens(*_read_tokens(message), float(cost), _read_models(message))


def _read_tokens(message: JsonObject) -> tuple[int, int]:
    return _read_count(message, "input_tokens"), _read_count(message, "output_tokens")


def parse_state(message: JsonObject) -> JsonObject | None:
    """Return the `state` of a message, or None; raise InvalidMessageError if `state` is not an object."""
    found = message.get("state")
    if found is not None and not isinstance(found, dict):
        raise _build_field_error(message, "state", "an object")
    return found


def read_id(message: JsonObject, field: str) -> str:
    """Return the id in `field`, or "" if it is missing; raise InvalidMessageError if it is no string."""
    return _read_label(message, field) or ""


def read_retry_after(message: JsonObject) -> float | None:
    """Return the seconds to wait before a retry, as an `error` message says; None without a valid number."""
    seconds = message.get("retry_after_s")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not _is_amount(seconds):
        return None
    return float(seconds)


def parse_failure(message: JsonObject, *, kind: str) -> Failure:
    """Parse a message of type `error` or `fatal`; `kind` is used if the message has no valid kind."""
    reported, sentence, trace = message.get("kind"), message.get("message"), message.get("traceback")
    if isinstance(reported, str) and _KIND.fullmatch(reported):
        kind = reported
    text = shorten_text(sentence.strip(), _MAX_SENTENCE) if isinstance(sentence, str) else ""
    detail = truncate_start(trace, _MAX_TRACEBACK) if isinstance(trace, str) else ""
    return Failure(kind, text or "the agent reported an error without a message", detail)


def classify_failure(failure: Failure) -> Outcome:
    """Return `faulted` if the agent is not at fault (busy provider, missing mock); else `crashed`."""
    return "faulted" if failure.kind in _EXTERNAL_FAULTS else "crashed"


def encode_tool_mock(mock: ToolMock) -> dict[str, object]:
    """Convert a tool mock to JSON data of the protocol. Conditions that match every call are left out."""
    found = {"name": mock.tool, "args": mock.args, "turn": mock.turn, "exact": mock.exact or None}
    return {**{key: value for key, value in found.items() if value is not None}, "result": mock.result}


def encode_tool_recording(recording: ToolRecording) -> dict[str, object]:
    """Convert a tool recording to JSON data of the protocol."""
    calls = [
        {
            "name": call.tool,
            **({} if call.args is None else {"args": call.args}),
            "answers": [_encode_answer(each) for each in call.answers],
        }
        for call in recording.calls
    ]
    live = {"live": list(recording.live)} if recording.live else {}
    return {"source": recording.source, **live, "calls": calls}


def _encode_answer(answer: RecordedAnswer) -> dict[str, object]:
    if answer.lost:
        return {"lost": answer.lost}
    if answer.error is None:
        return {"result": answer.result}
    return {"error": answer.error, **({"type": answer.error_type} if answer.error_type else {})}


def _build_field_error(message: JsonObject, field: str, expected: str) -> InvalidMessageError:
    return InvalidMessageError(f"the agent sent a {message['type']} whose `{field}` is not {expected}")


def _require_text(message: JsonObject, field: str) -> str:
    value = message.get(field)
    if not isinstance(value, str):
        raise _build_field_error(message, field, "a string")
    return value


def _read_label(message: JsonObject, field: str) -> str | None:
    value = message.get(field)
    if value is not None and not isinstance(value, str):
        raise _build_field_error(message, field, "a string")
    return value


def _read_count(message: JsonObject, field: str) -> int:
    value = message.get(field, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_TOKENS:
        raise _build_field_error(message, field, "a whole number, 0 or more")
    return value


def _read_models(message: JsonObject) -> tuple[str, ...]:
    models = message.get("models", [])
    if not isinstance(models, list) or not all(isinstance(each, str) for each in models):
        raise _build_field_error(message, "models", "a list of strings")
    return tuple(sorted(set(models)))


def _is_amount(cost: float) -> bool:
    return 0 <= cost <= _MAX_TOKENS and math.isfinite(cost)


class TurnCollector:
    """Collector of the events of one turn."""

    __slots__ = ("_final", "events", "has_usage", "size")

    def __init__(self) -> None:
        self.size = 0
        """Bytes that the turn has sent so far."""
        self.has_usage = False
        """True if the agent itself reported its usage."""
        self.events: list[Event] = []
        """Events that the agent reported, in order."""
        self._final: int | None = None
        """Index of the last event that is a message marked as final."""

    def add_message(self, message: JsonObject) -> None:
        """Append a text of the agent to the events.

        If the message `done` has no response, the last text that is marked as final is the response.

        Raises:
            InvalidMessageError: a field is wrong.
        """
        if message.get("final") is True:
            self._final = len(self.events)
        self.events.append(parse_message(message))

    def add_captured(self, events: tuple[Event, ...]) -> None:
        """Insert captured events before the reported events; do nothing if the agent reported tool calls.

        A captured message is left out if the agent reported a message with the same text.
        """
        if any(isinstance(event, ToolCall) for event in self.events):
            return
        texts = {event.text for event in self.events if isinstance(event, Message)}
        new = [event for event in events if not isinstance(event, Message) or event.text not in texts]
        self.events[:0] = new
        if self._final is not None:
            self._final += len(new)

    def build_reply(self, done: JsonObject) -> Reply:
        """Return the reply of the turn, which the worker finished with the message `done`.

        Raises:
            InvalidMessageError: a field of `done` is wrong.
        """
        response = _read_label(done, "response")
        final = self._final
        if final is None:
            return Reply(response, tuple(self.events))
        last = self.events[final]
        if isinstance(last, Message) and response in (None, last.text):
            # The final message is the response, so it is not an event as well.
            return Reply(last.text, (*self.events[:final], *self.events[final + 1 :]))
        return Reply(response, tuple(self.events))

"""What chat completions say: whole, or in the chunks of a stream, which are put together by index.

Shapes: the API reference of `POST /chat/completions`.
"""

import json
from collections.abc import Mapping, Sequence

from evalgate.agents.http.connection import parse_json_body
from evalgate.agents.http.conversation import build_format_error
from evalgate.core.frozen import frozen
from evalgate.core.protocols import AgentError
from evalgate.core.sanitize import shorten_text
from evalgate.core.types import Failure, JsonObject, ToolCall, Usage


@frozen
class Completion:
    """One completion."""

    message: JsonObject
    """As it is sent back with the next request."""
    usage: Usage | None

    @property
    def text(self) -> str | None:
        """What the agent says, or how it refuses. Raises AgentFailed: it is no text."""
        text = self.message.get("content")
        if isinstance(text, str) or text is None:
            refusal = self.message.get("refusal")
            return text if text or not isinstance(refusal, str) else refusal
        if isinstance(text, list):
            return "".join(_read_text(part) for part in text)
        raise build_format_error("the completion's `content` is not a text")

    @property
    def size(self) -> int:
        """Characters of the arguments of its calls."""
        calls = self.message.get("tool_calls")
        return sum(map(_measure_arguments, calls)) if isinstance(calls, list) else 0

    def read_calls(self, spent: Usage | None) -> tuple[ToolCall, ...]:
        """Return the tools that it calls. Raises AgentFailed: a call is not one."""
        calls = self.message.get("tool_calls") or ()
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            raise AgentError(Failure("protocol", "the completion's `tool_calls` is not a list"), usage=spent)
        return tuple(map(_parse_call, calls))


def _measure_arguments(call: object) -> int:
    function = call.get("function") if isinstance(call, dict) else None
    text = function.get("arguments") if isinstance(function, dict) else None
    return len(text) if isinstance(text, str) else 0


def _parse_call(call: object) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict) or not isinstance(name, str):
        raise build_format_error("the completion calls a tool that is not a function with a name")
    id_, text = call.get("id"), function.get("arguments")
    id_ = id_ if isinstance(id_, str) else None
    if not isinstance(text, str) or not text.strip():
        return ToolCall(name, {}, id_)
    try:
        args = parse_json_body(text)
    except AgentError:
        args = text  # a model that writes broken JSON has made a wrong call, which is scored as one
    return ToolCall(name, args, id_) if isinstance(args, dict) else ToolCall(name, None, id_, other_args=args)


def parse_chat_completion(found: object) -> Completion:
    """The completion in the JSON of an answer. Raises AgentFailed: there is none."""
    choices = found.get("choices") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(choices, list):
        raise build_format_error(
            "the agent's answer is no chat completion: it has no `choices`", _dump_excerpt(found)
        )
    message = choices[0].get("message") if choices and isinstance(choices[0], dict) else None
    if not isinstance(message, dict):
        raise build_format_error("the chat completion holds no message")
    kept = {key: value for key, value in message.items() if key in _SENT_BACK and value is not None}
    return Completion({"content": None, **kept, "role": "assistant"}, _parse_usage(found.get("usage")))


_SENT_BACK = ("content", "refusal", "tool_calls")


class CompletionAssembler:
    """Puts a streamed completion together."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"content": [], "refusal": []}
        self._calls: list[tuple[int, dict[str, str]]] = []
        self._open: dict[int, dict[str, str]] = {}
        """Index → the call that its pieces go on with."""
        self._usage: Usage | None = None
        self._is_over = False
        self.is_done = False
        """Whether the stream said that nothing more follows."""

    def add_event(self, data: str) -> None:
        """One event of the stream. Raises AgentFailed."""
        if data.strip() == "[DONE]":
            self._is_over = self.is_done = True
            return
        chunk = parse_json_body(data)
        if not isinstance(chunk, dict) or chunk.get("error"):
            raise build_format_error("the agent broke its answer off with an error", _dump_excerpt(chunk))
        self._usage = _parse_usage(chunk.get("usage")) or self._usage
        for choice in _filter_objects(chunk.get("choices"))[:1]:
            self._is_over = self._is_over or choice.get("finish_reason") is not None
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._add_delta(delta)

    def build_completion(self) -> Completion:
        """The whole. Raises AgentFailed: the stream was cut."""
        if not self._is_over:
            raise build_format_error("the agent's stream ended before its answer did")
        texts = {name: "".join(parts) for name, parts in self._texts.items() if parts}
        message: dict[str, object] = {"role": "assistant", "content": None, **texts}
        if self._calls:
            in_order = sorted(self._calls, key=lambda each: each[0])
            message["tool_calls"] = [_build_function_call(call) for _, call in in_order]
        return Completion(message, self._usage)

    def _add_delta(self, delta: JsonObject) -> None:
        for name, parts in self._texts.items():
            if isinstance(piece := delta.get(name), str):
                parts.append(piece)
        for position, piece in enumerate(_filter_objects(delta.get("tool_calls"))):
            call = self._find_call(piece, position)
            function = piece.get("function")
            for name in ("name", "arguments"):
                if isinstance(function, dict) and isinstance(part := function.get(name), str):
                    call[name] = call.get(name, "") + part

    def _find_call(self, piece: JsonObject, position: int) -> dict[str, str]:
        """What the piece of a call belongs to: another id is another call, whatever its index.

        Servers exist that give every call the index 0, or none, and send each as a whole.
        """
        index, id_ = piece.get("index"), piece.get("id")
        key = index if isinstance(index, int) else position
        call = self._open.get(key)
        is_other = isinstance(id_, str) and id_ and call is not None and call.get("id", id_) != id_
        if call is None or is_other:
            call = self._open[key] = {}
            self._calls.append((key, call))
        if isinstance(id_, str) and id_:
            call["id"] = id_
        return call


def _build_function_call(call: Mapping[str, str]) -> JsonObject:
    function = {"name": call.get("name", ""), "arguments": call.get("arguments", "")}
    return {"id": call.get("id", ""), "type": "function", "function": function}


def _parse_usage(found: object) -> Usage | None:
    """Return what a completion says that it consumed; None if it does not, or says less than nothing."""
    if not isinstance(found, dict):
        return None
    counts = [found.get(name) for name in ("prompt_tokens", "completion_tokens")]
    given, made = (count if isinstance(count, int) else 0 for count in counts)
    return Usage.from_tokens(given, made) if min(given, made) >= 0 else None


def _filter_objects(found: object) -> list[dict[str, object]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _read_text(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def _dump_excerpt(found: object) -> str:
    return shorten_text(json.dumps(found), 2_000)

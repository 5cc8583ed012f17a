"""Parser of chat completions, whole or in the chunks of a stream.

The shapes are those of OpenAI's API reference of `POST /chat/completions`.
"""

import json
from collections.abc import Sequence

from evalgate.agents.http.connection import parse_json_body
from evalgate.agents.http.conversation import build_format_error
from evalgate.core.frozen import frozen
from evalgate.core.protocols import AgentError
from evalgate.core.sanitize import shorten_text
from evalgate.core.types import Failure, JsonObject, ToolCall, Usage


@frozen
class Completion:
    """Message of the model, with the usage that the server reports."""

    message: JsonObject
    """The message in the form in which the next request sends it back."""
    usage: Usage | None

    @property
    def text(self) -> str | None:
        """Return the text of the message, or its refusal if it has no text; None if it has neither.

        Raises:
            AgentError: `content` is no text.
        """
        text = self.message.get("content")
        if isinstance(text, str) or text is None:
            refusal = self.message.get("refusal")
            return text if text or not isinstance(refusal, str) else refusal
        if isinstance(text, list):
            texts = (part.get("text") for part in text if isinstance(part, dict))
            return "".join(each for each in texts if isinstance(each, str))
        raise build_format_error("the completion's `content` is not a text")

    @property
    def size(self) -> int:
        """Return the number of characters in the arguments of its tool calls."""
        functions = (call.get("function") for call in _filter_objects(self.message.get("tool_calls")))
        texts = (each.get("arguments") for each in functions if isinstance(each, dict))
        return sum(len(text) for text in texts if isinstance(text, str))

    def read_calls(self, spent: Usage | None) -> tuple[ToolCall, ...]:
        """Return its tool calls.

        Args:
            spent: Usage of the turn so far, for the error.

        Raises:
            AgentError: `tool_calls` is malformed.
        """
        calls = self.message.get("tool_calls") or ()
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            raise AgentError(Failure("protocol", "the completion's `tool_calls` is not a list"), usage=spent)
        return tuple(map(_parse_call, calls))


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
    """Return the completion in the JSON of an answer.

    Raises:
        AgentError: there is none.
    """
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
    """Collector of the chunks of a streamed completion."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"content": [], "refusal": []}
        self._calls: list[tuple[int, dict[str, str]]] = []
        self._open: dict[int, dict[str, str]] = {}
        """The call that the next piece of an index continues."""
        self._usage: Usage | None = None
        self._is_over = False
        self.is_done = False
        """True after the `[DONE]` that ends the stream."""

    def add_event(self, data: str) -> None:
        """Add the data of one event of the stream.

        Raises:
            AgentError: it is no chunk, or it reports an error.
        """
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
        """Return the whole completion.

        Raises:
            AgentError: the stream ended without a `finish_reason` or `[DONE]`.
        """
        if not self._is_over:
            raise build_format_error("the agent's stream ended before its answer did")
        texts = {name: "".join(parts) for name, parts in self._texts.items() if parts}
        message: dict[str, object] = {"role": "assistant", "content": None, **texts}
        if self._calls:
            in_order = sorted(self._calls, key=lambda each: each[0])
            message["tool_calls"] = [
                {
                    "id": call.get("id", ""),
                    "type": "function",
                    "function": {"name": call.get("name", ""), "arguments": call.get("arguments", "")},
                }
                for _, call in in_order
            ]
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
        """Return the call that a piece continues, or a new one; another id means another call.

        The index alone does not identify a call: some servers send each call as a whole, all with the
        index 0 or without an index.
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


def _parse_usage(found: object) -> Usage | None:
    """Return the usage that a completion reports; None if it reports none or a negative count."""
    if not isinstance(found, dict):
        return None
    counts = [found.get(name) for name in ("prompt_tokens", "completion_tokens")]
    given, made = (count if isinstance(count, int) else 0 for count in counts)
    return Usage.from_tokens(given, made) if min(given, made) >= 0 else None


def _filter_objects(found: object) -> list[dict[str, object]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _dump_excerpt(found: object) -> str:
    return shorten_text(json.dumps(found), 2_000)

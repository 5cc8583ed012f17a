"""Parsers of model requests and answers: OpenAI's chat completions and responses, Anthropic's messages.

The dialect is detected from the end of the path and the shape of the request, not from the host, so that
proxies and compatible servers are read as well. Unknown shapes are ignored.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Optional, Protocol

from ..streamed_calls import StreamedCalls, append_texts

# The gate refuses lines that nest deeper than 100, and a capture must never break a turn.
_MAX_DEPTH = 50


def parse_call_arguments(text: Any) -> Optional[dict[str, Any]]:
    """Return the arguments of a tool call from a dict or from the JSON text of an object.

    Return {} for "", which means no arguments, and None for any other value.
    """
    value = decode_json(text) if isinstance(text, str) and text else ({} if text == "" else text)
    return value if isinstance(value, dict) else None


def decode_result(content: Any) -> Any:
    """Return a tool's result. The JSON text of an object or list is parsed; other content is unchanged."""
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        return decode_json(content)
    return content


def decode_json(text: str) -> Any:
    """Return the value of a JSON text, or the text itself if it is not valid JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def limit_json_depth(value: Any) -> Any:
    """Return `value`, or its JSON text if `value` nests deeper than 50 levels.

    Return the name of the type if the deep value cannot be written as JSON.
    """
    # Level by level: recursion would fail on the values that this function looks for.
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(_MAX_DEPTH):
        parents = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for children in parents for child in children if isinstance(child, (dict, list))]
        if not level:
            return value
    try:
        return json.dumps(value, default=str)
    except (ValueError, RecursionError):
        return str(type(value).__name__)


_Json = dict[str, Any]


class ToolAnswer(NamedTuple):
    """Tool result that a request passes to a model."""

    key: str
    """Id of the tool call with this result; for a call without id, `name TOOL`, such as `name search`."""
    result: Any


class ModelToolCall(NamedTuple):
    """Tool call that a model asks for."""

    name: str
    args: Optional[_Json]
    """Arguments; None if the model wrote anything but a JSON object."""
    id: Optional[str]
    result: Any = None
    """Result of a tool that the provider ran itself; None for any other tool, or if the answer has none."""

    @property
    def key(self) -> str:
        """Return the key that relates this call to its result, the `ToolAnswer` with the same key.

        It is the id of the call. For a call without id, it is `name ` and the tool's name: `name search`.
        """
        return self.id or f"name {self.name}"


class CapturedAnswer(NamedTuple):
    """Tool calls, text, usage and model of one answer; `text` and `model` are "" if the answer has none."""

    calls: list[ModelToolCall]
    text: str
    tokens: Optional[tuple[int, int]]
    """(input tokens, output tokens); None if the answer has neither."""
    model: str


class ModelDialect(Protocol):
    """Parser of the requests and answers of one API of models, such as OpenAI's chat completions."""

    def read_results(self, body: _Json) -> list[ToolAnswer]:
        """Return the tool results in a request, the oldest first."""
        ...

    def find_forced_tool(self, body: _Json) -> Optional[str]:
        """Return the name of the tool that the request forces the model to call; None if it forces none."""
        ...

    def read_answer(self, body: _Json) -> Optional[CapturedAnswer]:
        """Return the content of a complete answer; None if the body is not an answer of this API."""
        ...

    def create_assembler(self) -> StreamAssembler:
        """Return an object that puts the events of a streamed answer together to a complete answer."""
        ...


class StreamAssembler(Protocol):
    """Collector of the events of a streamed answer."""

    body: Optional[_Json]
    """Answer so far, in the form of an answer that is not streamed; None before the first part arrives."""

    def add_event(self, event: _Json) -> bool:
        """Add one event; return True if the event is known to be the last one."""
        ...


def detect_dialect(path: str, body: Any) -> Optional[ModelDialect]:
    """Return the dialect of a request that posts `body` to `path`; None if it is not a request to a model."""
    if not isinstance(body, dict):
        return None
    path = path.rstrip("/")
    if path.endswith("/chat/completions") and isinstance(body.get("messages"), list):
        return ChatCompletionsDialect()
    if path.endswith("/responses") and ("input" in body or "prompt" in body):
        return ResponsesDialect()
    # Vertex AI has the model in the path, and the version of the API in the body instead.
    anthropic = path.endswith("/messages") and "model" in body
    on_vertex = path.endswith((":rawPredict", ":streamRawPredict")) and "anthropic_version" in body
    if (anthropic or on_vertex) and isinstance(body.get("messages"), list):
        return MessagesDialect()
    return None


class ChatCompletionsDialect:
    """OpenAI's chat completions, which most providers offer."""

    def read_results(self, body: _Json) -> list[ToolAnswer]:
        """Return the results in messages of the roles `tool` and, in older requests, `function`."""
        results = []
        for message in filter_objects(body.get("messages")):
            if message.get("role") == "tool":
                key = str(message.get("tool_call_id") or "")
            elif message.get("role") == "function":
                key = f"name {message.get('name')}"
            else:
                continue
            results.append(ToolAnswer(key, decode_result(_join_texts(message.get("content")))))
        return results

    def find_forced_tool(self, body: _Json) -> Optional[str]:
        """Return the name of the tool in `tool_choice` or in its predecessor `function_call`, or None."""
        choice = body.get("tool_choice") or body.get("function_call")
        if not isinstance(choice, dict):
            return None
        return _read_name(choice.get("function") or choice.get("custom") or choice)

    def read_answer(self, body: _Json) -> Optional[CapturedAnswer]:
        """Return the content of the first choice; None if there is no choice, or if it has no message."""
        choices = filter_objects(body.get("choices"))
        if not choices or not isinstance(choices[0].get("message"), dict):
            return None
        message = choices[0]["message"]
        calls = [_read_chat_call(each) for each in filter_objects(message.get("tool_calls"))]
        legacy = message.get("function_call")
        if isinstance(legacy, dict) and _read_name(legacy):
            calls.append(
                ModelToolCall(str(legacy["name"]), parse_call_arguments(legacy.get("arguments")), None)
            )
        tokens = _read_tokens(body.get("usage"), "prompt_tokens", "completion_tokens")
        text = _join_texts(message.get("content"))
        return CapturedAnswer(calls, text if isinstance(text, str) else "", tokens, _read_model(body))

    def create_assembler(self) -> StreamAssembler:
        """Return an object that joins the chunks of a streamed completion to one completion."""
        return _ChatAssembler()


def _read_chat_call(call: _Json) -> ModelToolCall:
    id_ = call.get("id")
    custom = call.get("custom")
    if isinstance(custom, dict):
        return ModelToolCall(str(custom.get("name") or ""), _wrap_custom_input(custom.get("input")), id_)
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    return ModelToolCall(
        str(function.get("name") or ""), parse_call_arguments(function.get("arguments")), id_
    )


class _ChatAssembler:
    def __init__(self) -> None:
        self.body: Optional[_Json] = None
        self._calls = StreamedCalls()
        self._message: _Json = {"content": "", "tool_calls": self._calls.calls}

    def add_event(self, event: _Json) -> bool:
        if self.body is None:
            self.body = {"choices": [{"message": self._message}]}
        self.body.update({key: event[key] for key in ("model", "usage") if event.get(key)})
        for choice in filter_objects(event.get("choices")):
            if choice.get("index", 0) == 0 and isinstance(choice.get("delta"), dict):
                self._add_delta(choice["delta"])
        # No chunk is known to be the last one: the usage follows the one with `finish_reason`.
        return False

    def _add_delta(self, delta: _Json) -> None:
        if isinstance(delta.get("content"), str):
            self._message["content"] += delta["content"]
        for position, piece in enumerate(filter_objects(delta.get("tool_calls"))):
            self._calls.add_piece(piece, position)
        if isinstance(delta.get("function_call"), dict):
            legacy = self._message.setdefault("function_call", {"name": "", "arguments": ""})
            append_texts(legacy, delta["function_call"], "arguments")


class ResponsesDialect:
    """OpenAI's Responses API, in which the provider may run tools itself."""

    def read_results(self, body: _Json) -> list[ToolAnswer]:
        """Return the results in input items of types that end in `_call_output`."""
        return [
            ToolAnswer(str(item.get("call_id") or ""), decode_result(_join_texts(item.get("output"))))
            for item in filter_objects(body.get("input"))
            if str(item.get("type")).endswith("_call_output")
        ]

    def find_forced_tool(self, body: _Json) -> Optional[str]:
        """Return the name of the tool in `tool_choice`; None if it names no tool."""
        return _read_name(body.get("tool_choice"))

    def read_answer(self, body: _Json) -> Optional[CapturedAnswer]:
        """Return the calls and messages of the output items; None if the body is not a response."""
        if body.get("object") != "response" or not isinstance(body.get("output"), list):
            return None
        calls, texts = [], []
        for item in filter_objects(body["output"]):
            kind = str(item.get("type"))
            if kind.endswith("_call"):
                calls.append(_read_response_call(item, kind))
            elif kind == "message":
                text = _join_texts(item.get("content"))
                texts.append(text if isinstance(text, str) else "")
        tokens = _read_tokens(body.get("usage"), "input_tokens", "output_tokens")
        return CapturedAnswer(calls, "\n".join(filter(None, texts)), tokens, _read_model(body))

    def create_assembler(self) -> StreamAssembler:
        """Return an object that reads only the last event of the stream, which holds the whole response."""
        return _ResponseAssembler()


def _read_response_call(item: _Json, kind: str) -> ModelToolCall:
    # A tool of the provider has no name: its type is used as the name.
    args = _wrap_custom_input(item.get("input")) if kind == "custom_tool_call" else item.get("arguments")
    result = item.get("output") if kind == "mcp_call" else None
    id_ = item.get("call_id") or item.get("id")
    return ModelToolCall(_read_name(item) or kind, parse_call_arguments(args), id_, decode_result(result))


class _ResponseAssembler:
    _LAST = ("response.completed", "response.incomplete", "response.failed")

    def __init__(self) -> None:
        self.body: Optional[_Json] = None

    def add_event(self, event: _Json) -> bool:
        if event.get("type") not in self._LAST:
            return False
        response = event.get("response")
        self.body = response if isinstance(response, dict) else None
        return True


class MessagesDialect:
    """Anthropic's Messages API, also on Google Vertex AI."""

    def read_results(self, body: _Json) -> list[ToolAnswer]:
        """Return the results in content blocks of the type `tool_result`."""
        return [
            ToolAnswer(str(block.get("tool_use_id") or ""), decode_result(_join_texts(block.get("content"))))
            for message in filter_objects(body.get("messages"))
            for block in filter_objects(message.get("content"))
            if block.get("type") == "tool_result"
        ]

    def find_forced_tool(self, body: _Json) -> Optional[str]:
        """Return the name of the tool in `tool_choice`; None if it names no tool."""
        return _read_name(body.get("tool_choice"))

    def read_answer(self, body: _Json) -> Optional[CapturedAnswer]:
        """Return the calls and texts of the content blocks; None if the body is not a message."""
        if body.get("type") != "message" or not isinstance(body.get("content"), list):
            return None
        blocks = filter_objects(body["content"])
        results = {
            block.get("tool_use_id"): block.get("content") for block in blocks if "tool_use_id" in block
        }
        calls = [
            ModelToolCall(
                str(block.get("name") or ""),
                parse_call_arguments(block.get("input")),
                block.get("id"),
                results.get(block.get("id")),
            )
            for block in blocks
            if str(block.get("type")).endswith("tool_use")
        ]
        text = "\n".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
        return CapturedAnswer(calls, text, _count_anthropic_tokens(body.get("usage")), _read_model(body))

    def create_assembler(self) -> StreamAssembler:
        """Return an object that joins the content blocks of a streamed message and their deltas."""
        return _MessageAssembler()


def _count_anthropic_tokens(usage: Any) -> Optional[tuple[int, int]]:
    """Return the numbers of input and output tokens; None if the usage has neither.

    Cached input tokens are added: Anthropic, unlike OpenAI, counts them separately.
    """
    tokens = _read_tokens(usage, "input_tokens", "output_tokens")
    if tokens is None:
        return None
    cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
    return tokens[0] + sum(_read_count(usage.get(key)) for key in cached), tokens[1]


class _MessageAssembler:
    def __init__(self) -> None:
        self.body: Optional[_Json] = None
        self._blocks: dict[Any, _Json] = {}
        self._inputs: dict[Any, str] = {}

    def add_event(self, event: _Json) -> bool:
        kind = event.get("type")
        if kind == "message_start" and isinstance(event.get("message"), dict):
            self.body = {**event["message"], "content": []}
        elif self.body is None:
            return False
        elif kind == "content_block_start" and isinstance(event.get("content_block"), dict):
            block = self._blocks[event.get("index")] = dict(event["content_block"])
            self.body["content"].append(block)
        elif kind == "content_block_delta" and isinstance(event.get("delta"), dict):
            self._add_delta(event.get("index"), event["delta"])
        elif kind == "message_delta" and isinstance(event.get("usage"), dict):
            # These counts are totals, which replace those of `message_start`.
            known = {key: value for key, value in event["usage"].items() if value is not None}
            self.body["usage"] = {**(self.body.get("usage") or {}), **known}
        return kind == "message_stop"

    def _add_delta(self, index: Any, delta: _Json) -> None:
        block = self._blocks.get(index)
        if block is None:
            return
        if delta.get("type") == "text_delta":
            block["text"] = str(block.get("text") or "") + str(delta.get("text") or "")
        elif delta.get("type") == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + str(delta.get("partial_json") or "")
            # The input of a tool without parameters is streamed as an empty text.
            block["input"] = self._inputs[index] or {}


def filter_objects(found: Any) -> list[_Json]:
    """Return the dicts in a list; an empty list if `found` is no list."""
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _read_name(found: Any) -> Optional[str]:
    name = found.get("name") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


def _read_model(body: _Json) -> str:
    model = body.get("model")
    return model if isinstance(model, str) else ""


def _wrap_custom_input(text: Any) -> Any:
    """Return the arguments of a call of OpenAI's custom tools, which take a text instead of named arguments.

    A text that is a JSON object is parsed. Any other text becomes `{"input": text}`.
    """
    value = decode_json(text) if isinstance(text, str) else text
    return value if isinstance(value, dict) else {"input": text}


def _join_texts(content: Any) -> Any:
    """Join the texts of a list of parts if every part has a text; return any other content unchanged."""
    if not isinstance(content, list):
        return content
    texts = [each.get("text") for each in filter_objects(content)]
    if texts and len(texts) == len(content) and all(isinstance(text, str) for text in texts):
        return "".join(map(str, texts))
    return content


def _read_tokens(usage: Any, input_key: str, output_key: str) -> Optional[tuple[int, int]]:
    if not isinstance(usage, dict) or not (input_key in usage or output_key in usage):
        return None
    return _read_count(usage.get(input_key)), _read_count(usage.get(output_key))


def _read_count(found: Any) -> int:
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else 0


def load_json(data: bytes) -> Any:
    """Return the value of a JSON document; None if it is not valid JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None

"""Convert chat messages of all common shapes to the shape of the GenAI semantic conventions.

A message is `{"role": role, "parts": [part, …]}` with the roles `system`, `user`, `assistant` and `tool`. A
part is `{"type": "text", "content"}`, `{"type": "tool_call", "id", "name", "arguments"}` or `{"type":
"tool_call_response", "id", "response"}`. The input may have the shapes of OpenAI (chat completions and
responses), Anthropic, Gemini, LangChain, the Vercel AI SDK, Pydantic AI and OpenInference.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Part: TypeAlias = dict[str, Any]
ChatMessage: TypeAlias = dict[str, Any]

_DEEPEST = 12
_ROLES = {
    "human": "user",
    "humanmessage": "user",
    "humanmessagechunk": "user",
    "user": "user",
    "ai": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "response": "assistant",
    "tool": "tool",
    "toolmessage": "tool",
    "function": "tool",
    "functionmessage": "tool",
    "system": "system",
    "systemmessage": "system",
    "developer": "system",
    "request": "user",
}
_CONVERTED_ROLES = ("user", "assistant", "system", "tool")
_LISTS = (
    "messages",
    "input",
    "contents",
    "choices",
    "candidates",
    "generations",
    "output",
    "outputs",
    "inputs",
)
"""Keys under which a request or an answer keeps its messages."""


def decode_json(found: object) -> Any:
    """Parse a text that holds a JSON object, list or string; return anything else unchanged.

    Spans hold most objects as text.
    """
    if not isinstance(found, str) or found.lstrip()[:1] not in {"{", "[", '"'}:
        return found
    try:
        return json.loads(found)
    except (ValueError, RecursionError):
        return found


def parse_messages(found: object, role: str, depth: int = 0) -> list[ChatMessage]:
    """Return the messages in a value; texts and messages without a role get `role`.

    `found` may be a message, a list of messages, a request or an answer of a model's API, a text, or the JSON
    text of any of these. Unknown shapes give no message. `depth` is the depth of this recursive
    call; beyond a limit, the result is [].
    """
    found = decode_json(found)
    if depth > _DEEPEST:
        return []
    if isinstance(found, str):
        return [build_text_message(role, found)] if found.strip() else []
    if isinstance(found, list):
        return join_assistant_messages(
            [each for item in found for each in parse_messages(item, role, depth + 1)]
        )
    return _read_object(found, role, depth) if isinstance(found, dict) else []


def _read_object(found: dict[str, Any], role: str, depth: int) -> list[ChatMessage]:
    if (message := _read_message(found, role)) is not None:
        return [message] if message["parts"] else []
    for key in ("message", "data", "kwargs", "response", "content"):
        if isinstance(found.get(key), dict) and (inner := parse_messages(found[key], role, depth + 1)):
            return inner
    for key in _LISTS:
        if key in found and (inner := parse_messages(found[key], role, depth + 1)):
            return inner
    return []


def build_text_message(role: str, text: str) -> ChatMessage:
    """Return a message with a single text part."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def join_assistant_messages(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return the messages, with consecutive messages of the assistant joined into one message.

    Some APIs write each tool call as a separate message.
    """
    merged: list[ChatMessage] = []
    for message in messages:
        if merged and message["role"] == "assistant" == merged[-1]["role"]:
            merged[-1] = {**merged[-1], "parts": [*merged[-1]["parts"], *message["parts"]]}
        else:
            merged.append(message)
    return merged


def get_message_text(message: ChatMessage) -> str:
    """Return the texts of a message, joined by line ends."""
    texts = (part.get("content") for part in message["parts"] if part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _read_message(found: dict[str, Any], role: str) -> ChatMessage | None:
    """Return a message in the shape of the GenAI conventions; None if the object is not a message.

    A message without a role gets `role`.
    """
    if _is_converted(found):
        return found  # fast path: most messages already have the shape of the semantic conventions
    found = _unwrap(found)
    kind = str(found.get("type") or "")
    own = _find_role(found)
    item = _read_item(found, kind)
    if item is not None:
        name = "tool" if item["type"] == "tool_call_response" else "assistant"
        return {"role": own if own and own != "user" else name, "parts": [item]}
    has_content = any(key in found for key in ("content", "parts", "tool_calls", "contents", "text"))
    if not has_content or (not own and not {"content", "parts", "text"} & found.keys()):
        return None
    is_content = isinstance(found.get("content"), str | list) or isinstance(found.get("text"), str)
    if not own and not is_content and not isinstance(found.get("parts"), list):
        return None
    parts = [*_iter_parts(found), *_iter_tool_calls(found)]
    answer_id = found.get("tool_call_id") or found.get("toolCallId")
    if own == "tool" and not any(part["type"] == "tool_call_response" for part in parts):
        result = found["content"] if "content" in found else found.get("text")
        parts = [_build_response(answer_id or found.get("id") or found.get("name"), decode_json(result))]
    elif parts and all(part["type"] == "tool_call_response" for part in parts):
        own = "tool"  # Anthropic and Gemini send results as messages of the user
    return {"role": own or role, "parts": parts}


def _is_converted(found: dict[str, Any]) -> bool:
    """Return True if a message surely has the shape of the GenAI semantic conventions already.

    This is a quick check: a message that needs no conversion may still get False.
    """
    parts, role = found.get("parts"), found.get("role")
    if len(found) != 2 or role not in _CONVERTED_ROLES or not isinstance(parts, list):
        return False
    return all(
        isinstance(part, dict)
        and (_is_converted_call(part) if len(part) == 4 else _is_converted_text_or_result(part))
        for part in parts
    ) and (role == "tool") == any(part["type"] == "tool_call_response" for part in parts)


def _is_converted_call(part: Part) -> bool:
    return (
        part.get("type") == "tool_call"
        and type(part.get("id")) is str
        and part["id"] != ""
        and type(part.get("name")) is str
        and isinstance(part.get("arguments"), dict)
    )


def _is_converted_text_or_result(part: Part) -> bool:
    if part.get("type") == "text":
        return len(part) == 2 and type(part.get("content")) is str and part["content"] != ""
    return (
        len(part) == 3
        and part.get("type") == "tool_call_response"
        and type(part.get("id")) is str
        and part["id"] != ""
        and isinstance(part.get("response"), dict)
        and part["response"].keys() != {"type", "value"}
    )


def _unwrap(found: dict[str, Any]) -> dict[str, Any]:
    """Return a message, taken out of the objects in which LangChain and OpenInference wrap messages.

    OpenInference's prefix `message.` of the keys is removed. A message without wrapper is returned as it is.
    """
    if isinstance(found.get("kwargs"), dict) and isinstance(found.get("id"), list):
        return {"role": str(found["id"][-1]) if found["id"] else "", **found["kwargs"]}
    if isinstance(found.get("data"), dict) and isinstance(found.get("type"), str) and len(found) <= 3:
        return {**found["data"], "role": found["type"]}
    inner = found.get("message")
    if isinstance(inner, dict) and "role" not in found and "content" not in found:
        return _unwrap(inner)
    if any(key.startswith("message.") for key in found):
        return {key.removeprefix("message."): value for key, value in found.items()}
    return found


def _find_role(found: dict[str, Any]) -> str:
    event = str(found.get("event.name") or "").removeprefix("gen_ai.").removesuffix(".message")
    for name in (found.get("role"), found.get("kind"), found.get("type"), event):
        if isinstance(name, str) and (role := _ROLES.get(name.lower())):
            return role
    return ""


def _iter_parts(found: dict[str, Any]) -> Iterator[Part]:
    content = next((found[key] for key in ("parts", "contents", "content", "text") if found.get(key)), None)
    if isinstance(content, str):
        yield {"type": "text", "content": content}
        return
    if isinstance(content, dict):
        content = content.get("parts") or [content]
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            yield {"type": "text", "content": part}
        elif isinstance(part, dict):
            yield from _read_part(part)


def _read_part(part: dict[str, Any]) -> Iterator[Part]:
    if isinstance(part.get("message_content"), dict):
        part = part["message_content"]
    part = {key.removeprefix("message_content."): value for key, value in part.items()}
    kind = str(part.get("type") or part.get("part_kind") or "")
    if (item := _read_item(part, kind)) is not None:
        yield item
    elif kind in {"", "text", "input_text", "output_text", "user-prompt"}:
        text = part["text"] if isinstance(part.get("text"), str) else part.get("content")
        if isinstance(text, str) and text and not part.get("thought"):
            yield {"type": "text", "content": text}


def _read_item(part: Mapping[str, Any], kind: str) -> Part | None:
    """Return the part for an object that is a tool call or a tool result; None for any other object.

    `kind` is the object's type as its convention names it, such as `function_call` or `tool_use`.
    """
    call = part.get("function_call") or part.get("functionCall")
    if kind == "function_call":
        return _build_call(part.get("call_id") or part.get("id"), part.get("name"), part.get("arguments"))
    if isinstance(call, dict) and "role" not in part:
        return _build_call(call.get("id"), call.get("name"), call.get("args", call.get("arguments")))
    answer = part.get("function_response") or part.get("functionResponse")
    if isinstance(answer, dict):
        return _build_response(answer.get("id") or answer.get("name"), answer.get("response"))
    if kind in {"tool_call", "tool-call", "tool_use"}:
        args = next((part[key] for key in ("arguments", "args", "input") if key in part), None)
        name = part.get("name") or part.get("toolName") or part.get("tool_name")
        return _build_call(_find_id(part), name, args)
    if kind in {"tool_call_response", "tool-result", "tool_result", "function_call_output", "tool-return"}:
        keys = ("response", "result", "output", "content")
        value = next((part[key] for key in keys if part.get(key) is not None), None)
        return _build_response(_find_id(part), _unwrap_result(value))
    return None


def _find_id(part: Mapping[str, Any]) -> object:
    names = ("tool_call_id", "toolCallId", "tool_use_id", "call_id", "id", "name", "toolName")
    return next((part[name] for name in names if part.get(name)), None)


def _unwrap_result(value: object) -> object:
    """Return a tool's result without the wrappers of the Vercel AI SDK and of Anthropic."""
    value = decode_json(value)
    if isinstance(value, dict) and set(value) == {"type", "value"}:
        return decode_json(value["value"])
    if isinstance(value, list) and value and all(isinstance(each, dict) and "text" in each for each in value):
        return decode_json("\n".join(str(each["text"]) for each in value))
    return value


def _iter_tool_calls(found: dict[str, Any]) -> Iterator[Part]:
    calls = found.get("tool_calls") or found.get("toolCalls")
    extra = found.get("additional_kwargs")
    if not calls and isinstance(extra, dict):
        calls = extra.get("tool_calls")
    for each in calls if isinstance(calls, list) else ():
        if isinstance(each, dict):
            inner = each.get("tool_call")
            call = inner if isinstance(inner, dict) else each
            yield _read_tool_call({key.removeprefix("tool_call."): value for key, value in call.items()})
    old = found.get("function_call")
    if not calls and isinstance(old, dict):
        yield _build_call(old.get("id"), old.get("name"), old.get("arguments", old.get("args")))


def _read_tool_call(call: dict[str, Any]) -> Part:
    inner = call.get("function")
    function = inner if isinstance(inner, dict) else call
    keys = ("arguments", "args", "function.arguments", "input")
    args = next((function[key] for key in keys if key in function), None)
    name = function.get("name") or function.get("function.name") or function.get("toolName")
    return _build_call(call.get("id") or call.get("toolCallId"), name, args)


def _build_call(id_: object, name: object, args: object) -> Part:
    return {
        "type": "tool_call",
        "id": str(id_ or ""),
        "name": str(name or ""),
        "arguments": decode_json(args),
    }


def _build_response(id_: object, result: object) -> Part:
    return {"type": "tool_call_response", "id": str(id_ or ""), "response": decode_json(result)}

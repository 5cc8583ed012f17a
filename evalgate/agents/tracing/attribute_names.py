"""Convert spans of all common conventions to the GenAI semantic conventions of OpenTelemetry.

`genai.read_transcript` reads the converted spans. The conversion covers the GenAI conventions before 1.37
(messages as events of the span), OpenInference, OpenLLMetry, the Vercel AI SDK, Google ADK, Pydantic AI and
Langfuse's own attributes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from evalgate.agents.tracing.chat_messages import (
    ChatMessage,
    decode_json,
    join_assistant_messages,
    parse_messages,
)
from evalgate.agents.tracing.trace_formats import Span
from evalgate.core.types import JsonObject

_CONVERSATION = (
    *(
        "gen_ai.conversation.id",
        "evalgate.case",
        "session.id",
        "langfuse.session.id",
        "gcp.vertex.agent.session_id",
    ),
    *("traceloop.association.properties.session_id", "traceloop.association.properties.thread_id"),
    *(
        "langsmith.metadata.session_id",
        "langsmith.metadata.thread_id",
        "thread_id",
        "thread.id",
        "conversation.id",
    ),
    *("ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.threadId", "session_id", "conversation_id"),
)
_METADATA = ("metadata", "langfuse.trace.metadata")
_METADATA_KEYS = ("session_id", "thread_id", "conversation_id", "sessionId", "threadId", "conversationId")
_KIND = (
    *("openinference.span.kind", "traceloop.span.kind", "langfuse.observation.type", "langsmith.span.kind"),
    "evalgate.span.kind",
)
_OPERATIONS = {"llm": "chat", "generation": "chat", "tool": "execute_tool", "agent": "invoke_agent"}
_VERCEL_MODELS = ("ai.generateText.doGenerate", "ai.streamText.doStream", "ai.generateObject.doGenerate")
_INPUTS = (
    *(
        "gen_ai.input.messages",
        "pydantic_ai.all_messages",
        "gcp.vertex.agent.llm_request",
        "ai.prompt.messages",
    ),
    *("ai.prompt", "gen_ai.prompt", "langfuse.observation.input", "traceloop.entity.input", "input.value"),
)
_OUTPUTS = (
    *("gen_ai.output.messages", "gcp.vertex.agent.llm_response", "gen_ai.completion"),
    *("langfuse.observation.output", "traceloop.entity.output", "output.value"),
)
_TOOL_ARGUMENTS = (
    *(
        "gen_ai.tool.call.arguments",
        "ai.toolCall.args",
        "ai.toolCall.input",
        "gcp.vertex.agent.tool_call_args",
    ),
    *(
        "tool_arguments",
        "input.value",
        "traceloop.entity.input",
        "langfuse.observation.input",
        "tool.parameters",
    ),
)
_TOOL_RESULT = (
    *(
        "gen_ai.tool.call.result",
        "ai.toolCall.result",
        "ai.toolCall.output",
        "gcp.vertex.agent.tool_response",
    ),
    *("tool_response", "output.value", "traceloop.entity.output", "langfuse.observation.output"),
)
_MESSAGE_EVENT = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_MOST_LISTED = 10_000
_DEEPEST = 40


def find_conversation_id(span: Span) -> str:
    """Return the conversation id in a span of any known convention; "" if the span has no such id."""
    if name := span.get_text(*_CONVERSATION):
        return name
    for attribute in _METADATA:
        metadata = decode_json(span.get_attribute(attribute))
        if isinstance(metadata, dict):
            for key in _METADATA_KEYS:
                if isinstance(metadata.get(key), str) and metadata[key]:
                    return str(metadata[key])
    return ""


def convert_span(span: Span) -> Span:
    """Return a copy of a span with GenAI attributes, converted from the attributes of other conventions.

    The copy keeps all other attributes. A GenAI attribute of the span is replaced if another convention has a
    value for it. The operation `text_completion` or `generate_content` becomes `chat`. If nothing can be
    converted, return the same span.
    """
    operation = _find_operation(span)
    added: dict[str, object] = {"gen_ai.operation.name": operation} if operation else {}
    if operation == "execute_tool":
        added |= _convert_tool(span)
    elif operation:
        sent = next(filter(None, _iter_inputs(span)), [])
        answered = next(filter(None, _iter_outputs(span)), [])
        if operation != "chat":
            sent, answered = _drop_json_messages(sent), _drop_json_messages(answered)
        if sent:
            added["gen_ai.input.messages"] = sent
        if answered:
            added["gen_ai.output.messages"] = answered
    if not span.get_text("gen_ai.agent.name") and (name := _find_agent(span, operation)):
        added["gen_ai.agent.name"] = name
    return replace(span, attributes={**span.attributes, **added}) if added else span


def _find_operation(span: Span) -> str:
    if name := span.get_text("gen_ai.operation.name"):
        return "chat" if name in {"generate_content", "text_completion"} else name
    if operation := _OPERATIONS.get(span.get_text(*_KIND).lower()):
        return operation
    return _guess_operation(span)


def _guess_operation(span: Span) -> str:
    """Guess the GenAI operation, such as `chat`, of a span without an attribute for it; "" if unknown."""
    operation_id = span.get_text("ai.operationId") or span.name
    is_tool = operation_id.startswith(("ai.toolCall", "execute_tool "))
    if is_tool or "gcp.vertex.agent.tool_call_args" in span.attributes:
        return "execute_tool"
    is_model = operation_id.startswith(_VERCEL_MODELS) or span.name == "call_llm"
    if is_model or "gcp.vertex.agent.llm_request" in span.attributes:
        return "chat"
    if operation_id in {"ai.generateText", "ai.streamText"}:
        return ""
    return "chat" if "gen_ai.request.model" in span.attributes else ""


def _convert_tool(span: Span) -> dict[str, object]:
    added: dict[str, object] = {}
    entity = span.get_text("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
    added["gen_ai.tool.name"] = entity or span.name.removeprefix("execute_tool ").removesuffix(".tool")
    arguments = next(
        (value for name in _TOOL_ARGUMENTS if (value := span.attributes.get(name)) not in (None, "")), None
    )
    if arguments is not None:
        added["gen_ai.tool.call.arguments"] = _unwrap_arguments(decode_json(arguments))
    result = next(
        (value for name in _TOOL_RESULT if (value := span.attributes.get(name)) not in (None, "")), None
    )
    if result is not None:
        added["gen_ai.tool.call.result"] = _unwrap_result(decode_json(result))
    id_ = span.get_text("gen_ai.tool.call.id", "ai.toolCall.id", "tool.id", "tool_call.id")
    return {**added, "gen_ai.tool.call.id": id_} if id_ else added


def _unwrap_arguments(found: object) -> object:
    """Return the arguments of a tool call, taken out of LangChain's and OpenLLMetry's wrapper objects.

    An example is `{"input_str": "{'city': 'Bonn'}"}`. A value without a wrapper is returned, decoded if it is
    the text of an object.
    """
    if isinstance(found, dict) and isinstance(found.get("input_str"), str):
        return _decode_python(found["input_str"])
    if isinstance(found, dict) and set(found) <= {"args", "kwargs"} and isinstance(found.get("kwargs"), dict):
        return found["kwargs"]
    if isinstance(found, dict) and set(found) == {"input"} and isinstance(found["input"], str):
        inner = _decode_python(found["input"])
        return inner if isinstance(inner, dict) else found
    return _decode_python(found) if isinstance(found, str) else found


def _decode_python(text: str) -> object:
    """Decode JSON, or a Python `dict` literal, which LangChain writes; return other texts unchanged."""
    value = decode_json(text)
    if not isinstance(value, str) or not value.startswith("{") or len(value) > 100_000:
        return value
    import ast

    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    return found if isinstance(found, dict) and _is_json(found) else value


def _is_json(found: object, depth: int = 0) -> bool:
    if isinstance(found, dict):
        return depth < 50 and all(isinstance(k, str) and _is_json(v, depth + 1) for k, v in found.items())
    if isinstance(found, list):
        return depth < 50 and all(_is_json(each, depth + 1) for each in found)
    return found is None or isinstance(found, str | int | float | bool)


def _unwrap_result(found: object) -> object:
    """Return a tool's result without the message objects in which LangChain and ADK wrap results."""
    if isinstance(found, dict):
        for message in parse_messages(found, "tool") if found.keys() & {"kwargs", "lc", "output"} else ():
            for part in message["parts"]:
                if part["type"] == "tool_call_response":
                    return part["response"]
                return decode_json(part.get("content"))
        if set(found) == {"output"}:
            return decode_json(found["output"])
    return found


def _iter_inputs(span: Span) -> Iterator[list[ChatMessage]]:
    """Yield the messages sent to the model, as one list for each convention.

    A convention that the span does not use yields an empty list or no list.
    """
    yield _read_indexed(span.attributes, "llm.input_messages", "user")
    yield _read_indexed(span.attributes, "gen_ai.prompt", "user")
    if span.events:
        events = [
            {**event.attributes, "role": event.attributes.get("role") or match[1]}
            for event in span.events
            if (match := _MESSAGE_EVENT.fullmatch(event.name))
        ]
        yield parse_messages([_decode_values(each) for each in events], "user")
    yield _read_logged_events(span, is_output=False)
    for name in _INPUTS:
        if name not in span.attributes:
            continue  # most spans have few of these attributes
        found = parse_messages(span.attributes[name], "user")
        # `pydantic_ai.all_messages` ends with the answer, which belongs to the output.
        yield _split_answer(found)[0] if name == "pydantic_ai.all_messages" else found


def _iter_outputs(span: Span) -> Iterator[list[ChatMessage]]:
    """Yield the messages of the model's answer, as one list for each convention.

    A convention that the span does not use yields an empty list or no list.
    """
    yield _read_indexed(span.attributes, "llm.output_messages", "assistant")
    yield _read_indexed(span.attributes, "gen_ai.completion", "assistant")
    choices = [event.attributes for event in span.events if event.name == "gen_ai.choice"]
    found = parse_messages([_decode_values(each) for each in choices], "assistant")
    yield join_assistant_messages([{**message, "role": "assistant"} for message in found])
    yield _read_logged_events(span, is_output=True)
    text, calls = span.get_text("ai.response.text"), decode_json(span.get_attribute("ai.response.toolCalls"))
    if text or isinstance(calls, list):
        own = calls if isinstance(calls, list) else []
        yield parse_messages({"role": "assistant", "content": text, "tool_calls": own}, "assistant")
    for name in _OUTPUTS:
        if name in span.attributes:
            yield parse_messages(span.attributes[name], "assistant")
    yield _split_answer(parse_messages(span.attributes.get("pydantic_ai.all_messages"), "user"))[1]


def _read_logged_events(span: Span, *, is_output: bool) -> list[ChatMessage]:
    """Return the messages that Pydantic AI and Logfire write into the attribute `events`.

    With `is_output`, return the model's answer; otherwise, return the messages sent to the model. Without the
    attribute `events`, the attribute `all_messages_events` is read.
    """
    if "events" not in span.attributes and "all_messages_events" not in span.attributes:
        return []
    events = decode_json(span.attributes.get("events") or span.attributes.get("all_messages_events"))
    chosen = [
        event
        for event in (events if isinstance(events, list) else ())
        if isinstance(event, dict) and (event.get("event.name") == "gen_ai.choice") == is_output
    ]
    found = parse_messages(chosen, "assistant" if is_output else "user")
    if "all_messages_events" in span.attributes and "events" not in span.attributes:
        everything = parse_messages(events, "user")
        return _split_answer(everything)[is_output]
    return found


def _split_answer(messages: list[ChatMessage]) -> tuple[list[ChatMessage], list[ChatMessage]]:
    """Return (messages before the answer, list with the answer).

    The answer is the last message if its role is `assistant`. Otherwise, the second list is empty.
    """
    last = len(messages) - 1 if messages and messages[-1]["role"] == "assistant" else len(messages)
    return messages[:last], messages[last:]


def _drop_json_messages(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Return the messages, without those that consist only of JSON texts (objects or lists).

    Such JSON is the input or output of the agent's code, not a message of a person or a model. Messages
    without parts are left out, too.
    """
    return [
        message
        for message in messages
        if not all(
            part["type"] == "text" and isinstance(decode_json(part["content"]), dict | list)
            for part in message["parts"]
        )
    ]


def _decode_values(found: JsonObject) -> dict[str, object]:
    return {key: decode_json(value) for key, value in found.items()}


def _find_agent(span: Span, operation: str) -> str:
    if name := span.get_text("agent.name", "graph.node.id", "langgraph.node"):
        return name
    return (
        span.name.removeprefix("invoke_agent ").removeprefix("agent_run ")
        if operation == "invoke_agent"
        else ""
    )


def _read_indexed(attributes: Mapping[str, Any], prefix: str, role: str) -> list[ChatMessage]:
    """Return the messages in attributes below `prefix`, such as `llm.input_messages.0.message.role`.

    Messages without a role get `role`.
    """
    if prefix in attributes and isinstance(decode_json(attributes[prefix]), list):
        return parse_messages(attributes[prefix], role)
    tree: dict[str, Any] = {}
    for name, path in sorted(split_attribute_names(attributes, prefix).items()):
        _insert_value(tree, path, attributes[name])
    return parse_messages(list(_iter_list_items(tree)), role) if tree else []


def split_attribute_names(attributes: Mapping[str, Any], prefix: str) -> dict[str, list[str]]:
    """Return the names of the attributes below `prefix`, each with its parts after `prefix`.

    Dots separate the parts: with the prefix `llm.input_messages`, `llm.input_messages.0.message.role` has
    the parts `["0", "message", "role"]`. Only the first 10,000 names are read, and the first 40 parts of each
    name.
    """
    start = f"{prefix}."
    names = [name for name in attributes if name.startswith(start)][:_MOST_LISTED]
    return {name: name.removeprefix(start).split(".")[:_DEEPEST] for name in names}


def is_list_index(key: str) -> bool:
    """Return True if the key is an index of a list: a decimal number of at most nine digits."""
    return key.isascii() and key.isdecimal() and len(key) < 10


def _insert_value(tree: dict[str, Any], path: list[str], value: object) -> None:
    for key in path[:-1]:
        inner = tree.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    tree.setdefault(path[-1], value)


def _iter_list_items(tree: dict[str, Any]) -> Iterator[Any]:
    """Yield the values under numeric keys, in numeric order; skip all other keys.

    Within a value, each dict that has only numeric keys becomes a list.
    """
    for key in sorted(filter(is_list_index, tree), key=int):
        yield _build_lists(tree[key])


def _build_lists(found: object) -> object:
    if not isinstance(found, dict):
        return found
    if found and all(map(is_list_index, found)):
        return list(_iter_list_items(found))
    return {key: _build_lists(value) for key, value in found.items()}

"""A local server with the APIs of OpenAI (chat completions, responses) and Anthropic (messages).

All APIs have the same model. For a question about the weather of a city it calls `get_forecast`, and answers with the
result. The server stores nothing between requests, so that many clients can use it at the same time.
"""

import json
import re
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeAlias

Json: TypeAlias = dict[str, Any]

GIVEN, MADE = 11, 7
"""Input and output tokens of every answer."""


@dataclass
class ModelReply:
    """Answer of the model."""

    text: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Id, name and arguments."""


def think(question: str, results: list[str], forced: str | None) -> ModelReply:
    """Return the model's answer to the user's last text, given the results of tools since then."""
    if forced:
        return ModelReply("", [(f"call_{uuid.uuid4().hex[:8]}", forced, json.dumps({"answer": question}))])
    cities = re.findall(r"weather of (\S+)", question)
    if cities and not results:
        calls = [
            (f"call_{uuid.uuid4().hex[:8]}", "get_forecast", json.dumps({"city": city})) for city in cities
        ]
        return ModelReply("Let me look.", calls)
    return ModelReply(" ".join(results) or f"You said {question}")


class Provider:
    """Server on a free port of this machine, as a context manager."""

    def __init__(self, *, busy_first: bool = False) -> None:
        self.bodies: list[Json] = []
        self.busy = 1 if busy_first else 0
        """Number of requests that get status 429 first."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """Address without a path."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, owner: Provider, *rest: Any) -> None:
        self._owner = owner
        super().__init__(*rest)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base's
        """Keep the test's output clean."""

    def do_GET(self) -> None:
        self._send(200, b"{}", "application/json")

    def do_POST(self) -> None:
        self.close_connection = True
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        self._owner.bodies.append(body)
        if self._owner.busy:
            self._owner.busy -= 1
            self._send(429, b'{"error": {"message": "busy"}}', "application/json", {"retry-after-ms": "1"})
            return
        api = {"/v1/chat/completions": _chat, "/v1/responses": _responses, "/v1/messages": _messages}
        whole, events = api[self.path.partition("?")[0]](body)
        if body.get("stream"):
            self._send(200, "".join(events).encode(), "text/event-stream")
        else:
            self._send(200, json.dumps(whole).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": kind, "Connection": "close"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _since_the_user(messages: list[Json]) -> tuple[str, list[Json]]:
    """Return the user's last text and the messages after it."""
    at = max(
        i
        for i, each in enumerate(messages)
        if each.get("role") == "user" and isinstance(each["content"], str)
    )
    return messages[at]["content"], messages[at + 1 :]


# --- chat completions ---------------------------------------------------------------------------------------


def _chat(body: Json) -> tuple[Json, list[str]]:
    question, after = _since_the_user(body["messages"])
    choice = body.get("tool_choice")
    forced = choice["function"]["name"] if isinstance(choice, dict) else None
    reply = think(question, [each["content"] for each in after if each["role"] == "tool"], forced)
    calls = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": args}}
        for id_, name, args in reply.calls
    ]
    usage = {"prompt_tokens": GIVEN, "completion_tokens": MADE, "total_tokens": GIVEN + MADE}
    head = {"id": "chatcmpl-1", "created": 1_760_000_000, "model": body["model"] + "-2026"}
    message = {"role": "assistant", "content": reply.text or None, **({"tool_calls": calls} if calls else {})}
    finish = "tool_calls" if calls else "stop"
    whole = {
        **head,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": usage,
    }
    with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    return whole, list(
        _chat_events({**head, "object": "chat.completion.chunk"}, reply, calls, finish, usage, with_usage)
    )


def _chat_events(
    head: Json, reply: ModelReply, calls: list[Json], finish: str, usage: Json, with_usage: bool
) -> Iterator[str]:
    def chunk(delta: Json, finish: str | None = None) -> str:
        return _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    for start in range(0, len(reply.text), 5):
        yield chunk({"content": reply.text[start : start + 5]})
    for index, call in enumerate(calls):
        args = call["function"]["arguments"]
        first = {"name": call["function"]["name"], "arguments": args[:4]}
        yield chunk({"tool_calls": [{**call, "index": index, "function": first}]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": args[4:]}}]})
    yield chunk({}, finish)
    if with_usage:
        yield _event({**head, "choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


# --- responses ----------------------------------------------------------------------------------------------


def _responses(body: Json) -> tuple[Json, list[str]]:
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    # With `previous_response_id` only what is new is sent.
    has_question = any(each.get("role") == "user" for each in items)
    question, after = _since_the_user(items) if has_question else ("", items)
    results = [each["output"] for each in after if each.get("type") == "function_call_output"]
    reply = think(question, results, None)
    output: list[Json] = []
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        output.append(
            {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
        )
    output += [
        {
            "id": f"fc_{id_}",
            "type": "function_call",
            "call_id": id_,
            "name": name,
            "arguments": args,
            "status": "completed",
        }
        for id_, name, args in reply.calls
    ]
    usage = {
        "input_tokens": GIVEN,
        "output_tokens": MADE,
        "total_tokens": GIVEN + MADE,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    whole = {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": "completed",
        "model": body["model"] + "-2026",
        "output": output,
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [_event({"type": "response.created", "sequence_number": 0, "response": begun}, named=True)]
    for index, item in enumerate(output):
        added = {
            "type": "response.output_item.added",
            "sequence_number": 1,
            "output_index": index,
            "item": item,
        }
        events += [
            _event(added, named=True),
            _event({**added, "type": "response.output_item.done"}, named=True),
        ]
    events.append(_event({"type": "response.completed", "sequence_number": 9, "response": whole}, named=True))
    return whole, events


# --- messages -----------------------------------------------------------------------------------------------


def _messages(body: Json) -> tuple[Json, list[str]]:
    question, after = _since_the_user(body["messages"])
    blocks = [block for each in after if isinstance(each["content"], list) for block in each["content"]]
    results = [block["content"] for block in blocks if block["type"] == "tool_result"]
    reply = think(question, results, (body.get("tool_choice") or {}).get("name"))
    content: list[Json] = [{"type": "text", "text": reply.text}] if reply.text else []
    content += [
        {"type": "tool_use", "id": id_, "name": name, "input": json.loads(args)}
        for id_, name, args in reply.calls
    ]
    usage = {"input_tokens": GIVEN - 1, "cache_read_input_tokens": 1, "output_tokens": MADE}
    head = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"] + "-2026",
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
    }
    return {**head, "content": content, "usage": usage}, list(_message_events(head, content, usage))


def _message_events(head: Json, content: list[Json], usage: Json) -> Iterator[str]:
    start = {**head, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _event({"type": "message_start", "message": start}, named=True)
    for index, block in enumerate(content):
        text = block["type"] == "text"
        empty = {**block, "text": ""} if text else {**block, "input": {}}
        yield _event({"type": "content_block_start", "index": index, "content_block": empty}, named=True)
        whole = block["text"] if text else json.dumps(block["input"])
        for part in (whole[:3], whole[3:]):
            delta = (
                {"type": "text_delta", "text": part}
                if text
                else {"type": "input_json_delta", "partial_json": part}
            )
            yield _event({"type": "content_block_delta", "index": index, "delta": delta}, named=True)
        yield _event({"type": "content_block_stop", "index": index}, named=True)
    delta = {"stop_reason": head["stop_reason"], "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": MADE}}, named=True)
    yield _event({"type": "message_stop"}, named=True)


def _event(data: Json, *, named: bool = False) -> str:
    head = f"event: {data['type']}\n" if named else ""
    return f"{head}data: {json.dumps(data)}\n\n"

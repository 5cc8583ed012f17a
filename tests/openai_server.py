"""A local server that speaks OpenAI's chat-completions wire format: scripted answers, and every way to fail.

    with OpenAIServer(Says("yes"), Fails(429, headers={"Retry-After": "1"})) as server:
        …  # ask at server.url; server.requests holds what was asked

One reply for each request, in order; a function of the request's body answers each instead. With a `key`, no
other is let in.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias

Body: TypeAlias = dict[str, Any]

_CREATED = 1_760_000_000


@dataclass(frozen=True)
class Says:
    """A chat completion, streamed when the request wants that."""

    text: str | None = None
    model: str | None = None
    """Reported; the one that was asked for when None."""
    finish: str = "stop"
    refusal: str | None = None
    tools: tuple[tuple[str, str], ...] = ()
    """Name and arguments, as JSON, of each tool that is called."""
    usage: tuple[int, int] | None = (11, 7)
    cached_tokens: int = 0
    logprobs: tuple[tuple[str, float], ...] = ()
    """Token and logprob; the request's `top_logprobs` first of them are the alternatives of each."""


@dataclass(frozen=True)
class Fails:
    """An error in OpenAI's shape."""

    status: int
    message: str = "no"
    code: str | None = None
    type: str = "invalid_request_error"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """Any bytes."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


@dataclass(frozen=True)
class Cut:
    """A connection that breaks after so many bytes of an answer's body; None: before its first line."""

    after: int | None = None


@dataclass(frozen=True)
class Silent:
    """No answer at all, until the server closes."""


@dataclass(frozen=True)
class Slow:
    """An answer that never ends: a byte now and then, until the server closes."""

    pause: float = 0.02


Reply: TypeAlias = Says | Fails | Raw | Cut | Silent | Slow
Script: TypeAlias = Callable[[Body], Reply]


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Body


class OpenAIServer:
    """Listens on a free port of this machine while it is entered."""

    def __init__(self, *replies: Reply, script: Script | None = None, key: str | None = None) -> None:
        self.requests: list[Asked] = []
        self._replies = iter(replies)
        self._script = script
        self._key = key
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self.came = threading.Event()
        """A request was read."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._http.daemon_threads = False
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def bodies(self) -> list[Body]:
        """What was asked."""
        return [request.body for request in self.requests]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def reply_to(self, asked: Asked) -> Reply:
        """The next reply of the script."""
        with self._lock:
            self.requests.append(asked)
            self.came.set()
            if self._key is not None and asked.headers.get("authorization") != f"Bearer {self._key}":
                return Fails(401, "Incorrect API key provided", "invalid_api_key")
            if self._script is not None:
                return self._script(asked.body)
            return next(self._replies, Fails(500, "the script has no more replies", type="server_error"))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, owner: OpenAIServer, *rest: Any) -> None:
        self._owner = owner
        super().__init__(*rest)  # answers the request

    def do_POST(self) -> None:
        self.close_connection = True
        text = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.path, headers, json.loads(text))
        if self.path != "/v1/chat/completions":
            self._send(Fails(404, f"Invalid URL (POST {self.path})"), asked.body)
            return
        self._send(self._owner.reply_to(asked), asked.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base's
        """Keep the test's output clean."""

    def _send(self, reply: Reply, body: Body) -> None:
        match reply:
            case Says() if body.get("stream"):
                events = "".join(f"data: {line}\n\n" for line in _stream(reply, body))
                self._whole(200, events.encode(), "text/event-stream")
            case Says():
                self._whole(200, json.dumps(completion(reply, body)).encode())
            case Fails():
                self._whole(reply.status, json.dumps(error(reply)).encode(), headers=reply.headers)
            case Raw():
                self._whole(reply.status, reply.body, reply.content_type)
            case Cut():
                self._cut(reply, body)
            case Silent():
                self._owner.closing.wait()
            case Slow():
                self._slow(reply)

    def _whole(
        self,
        status: int,
        data: bytes,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._head(status, len(data), content_type, headers)
        self.wfile.write(data)

    def _head(
        self, status: int, length: int, content_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": content_type}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()

    def _cut(self, reply: Cut, body: Body) -> None:
        if reply.after is None:
            return
        data = json.dumps(completion(Says("never read to its end"), body)).encode()
        self._head(200, len(data), "application/json")
        self.wfile.write(data[: reply.after])

    def _slow(self, reply: Slow) -> None:
        self._head(200, 10**6, "application/json")
        try:
            while not self._owner.closing.wait(reply.pause):
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            return  # the client went away, as it should


def completion(says: Says, body: Body) -> Body:
    """A chat completion."""
    message: Body = {"role": "assistant", "content": says.text, "refusal": says.refusal, "annotations": []}
    if says.tools:
        message["tool_calls"] = [_tool_call(number, tool) for number, tool in enumerate(says.tools)]
    choice: Body = {"index": 0, "message": message, "finish_reason": says.finish, "logprobs": None}
    if says.logprobs:
        choice["logprobs"] = _logprobs(says, int(body.get("top_logprobs") or 0))
    found: Body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": _CREATED,
        "model": says.model or body["model"],
        "choices": [choice],
    }
    return found if says.usage is None else {**found, "usage": _usage(says.usage, says.cached_tokens)}


def error(fails: Fails) -> Body:
    """An error body."""
    return {"error": {"message": fails.message, "type": fails.type, "param": None, "code": fails.code}}


def _tool_call(number: int, tool: tuple[str, str]) -> Body:
    name, arguments = tool
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def _logprobs(says: Says, alternatives: int) -> Body:
    tokens = [
        {"token": token, "logprob": logprob, "bytes": list(token.encode())}
        for token, logprob in says.logprobs
    ]
    return {"content": [{**each, "top_logprobs": tokens[:alternatives]} for each in tokens], "refusal": None}


def _usage(usage: tuple[int, int], cached: int) -> Body:
    given, made = usage
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _stream(says: Says, body: Body) -> Iterator[str]:
    text = says.text or ""
    yield _chunk(says, body, {"role": "assistant", "content": "" if says.text is not None else None})
    for start in range(0, len(text), 5):
        yield _chunk(says, body, {"content": text[start : start + 5]})
    for number, tool in enumerate(says.tools):
        yield _chunk(says, body, {"tool_calls": [{"index": number, **_tool_call(number, tool)}]})
    if says.refusal:
        yield _chunk(says, body, {"refusal": says.refusal})
    yield _chunk(says, body, {}, finish=says.finish)
    if (body.get("stream_options") or {}).get("include_usage") and says.usage is not None:
        last = json.loads(_chunk(says, body, {}))
        yield json.dumps({**last, "choices": [], "usage": _usage(says.usage, says.cached_tokens)})
    yield "[DONE]"


def _chunk(says: Says, body: Body, delta: Body, finish: str | None = None) -> str:
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": _CREATED,
            "model": says.model or body["model"],
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}],
        }
    )

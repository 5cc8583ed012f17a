"""A local server of OpenAI's chat completions, which sends scripted replies and can fail in every way.

    with OpenAIServer(Completion("yes"), ErrorReply(429, headers={"Retry-After": "1"})) as server:
        …  # ask at server.url; server.requests holds the requests

Requests get the replies in order, or what a function of the request's body returns. With a `key`, requests with
another key are refused.
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
class Completion:
    """A chat completion, which is streamed if the request asks for that."""

    text: str | None = None
    model: str | None = None
    """The model that the reply names; None: the model of the request."""
    finish: str = "stop"
    refusal: str | None = None
    tools: tuple[tuple[str, str], ...] = ()
    """The name and the JSON arguments of each tool call."""
    usage: tuple[int, int] | None = (11, 7)
    cached_tokens: int = 0
    logprobs: tuple[tuple[str, float], ...] = ()
    """Tokens with their logprobs; the first `top_logprobs` of them are the alternatives of each token."""


@dataclass(frozen=True)
class ErrorReply:
    """An error in OpenAI's format."""

    status: int
    message: str = "no"
    code: str | None = None
    type: str = "invalid_request_error"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RawReply:
    """A response with any body."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


@dataclass(frozen=True)
class BrokenReply:
    """A connection that closes after `after` bytes of the body, or before the status line if `after` is None."""

    after: int | None = None


@dataclass(frozen=True)
class NoReply:
    """No response until the server closes."""


@dataclass(frozen=True)
class EndlessReply:
    """A response that sends a byte every `pause` seconds until the server closes."""

    pause: float = 0.02


Reply: TypeAlias = Completion | ErrorReply | RawReply | BrokenReply | NoReply | EndlessReply
Script: TypeAlias = Callable[[Body], Reply]


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it was received."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Body


class OpenAIServer:
    """Server on a free port of this machine, for a `with` block."""

    def __init__(self, *replies: Reply, script: Script | None = None, key: str | None = None) -> None:
        self.requests: list[ReceivedRequest] = []
        self._replies = iter(replies)
        self._script = script
        self._key = key
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self.came = threading.Event()
        """Event that is set once a request has been read."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._http.daemon_threads = False
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """Return the base URL for clients."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def bodies(self) -> list[Body]:
        """Return the bodies of the requests."""
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

    def reply_to(self, request: ReceivedRequest) -> Reply:
        """Record a request and return its reply."""
        with self._lock:
            self.requests.append(request)
            self.came.set()
            if self._key is not None and request.headers.get("authorization") != f"Bearer {self._key}":
                return ErrorReply(401, "Incorrect API key provided", "invalid_api_key")
            if self._script is not None:
                return self._script(request.body)
            return next(self._replies, ErrorReply(500, "the script has no more replies", type="server_error"))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, owner: OpenAIServer, *rest: Any) -> None:
        self._owner = owner
        super().__init__(*rest)  # answers the request

    def do_POST(self) -> None:
        self.close_connection = True
        text = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = ReceivedRequest(self.path, headers, json.loads(text))
        if self.path not in {"/v1/chat/completions", "/v1/embeddings"}:
            self._send(ErrorReply(404, f"Invalid URL (POST {self.path})"), request.body)
            return
        self._send(self._owner.reply_to(request), request.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base's
        """Keep the test's output clean."""

    def _send(self, reply: Reply, body: Body) -> None:
        match reply:
            case Completion() if body.get("stream"):
                events = "".join(f"data: {line}\n\n" for line in _stream(reply, body))
                self._whole(200, events.encode(), "text/event-stream")
            case Completion():
                self._whole(200, json.dumps(completion(reply, body)).encode())
            case ErrorReply():
                self._whole(reply.status, json.dumps(error(reply)).encode(), headers=reply.headers)
            case RawReply():
                self._whole(reply.status, reply.body, reply.content_type)
            case BrokenReply():
                self._cut(reply, body)
            case NoReply():
                self._owner.closing.wait()
            case EndlessReply():
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

    def _cut(self, reply: BrokenReply, body: Body) -> None:
        if reply.after is None:
            return
        data = json.dumps(completion(Completion("never read to its end"), body)).encode()
        self._head(200, len(data), "application/json")
        self.wfile.write(data[: reply.after])

    def _slow(self, reply: EndlessReply) -> None:
        self._head(200, 10**6, "application/json")
        try:
            while not self._owner.closing.wait(reply.pause):
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            return  # the client went away, as it should


def completion(reply: Completion, body: Body) -> Body:
    """Return the body of a chat completion."""
    message: Body = {"role": "assistant", "content": reply.text, "refusal": reply.refusal, "annotations": []}
    if reply.tools:
        message["tool_calls"] = [_tool_call(number, tool) for number, tool in enumerate(reply.tools)]
    choice: Body = {"index": 0, "message": message, "finish_reason": reply.finish, "logprobs": None}
    if reply.logprobs:
        choice["logprobs"] = _logprobs(reply, int(body.get("top_logprobs") or 0))
    found: Body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": _CREATED,
        "model": reply.model or body["model"],
        "choices": [choice],
    }
    return found if reply.usage is None else {**found, "usage": _usage(reply.usage, reply.cached_tokens)}


def error(reply: ErrorReply) -> Body:
    """Return the body of an error."""
    return {"error": {"message": reply.message, "type": reply.type, "param": None, "code": reply.code}}


def _tool_call(number: int, tool: tuple[str, str]) -> Body:
    name, arguments = tool
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def _logprobs(reply: Completion, alternatives: int) -> Body:
    tokens = [
        {"token": token, "logprob": logprob, "bytes": list(token.encode())}
        for token, logprob in reply.logprobs
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


def _stream(reply: Completion, body: Body) -> Iterator[str]:
    text = reply.text or ""
    yield _chunk(reply, body, {"role": "assistant", "content": "" if reply.text is not None else None})
    for start in range(0, len(text), 5):
        yield _chunk(reply, body, {"content": text[start : start + 5]})
    for number, tool in enumerate(reply.tools):
        yield _chunk(reply, body, {"tool_calls": [{"index": number, **_tool_call(number, tool)}]})
    if reply.refusal:
        yield _chunk(reply, body, {"refusal": reply.refusal})
    yield _chunk(reply, body, {}, finish=reply.finish)
    if (body.get("stream_options") or {}).get("include_usage") and reply.usage is not None:
        last = json.loads(_chunk(reply, body, {}))
        yield json.dumps({**last, "choices": [], "usage": _usage(reply.usage, reply.cached_tokens)})
    yield "[DONE]"


def _chunk(reply: Completion, body: Body, delta: Body, finish: str | None = None) -> str:
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": _CREATED,
            "model": reply.model or body["model"],
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}],
        }
    )

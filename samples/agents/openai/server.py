"""What speaks OpenAI's chat completions, in place of a model or gateway: `python server.py PORT`.

Standard library only. It knows no weather: it calls the tool that it is offered, and says what came back.
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def answer(messages: list, tools: list) -> dict:
    """The next message of the assistant."""
    last = messages[-1]
    cities = re.findall(r"\bin (\w+)", " ".join(each["content"] for each in messages if each["role"] == "user"))
    if last["role"] == "tool":
        return {"content": f"{cities[-1]}: {json.loads(last['content'])['forecast']}."}
    if not cities:
        return {"content": "Which city?"}
    function = {"name": tools[0]["function"]["name"], "arguments": json.dumps({"city": cities[-1]})}
    return {"tool_calls": [{"index": 0, "id": f"call_{len(messages)}", "type": "function", "function": function}]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send("application/json", {"object": "list", "data": [{"id": "weather", "object": "model"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", **answer(request["messages"], request.get("tools", []))}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        about = {"id": "chatcmpl-1", "created": 0, "model": request["model"]}
        usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
        if request.get("stream"):
            chunk = {**about, "object": "chat.completion.chunk"}
            choice = {"index": 0, "delta": message, "finish_reason": reason}
            self.send("text/event-stream", {**chunk, "choices": [choice]}, {**chunk, "choices": [], "usage": usage})
        else:
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self.send("application/json", {**about, "object": "chat.completion", "choices": [choice], "usage": usage})

    def send(self, kind: str, *values: dict) -> None:
        texts = [json.dumps(value) for value in values]
        if kind == "text/event-stream":
            texts = [f"data: {text}\n\n" for text in [*texts, "[DONE]"]]
        body = "".join(texts).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()

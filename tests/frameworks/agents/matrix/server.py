"""A server that is asked in four dialects: `server.py PORT [HOST]`. Its crash breaks the connection.

`/` takes evalgate's turns, `/v1` OpenAI's chat completions, `/a2a` A2A's JSON-RPC of release 0.3, and
`/v1/orchestrate` the runs of watsonx Orchestrate.
"""

import json
import sys
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from script import Crash, Hang, act, get_forecast

contexts = {}
ORCHESTRATE = "/v1/orchestrate/"


def evalgate(turn):
    said = [each["text"] for each in turn["history"] if each["role"] == "user"] + [turn["text"]]
    found, calls = act(said), []
    if not isinstance(found, str):
        name, args = found
        calls = [{"name": name, "args": args, "result": get_forecast(**args)}]
        found = act(said, calls[0]["result"])
    return {"response": found, "tool_calls": calls, "state": {"said": said}}


def completion(request):
    messages = request["messages"]
    said = [each["content"] for each in messages if each["role"] == "user"]
    answered = messages[-1]["role"] == "tool"
    found = act(said, json.loads(messages[-1]["content"]) if answered else None)
    message = {"role": "assistant", "content": found}
    if not isinstance(found, str):
        function = {"name": found[0], "arguments": json.dumps(found[1])}
        message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}


def a2a(request):
    message = request["params"]["message"]
    context = message.get("contextId") or str(uuid.uuid4())
    said = contexts.setdefault(context, [])
    said.append(message["parts"][0]["text"])
    found, parts = act(said), []
    if not isinstance(found, str):
        name, args = found
        result = get_forecast(**args)
        parts = [
            adk("function_call", {"id": "1", "name": name, "args": args}),
            adk("function_response", {"id": "1", "name": name, "response": result}),
        ]
        found = act(said, result)
    task = {
        "kind": "task",
        "id": str(uuid.uuid4()),
        "contextId": context,
        "status": {"state": "completed"},
        "artifacts": [{"artifactId": "a", "parts": [*parts, {"kind": "text", "text": found}]}],
    }
    return {"jsonrpc": "2.0", "id": request["id"], "result": task}


def adk(kind, data):
    return {"kind": "data", "data": data, "metadata": {"adk_type": kind}}


def orchestrate(request):
    thread = request.get("thread_id") or str(uuid.uuid4())
    said = contexts.setdefault(thread, [])
    said.append(request["message"]["content"])
    found, steps = act(said), []
    if not isinstance(found, str):
        name, args = found
        result = get_forecast(**args)
        steps = [
            {"type": "tool_calls", "tool_calls": [{"id": "1", "name": name, "args": args}]},
            {"type": "tool_response", "tool_call_id": "1", "name": name, "content": json.dumps(result)},
        ]
        found = act(said, result)
    message = {"role": "assistant", "content": [{"response_type": "text", "text": found}]}
    events = [
        ("run.started", {}),
        *(("run.step.delta", {"delta": {"role": "assistant", "step_details": [step]}}) for step in steps),
        ("message.created", {"message": message}),
        ("done", {}),
    ]
    return [{"event": name, "data": {"thread_id": thread, **data}} for name, data in events]


def card(port):
    return {
        "name": "matrix",
        "protocolVersion": "0.3.0",
        "url": f"http://127.0.0.1:{port}/a2a",
        "preferredTransport": "JSONRPC",
        "capabilities": {"streaming": False},
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        agents = [{"id": "1", "name": "talker"}]
        self.send_json(agents if self.path == ORCHESTRATE + "agents" else card(self.server.server_port))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        dialect = {"/v1/chat/completions": completion, "/a2a": a2a}.get(self.path, evalgate)
        try:
            if self.path == ORCHESTRATE + "runs?stream=true":
                self.send_body("".join(json.dumps(each) + "\n" for each in orchestrate(request)))
            else:
                self.send_json(dialect(request))
        except Crash:
            self.close_connection = True
        except Hang:
            time.sleep(600)

    def send_json(self, value):
        self.send_body(json.dumps(value))

    def send_body(self, text):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


if __name__ == "__main__":
    host = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
    ThreadingHTTPServer((host, int(sys.argv[1])), Handler).serve_forever()

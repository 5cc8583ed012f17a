"""A user without a model: speaks OpenAI's wire format, and answers what it is asked from its plan."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class UserServer:
    """Serves while the block lasts."""

    def __init__(self, key):
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(key))

    @property
    def url(self):
        """Where it is asked."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()


def message(prompt):
    """What the user says next to a prompt of evalgate's."""
    plan = re.search(r"(?:Conversation plan|Story):\n(.*?)\n\n", prompt, re.DOTALL).group(1)
    agent = re.findall(r"^agent: (.*)$", prompt, re.MULTILINE)
    if not agent:
        return "I need a room."
    if "how many" in agent[-1]:
        return re.search(r"for (one|two|three|four)\b", plan).group(0).capitalize() + "."
    if "which night" in agent[-1]:
        return f"{re.search(r'[A-Z][a-z]+day', plan).group(0)}."
    return re.search(r"write exactly (\S+) and nothing else", prompt).group(1)


def _handler(key):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers.get("Authorization") != f"Bearer {key}":
                self._send(401, {"error": {"message": "wrong key", "code": "invalid_api_key"}})
                return
            prompt = body["messages"][-1]["content"]
            text = message(prompt)
            usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
            usage["total_tokens"] = sum(usage.values())
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
            head = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
            self._send(200, {**head, "choices": [choice], "usage": usage})

        def _send(self, status, content):
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    return Handler

"""A judge without a model: speaks OpenAI's wire format, and compares numbers and words."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class JudgeServer:
    """Serves while the block lasts. `sloppy`: finds everything right, as a weak model does."""

    def __init__(self, key):
        self.sloppy = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, key))

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

    def answer(self, prompt):
        """What the judge says to a prompt of evalgate's."""
        if "\n=== Properties " in prompt:
            return _verdicts(prompt)
        same = _numbers(_part(prompt, "Response")) == _numbers(_part(prompt, "Reference"))
        reason = "the numbers agree" if same else "the numbers differ"
        label = "valid" if same or self.sloppy else "invalid"
        return json.dumps({"reasoning": reason, "is_the_agent_response_valid": label})


def _verdicts(prompt):
    verdict = "yes" if "thank" in _part(prompt, "Final response").lower() else "no"
    properties = re.findall(r"^\* (.*)$", prompt, re.MULTILINE)
    return "\n".join(f"Property: {each}\nRationale: by its words\nVerdict: {verdict}" for each in properties)


def _part(prompt, name):
    found = re.search(rf"^=== {name} [0-9a-f]{{16}} ===\n(.*?)\n(?:===|-----) ", prompt, re.MULTILINE | re.DOTALL)
    return found.group(1) if found else ""


def _numbers(text):
    return re.findall(r"\d+", text)


def _handler(judge, key):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers.get("Authorization") != f"Bearer {key}":
                self._send(401, {"error": {"message": "wrong key", "code": "invalid_api_key"}})
                return
            prompt = body["messages"][-1]["content"]
            text = judge.answer(prompt)
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

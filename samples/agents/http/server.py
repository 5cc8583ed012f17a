"""An agent behind a URL, in evalgate's own JSON turns: `python server.py PORT`. Standard library only."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FORECASTS = {"Paris": "sunny", "Oslo": "snow"}


def answer(turn: dict) -> dict:
    """One turn: what was asked and remembered goes in, what was done and is remembered comes out."""
    city = next((city for city in FORECASTS if city in turn["text"]), turn["state"].get("city"))
    if city is None:
        return {"response": "Which city?"}
    forecast = {"forecast": FORECASTS[city]}
    return {
        "response": f"{city}: {forecast['forecast']}.",
        "tool_calls": [{"name": "get_forecast", "args": {"city": city}, "result": forecast}],
        "state": {"city": city},
        "usage": {"input_tokens": len(turn["text"]), "output_tokens": 4},
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept

    def do_GET(self) -> None:
        self.send_json({"status": "ok"})

    def do_POST(self) -> None:
        turn = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_json(answer(turn))

    def send_json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()

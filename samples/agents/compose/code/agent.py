"""An agent that asks another service, in evalgate's own JSON turns. Standard library only."""

import json
import os
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CITIES = ("Paris", "Oslo")


def get_forecast(city: str) -> dict:
    with urllib.request.urlopen(f"{os.environ['FORECASTS']}/{city}", timeout=10) as response:
        return json.load(response)


def answer(turn: dict) -> dict:
    city = next((city for city in CITIES if city in turn["text"]), turn["state"].get("city"))
    if city is None:
        return {"response": "Which city?"}
    forecast = get_forecast(city)
    return {
        "response": f"{city}: {forecast['forecast']}.",
        "tool_calls": [{"name": "get_forecast", "args": {"city": city}, "result": forecast}],
        "state": {"city": city},
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
    ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()

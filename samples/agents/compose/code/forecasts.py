"""The backend of the agent's tool: `GET /Paris` gives the forecast. Standard library only."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FORECASTS = {"Paris": "sunny", "Oslo": "snow"}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"forecast": FORECASTS.get(self.path.strip("/"))}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("0.0.0.0", 9000), Handler).serve_forever()

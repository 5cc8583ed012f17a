"""An HTTP server on loopback that records the POST requests that it gets."""

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Posted:
    """A POST request."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Receiver:
    """Recorded requests, and the answers to give in order. The last answer is repeated."""

    answers: list[tuple[int, Mapping[str, str], bytes]] = field(default_factory=lambda: [(200, {}, b"{}")])
    posts: list[Posted] = field(default_factory=list)
    url: str = ""


@contextmanager
def receiving(*answers: tuple[int, Mapping[str, str], bytes]) -> Iterator[Receiver]:
    """Serve during the block, and yield the receiver. The default answer is 200 with `{}`."""
    receiver = Receiver(list(answers)) if answers else Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            at = min(len(receiver.posts), len(receiver.answers) - 1)
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.posts.append(Posted(self.path, headers, body))
            status, more, content = receiver.answers[at]
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            del code, size

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""Servers in containers that end, or that name another address."""

from pathlib import Path
from typing import Any

import docker
import pytest

from evalgate.core.types import Reply
from tests.agents.containers.test_docker import build_container_agent, client, project
from tests.agents.play import a_talk, outcomes

__all__ = ["client", "project"]
pytestmark = [pytest.mark.docker]

SERVER = """
import http.server, json, os, sys, threading, time

together = threading.Barrier(3)
known = set()

class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer({"url": "http://localhost:8000/talk", "preferredTransport": "JSONRPC"})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/talk":
            text = asked["params"]["message"]["parts"][0]["text"]
            said = {"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": text.upper()}]}
            return self.answer({"jsonrpc": "2.0", "id": asked["id"], "result": said})
        text, session = asked["text"], asked["session"]
        if text == "first":
            known.add(session)
        if text in ("die", "wait") and not os.environ.get("LONELY"):
            try:
                together.wait(3)  # all who wait are there; one who is alone goes on after a while
            except threading.BrokenBarrierError:
                pass
        if text == "die":
            print("last words", file=sys.stderr, flush=True)
            os._exit(7)
        if text == "wait":
            time.sleep(0.5)
        if text == "second" and session not in known:
            return self.answer({"error": "I do not know you"})
        self.answer({"response": text.upper()})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), H).serve_forever()
"""


def build_server_agent(folder: Path, **options: Any) -> Any:
    (folder / "server.py").write_text(SERVER)
    given = {"command": "python3 server.py", "workspace": "/app", "network": "bridge", "port": 8000}
    return build_container_agent(folder, **{**given, **options})


async def test_only_the_case_that_ends_the_container_crashes(project: Path) -> None:
    cases = [
        a_talk("die", "die"),
        a_talk("wait", "wait"),
        a_talk("later", "first", "wait", "second"),
    ]
    runs = await outcomes(build_server_agent(project), cases)
    assert {name: run.outcome for name, run in runs.items()} == {
        "die": "crashed",
        "wait": "answered",
        "later": "answered",
    }
    failure = runs["die"].failure
    assert failure is not None
    assert failure.message == "the agent's container ended with exit code 7 while it answered (turn 1)"
    assert "last words" in failure.detail
    assert runs["later"].replies[-1] == Reply("SECOND")


async def test_ended_container_is_replaced(project: Path) -> None:
    cases = [a_talk("a", "die"), a_talk("b", "hi"), a_talk("c", "die"), a_talk("d", "first", "second")]
    make = build_server_agent(project, environment={"LONELY": "1"})
    runs = await outcomes(make, cases, concurrency=1)
    assert [run.outcome for run in runs.values()] == ["crashed", "answered", "crashed", "answered"]


async def test_address_of_an_agent_card_is_ignored(project: Path) -> None:
    runs = await outcomes(build_server_agent(project, dialect="a2a"), [a_talk("case", "hi")])
    assert (runs["case"].failure, runs["case"].replies) == (None, (Reply("HI"),))


async def test_server_that_ends_at_once_fails_at_once(project: Path, client: docker.DockerClient) -> None:
    make = build_server_agent(project, command=["sh", "-c", "echo no key >&2; exit 3"], start_timeout=3600.0)
    run = (await outcomes(make, [a_talk("case", "hi")]))["case"]
    assert run.outcome == "not_run"
    assert run.failure is not None
    assert run.failure.message == (
        "the agent's container ended with exit code 3 before it answered; its last output: no key"
    )
    assert "no key" in run.failure.detail

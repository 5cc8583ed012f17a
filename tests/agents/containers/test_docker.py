"""Agents in real containers of a base image that the machine has; all containers are removed afterwards."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest

from evalgate.agents.adapters.docker import DockerAgentOptions
from evalgate.agents.containers.cleanup import remove_orphans
from evalgate.agents.containers.ownership import LABEL
from evalgate.core.types import CaseRun, EvalCase, Reply, ToolCall, ToolResult, Usage
from tests.agents.http.server import build_context
from tests.agents.http.test_sample import gate
from tests.agents.play import PATIENT_S, Hurried, a_talk, outcomes, until
from tests.ports import closed_port

IMAGE = os.environ.get("EVALGATE_TEST_IMAGE", "python:3.13-slim-trixie")
ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.docker]

AGENT = """
import asyncio, os, sys, time

async def answer(text, session):
    turns = session.state["turns"] = session.state.get("turns", 0) + 1
    if text == "tool":
        session.tool_call("look", {"at": "Paris"}, id="1")
        session.tool_result("look", {"seen": True}, id="1")
        session.usage(3, 2)
    elif text == "crash":
        sys.stderr.write("last words\\n")
        os._exit(7)
    elif text == "raise":
        raise ValueError("no")
    elif text == "hang":
        time.sleep(600)
    elif text == "env":
        return f"{os.environ.get('WANTED')} {os.environ.get('FIXED')} {os.environ.get('HOST_ONLY')}"
    elif text == "where":
        return f"{os.getcwd()} {os.getuid()}"
    elif text == "write":
        try:
            open("/new", "w").close()
        except OSError as error:
            return error.strerror
    elif text == "eat":
        return str(len(bytearray(400_000_000)))
    return f"{text} {turns}"
"""


def connect_client() -> docker.DockerClient:
    """Return a client of a daemon that has the image; skip without one, or fail if one is required."""
    missing = ""
    try:
        found = docker.from_env()
        found.images.get(IMAGE)
    except docker.errors.DockerException as error:
        missing = f"no Docker daemon with the image {IMAGE}: {error}"
    if missing and not os.environ.get("EVALGATE_REQUIRE_DOCKER"):
        pytest.skip(missing)
    assert not missing, missing
    return found


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    found = connect_client()
    yield found
    found.close()


@pytest.fixture
def project(tmp_path: Path, client: docker.DockerClient) -> Iterator[Path]:
    """Yield a working folder with an agent; check that this process owns no container afterwards."""
    (tmp_path / "agent.py").write_text(AGENT)
    yield tmp_path
    assert list_own_containers(client) == []


def list_own_containers(client: docker.DockerClient, pid: int | None = None) -> list[Any]:
    """Return the containers of a gate: this process, unless another is given."""
    # Those of others come and go meanwhile.
    found = client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
    return [each for each in found if f"/{pid or os.getpid()}/" in str(each.labels.get(LABEL))]


def build_container_agent(
    folder: Path, *, context: dict[str, Any] | None = None, **options: Any
) -> Callable[[dict[str, str]], Any]:
    given = {"image": IMAGE, "network": "none", **options}
    base = {name: value for name, value in given.items() if value is not None}
    settings = {"folder": folder, "timeout": PATIENT_S, **(context or {})}
    return lambda env: DockerAgentOptions.model_validate(base).build(build_context(**settings))


async def run_in_container(folder: Path, cases: list[EvalCase], **options: Any) -> dict[str, CaseRun]:
    given = {"entry": "agent.py:answer", "workspace": "/app", **options}
    return await outcomes(build_container_agent(folder, **given), cases)


async def test_python_agent_runs_with_the_copied_host(project: Path) -> None:
    cases = [
        a_talk("turns", "one", "two"),
        a_talk("tool", "tool"),
        a_talk("raise", "raise"),
        a_talk("crash", "crash"),
        a_talk("hang", "hang"),
    ]
    make = build_container_agent(project, entry="agent.py:answer", workspace="/app")
    runs = await outcomes(lambda env: Hurried(make(env), {"hang": 2.0}), cases)
    assert {name: run.outcome for name, run in runs.items()} == {
        "turns": "answered",
        "tool": "answered",
        "raise": "crashed",
        "crash": "crashed",
        "hang": "timed_out",
    }
    assert (runs["turns"].replies, runs["turns"].final_state) == (
        (Reply("one 1"), Reply("two 2")),
        {"turns": 2},
    )
    looked = (ToolCall("look", {"at": "Paris"}, "1"), ToolResult("look", {"seen": True}, "1"))
    assert (runs["tool"].replies, runs["tool"].usage) == ((Reply("tool 1", looked),), Usage(3, 2, None))
    crash = runs["crash"].failure
    assert crash is not None
    assert (crash.kind, crash.message) == (
        "exited",
        "the agent's process ended with exit code 7 while it answered (turn 1)",
    )
    assert "last words" in crash.detail


async def test_container_limits_apply(project: Path) -> None:
    options = {
        "memory": "128m",
        "cpus": 0.5,
        "pids": 64,
        "read_only": True,
        "user": "1000:1000",
        "environment": {"FIXED": "${SECRET}"},
        "context": {
            "env": {"PATH": "/nowhere", "HOME": "/nowhere", "WANTED": "yes"},
            "environ": {"SECRET": "s3cr3t", "HOST_ONLY": "no"},
        },
    }
    cases = [a_talk(text, text) for text in ("env", "where", "write")]
    runs = await run_in_container(project, cases, **options)
    assert {name: run.replies for name, run in runs.items()} == {
        "env": (Reply("yes s3cr3t None"),),
        "where": (Reply("/app 1000"),),
        "write": (Reply("Read-only file system"),),
    }
    eaten = (await run_in_container(project, [a_talk("eat", "eat")], **options))["eat"]
    assert eaten.failure is not None
    assert (eaten.outcome, eaten.failure.kind) == ("crashed", "killed")
    assert "exceeded its memory limit" in eaten.failure.message


SERVER = """
import http.server, json, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.say({})
    def do_POST(self):
        turn = json.loads(self.rfile.read(int(self.headers["content-length"])))
        print("asked", turn["text"], file=sys.stderr, flush=True)
        self.say({"error": "no"} if turn["text"] == "fail" else {"response": turn["text"].upper()})
    def say(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), H).serve_forever()
"""


async def test_server_is_built_from_a_folder(project: Path, client: docker.DockerClient) -> None:
    (project / "server.py").write_text(SERVER)
    (project / "Dockerfile").write_text(f'FROM {IMAGE}\nCOPY server.py /\nCMD ["python3", "/server.py"]\n')
    make = build_container_agent(project, image="shouting", build=".", network="bridge", port=8000)
    runs = await outcomes(make, [a_talk("ok", "hi"), a_talk("fail", "fail")])
    assert runs["ok"].replies == (Reply("HI"),)
    assert runs["fail"].failure is not None
    assert runs["fail"].failure.message == "no (turn 1)"
    # The daemon may not have the last line yet.
    assert runs["fail"].failure.detail.startswith("The container's log:\nasked ")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"command": "no-such-program", "network": "none"}, "the agent's process ended with exit code 127"),
        (
            {"command": ("sh", "-c", "echo oh >&2; exit 4"), "network": "none"},
            "the agent's process ended with exit code 4 before it was ready; its last output: oh",
        ),
        (
            {"image": "evalgate.invalid/nothing:1", "command": "x"},
            "there is no image `evalgate.invalid/nothing:1` here",
        ),
        ({"image": "MyAgent", "command": "x"}, "the image `MyAgent` cannot be had: "),
        ({"build": "missing", "command": "x"}, "cannot be built"),
        (
            {"command": "sleep 60", "port": 80, "network": "bridge", "start_timeout": 0.3},
            "cannot be reached within 0.3 s",
        ),
    ],
)
async def test_start_failures_are_reported(project: Path, options: dict[str, Any], sentence: str) -> None:
    run = (await outcomes(build_container_agent(project, **options), [a_talk("case", "hi")]))["case"]
    assert run.outcome == "not_run"
    assert run.failure is not None
    assert sentence in run.failure.message


async def test_missing_daemon_is_reported(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closed_port() as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        run = (
            await outcomes(build_container_agent(project, entry="agent.py:answer"), [a_talk("case", "hi")])
        )["case"]
    assert run.failure is not None
    assert run.failure.message.startswith("no Docker daemon answers: start it, or set DOCKER_HOST")


KILLED = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.agents.containers.test_docker import build_container_agent
from tests.agents.play import a_talk

async def main():
    make = build_container_agent(Path({folder!r}), command=("sh", "-c", "trap '' TERM; while :; do sleep 1; done"))
    async with make({{}}) as found:
        async with found.open_session(a_talk("case", "hi"), 1, alone=False):
            pass

asyncio.run(main())
"""


def test_orphans_of_a_killed_gate_are_removed(tmp_path: Path, client: docker.DockerClient) -> None:
    code = textwrap.dedent(KILLED).format(root=str(ROOT), folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code]) as gate:
        while not any(each.status == "running" for each in list_own_containers(client, gate.pid)):
            assert gate.poll() is None, "it ended before its container ran"
            time.sleep(0.1)
        remove_orphans(client)
        assert list_own_containers(client, gate.pid), "a gate that runs keeps its containers"
        gate.send_signal(signal.SIGKILL)
        gate.wait()
        end = time.monotonic() + PATIENT_S  # another gate may be sweeping the same away
        while list_own_containers(client, gate.pid) and time.monotonic() < end:
            remove_orphans(client)
        assert list_own_containers(client, gate.pid) == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"command": "sh -c 'x"}, "command\n.* ends within quotation marks, or with a backslash"),
        ({"command": " "}, "command\n.* must not be empty"),
        ({"entry": "a:b", "command": "x"}, "has `entry`, which takes neither `command` nor `port`"),
        ({"port": 80, "network": "none"}, "has a `port`, which needs a network"),
        ({"dialect": "openai", "model": "m"}, "has `dialect`, which needs a `port`"),
        ({"memory": "lots"}, "memory"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DockerAgentOptions.model_validate({"image": "x", **options})


async def test_cancelled_run_removes_all_containers(project: Path, client: docker.DockerClient) -> None:
    async def run() -> None:
        await run_in_container(project, [a_talk("hang", "hang")])

    task = asyncio.create_task(run())
    await until(lambda: [each.status for each in list_own_containers(client)] == ["running"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_sample_passes_the_gate(tmp_path: Path, client: docker.DockerClient) -> None:
    code, err = gate("docker", tmp_path / "sample")
    assert code == 0, err

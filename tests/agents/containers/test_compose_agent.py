"""A Compose service as the agent, with its dependencies, on a real daemon; everything is removed afterwards."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from evalgate.agents.containers.cleanup import remove_orphans
from evalgate.agents.containers.ownership import LABEL
from evalgate.core.types import Reply
from tests.agents.containers.test_docker import IMAGE, ROOT, build_container_agent, connect_client
from tests.agents.http.test_sample import gate
from tests.agents.play import PATIENT_S, a_talk, outcomes, until

pytestmark = [pytest.mark.docker, pytest.mark.slow]

STORE = """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = open("/data/sky").read().encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("0.0.0.0", 9000), H).serve_forever()
"""
ASKING = """
import os, urllib.request
def answer(text):
    if text == "env":
        return " ".join(f"{name}={os.environ.get(name)}" for name in ("FROM_FILE", "PLAIN", "WANTED", "HOME_SECRET"))
    if text == "where":
        return f"{os.getcwd()} {open('/etc/agent/words.txt').read()}"
    return urllib.request.urlopen(os.environ["STORE"], timeout=20).read().decode()
"""
SERVER = """
import http.server, json
from agent import answer
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.say({})
    def do_POST(self):
        turn = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.say({"response": answer(turn["text"])})
    def say(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), H).serve_forever()
"""
FILE = """
services:
  weather:
    image: ${NOT_SET:-@@}
    command: python3 server.py
    working_dir: /code
    env_file: agent.env
    environment:
      STORE: http://shop:9000/
      PLAIN: ${PLAIN:-1}
      HOME_SECRET: ${SECRET:-none}
    volumes: ["./code:/code", "./words.txt:/etc/agent/words.txt:ro"]
    depends_on:
      store: {condition: service_healthy}
  store:
    image: "@@"
    container_name: shop
    command: ["python3", "/code/store.py"]
    volumes: ["data:/data:ro", "./code:/code"]
    depends_on:
      seed: {condition: service_completed_successfully}
    healthcheck:
      test: python3 -c "import urllib.request as r; r.urlopen('http://localhost:9000')"
      interval: 200ms
      timeout: 20s
      retries: 100
  seed:
    image: "@@"
    entrypoint: ["python3", "-c"]
    command: ["open('/data/sky', 'w').write('sunny')"]
    volumes: [{type: volume, source: data, target: /data}]
  other:
    image: nowhere.invalid/never
    privileged: true
volumes:
  data:
""".replace("@@", IMAGE)


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    found = connect_client()
    yield found
    found.close()


def list_labelled(client: docker.DockerClient, pid: int) -> list[str]:
    """Return the names of all that carries the label of the gate with that process id."""
    labelled: Any = {"label": LABEL}
    found = [
        *(
            (each.name, each.labels)
            for each in client.containers.list(all=True, filters=labelled, ignore_removed=True)
        ),
        *((each.name, each.attrs["Labels"]) for each in client.networks.list(filters=labelled)),
        *((each.name, each.attrs["Labels"]) for each in client.volumes.list(filters=labelled)),
    ]
    return [str(name) for name, labels in found if f"/{pid}/" in str(labels.get(LABEL))]


@pytest.fixture
def project(tmp_path: Path, client: docker.DockerClient) -> Iterator[Path]:
    (tmp_path / "code").mkdir()
    for name, text in (("store.py", STORE), ("agent.py", ASKING), ("server.py", SERVER)):
        (tmp_path / "code" / name).write_text(text)
    (tmp_path / "words.txt").write_text("hello")
    (tmp_path / "agent.env").write_text("# comment\nexport FROM_FILE='a b'\nPLAIN=never\n")
    (tmp_path / "compose.yaml").write_text(FILE)
    yield tmp_path
    assert list_labelled(client, os.getpid()) == []


def build_service_agent(folder: Path, **options: Any) -> Any:
    context = options.pop("context", {})
    return build_container_agent(
        folder, image=None, network=None, service="weather", context=context, **options
    )


@pytest.mark.parametrize(
    "options", [{"port": 8000}, {"entry": "agent.py:answer"}], ids=["over its port", "over its streams"]
)
async def test_compose_service_starts_after_its_dependencies(project: Path, options: dict[str, Any]) -> None:
    context = {
        "timeout": 60.0,
        "env": {"WANTED": "yes", "PLAIN": "2"},
        "environ": {"SECRET": "of the gate"},
    }
    cases = [a_talk(text, text) for text in ("sky", "env", "where")]
    runs = await outcomes(build_service_agent(project, context=context, **options), cases)
    assert {name: run.failure for name, run in runs.items()} == dict.fromkeys(runs)
    assert {name: run.replies for name, run in runs.items()} == {
        "sky": (Reply("sunny"),),
        "env": (Reply("FROM_FILE=a b PLAIN=2 WANTED=yes HOME_SECRET=none"),),
        "where": (Reply("/code hello"),),
    }


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "open('/data/sky', 'w')",
            "exit(3)",
            "the service `seed`, on which the service `store` depends, ended with exit code 3",
        ),
        (
            "retries: 100",
            "retries: 1\n      disable: true",
            "on which the agent depends, must be healthy, and has no `healthcheck`",
        ),
        (
            "http://localhost:9000",
            "http://localhost:1",
            "the service `store`, on which the agent depends, is unhealthy",
        ),
        ('["python3", "/code/store.py"]', "no-such-program", "ended with exit code 127"),
    ],
)
async def test_failed_dependency_is_named_in_the_failure(
    project: Path, old: str, new: str, sentence: str
) -> None:
    text = (project / "compose.yaml").read_text().replace(old, new)
    if "localhost:1" in new:
        text = text.replace("retries: 100", "retries: 2")
    (project / "compose.yaml").write_text(text)
    run = (await outcomes(build_service_agent(project, port=8000), [a_talk("case", "sky")]))["case"]
    assert run.outcome == "not_run"
    assert run.failure is not None
    assert sentence in run.failure.message


async def test_cancelled_start_removes_all_containers(project: Path, client: docker.DockerClient) -> None:
    text = (
        (project / "compose.yaml")
        .read_text()
        .replace("open('/data/sky', 'w')", "__import__('time').sleep(600)")
    )
    (project / "compose.yaml").write_text(text)
    task = asyncio.create_task(outcomes(build_service_agent(project, port=8000), [a_talk("case", "sky")]))
    await until(lambda: len(list_labelled(client, os.getpid())) == 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


KILLED = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.agents.containers.test_compose_agent import build_service_agent
from tests.agents.play import a_talk

async def main():
    async with build_service_agent(Path({folder!r}), port=8000)({{}}):
        print("up", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def test_orphans_of_a_killed_gate_are_removed(project: Path, client: docker.DockerClient) -> None:
    code = textwrap.dedent(KILLED).format(root=str(ROOT), folder=str(project))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"up\n"
        remove_orphans(client)
        assert len(list_labelled(client, killed.pid)) == 5, "three containers, a network and a volume"
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        end = time.monotonic() + PATIENT_S
        while list_labelled(client, killed.pid) and time.monotonic() < end:
            remove_orphans(client)
        assert list_labelled(client, killed.pid) == []


def test_sample_passes_the_gate(tmp_path: Path, client: docker.DockerClient) -> None:
    code, err = gate("compose", tmp_path / "sample")
    assert code == 0, err

"""A daemon that is reached over the network and does not know the container that the gate runs in."""

import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import AF_UNIX, SHUT_WR, socket

import docker
import pytest

from evalgate.agents.containers import docker_client, ownership
from evalgate.agents.containers.cleanup import remove_orphans
from evalgate.agents.containers.container_settings import find_daemon_host
from evalgate.agents.containers.gate_address import find_network_gateway
from evalgate.core.types import Reply
from tests.agents.containers.test_docker import IMAGE, build_container_agent, client, project
from tests.agents.containers.test_published import build_server_agent
from tests.agents.play import a_talk, outcomes

__all__ = ["client", "project"]
pytestmark = [pytest.mark.docker]

ELSEWHERE = "de70f3b119c29b4ae578417568062b51e3a8946a8814deb4350c5f643767968d"
"""Id of a container that runs on another daemon's machine."""


class Relay(socketserver.BaseRequestHandler):
    """Connection that is forwarded to the daemon's socket on this machine."""

    def handle(self) -> None:
        with socket(AF_UNIX) as daemon:
            daemon.connect("/var/run/docker.sock")
            answers = threading.Thread(target=forward, args=(daemon, self.request), daemon=True)
            answers.start()
            forward(self.request, daemon)
            answers.join()


def forward(source: socket, target: socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(SHUT_WR)
    except OSError:  # one side has closed the connection
        pass


@pytest.fixture
def host(client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Let `DOCKER_HOST` name the daemon by an address that is not this machine's loopback interface."""
    address = find_network_gateway(client.networks.get("bridge").attrs)
    with socketserver.ThreadingTCPServer((address, 0), Relay) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://{address}:{server.server_address[1]}")
        monkeypatch.setattr(ownership, "read_container_id", lambda: ELSEWHERE)
        yield address
        server.shutdown()


async def test_server_is_reached_at_the_host_of_the_daemon(project: Path, host: str) -> None:
    with_tcp = docker.from_env()
    assert find_daemon_host(with_tcp) == host
    with_tcp.close()
    run = (await outcomes(build_server_agent(project), [a_talk("case", "hi")]))["case"]
    assert (run.failure, run.replies) == (None, (Reply("HI"),))


async def test_an_agent_without_a_port_needs_a_daemon_without_tls(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_tls = docker.DockerClient(base_url="https://docker:2376", version="1.41")
    monkeypatch.setattr(docker_client, "prepare_image", lambda _: (over_tls, IMAGE))
    agent = build_container_agent(project, entry="agent.py:answer", workspace="/app")
    run = (await outcomes(agent, [a_talk("case", "hi")]))["case"]
    assert run.outcome == "not_run"
    assert run.failure is not None
    assert "https://docker:2376 is reached over TLS" in run.failure.message
    assert '`DOCKER_TLS_CERTDIR: ""` and `DOCKER_HOST: tcp://docker:2375`' in run.failure.message


def test_containers_of_a_gate_in_an_unknown_container_are_kept(
    client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "boot_id").write_text("another-machine\n")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(ownership, "read_container_id", lambda: ELSEWHERE)
        elsewhere.setattr(ownership, "_BOOT_ID", tmp_path / "boot_id")
        labels = ownership.build_labels(client)
    assert ELSEWHERE not in labels[ownership.LABEL]
    agent = client.containers.run(IMAGE, "sleep 600", detach=True, init=True, labels=labels)
    try:
        remove_orphans(client)
        agent.reload()
        assert agent.status == "running"
    finally:
        agent.remove(force=True, v=True)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("unix:///var/run/docker.sock", ""),
        ("tcp://127.0.0.1:2375", ""),
        ("tcp://localhost:2375", ""),
        ("tcp://docker:2375", "docker"),
        ("tcp://[fd00::1]:2375", "[fd00::1]"),
    ],
)
def test_host_of_the_daemon(address: str, host: str) -> None:
    found = docker.DockerClient(base_url=address, version="1.41")
    assert find_daemon_host(found) == host
    found.close()

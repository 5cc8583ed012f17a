"""The agent's group: the workspace's, unless that one opens the socket of a container engine."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalgate.system.isolation import choose_agent_user, find_reachable_sockets
from evalgate.system.workspace import Workspace, list_socket_notices, open_workspace

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")

RUNNER = 1001
DOCKER = 61_999


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Path]:
    """A socket as Docker makes it: of root, open to its group."""
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        set_owner(path, 0, DOCKER, 0o660)
        yield path


def set_owner(path: Path, uid: int, gid: int, mode: int) -> None:
    os.chown(path, uid, gid)
    path.chmod(mode)


@pytest.mark.parametrize(
    ("owner", "socket_gid", "expected"),
    [
        ((RUNNER, 121), DOCKER, (RUNNER, 121)),
        ((RUNNER, DOCKER), DOCKER, (RUNNER, RUNNER)),
        ((RUNNER, RUNNER), RUNNER, (RUNNER, 65534)),
        ((65534, 65534), 65534, (65534, 65536)),
    ],
)
@pytest.mark.parametrize("name", ["DOCKER_HOST", "CONTAINER_HOST"])
def test_a_group_that_opens_a_socket_is_not_the_agents(
    engine: Path, name: str, owner: tuple[int, int], socket_gid: int, expected: tuple[int, int]
) -> None:
    set_owner(engine, 0, socket_gid, 0o660)
    environ = {name: f"unix://{engine}"}
    assert choose_agent_user(owner, environ) == expected
    assert find_reachable_sockets(expected, environ) == ()


def test_a_socket_that_no_variable_names_is_found_among_the_mounts(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 2 0:3 / {engine} rw - tmpfs tmpfs rw\n4 5 0:6 / /nowhere rw - nfs4 host:/ rw\n")
    monkeypatch.setattr("evalgate.system.isolation._MOUNTS", mounts)
    assert choose_agent_user((RUNNER, DOCKER), {}) == (RUNNER, RUNNER)


@pytest.mark.parametrize(
    ("uid", "mode", "is_said"),
    [(0, 0o660, False), (0, 0o666, True), (RUNNER, 0o660, True), (RUNNER, 0o060, True)],
)
def test_a_socket_that_no_group_closes_is_said(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, mode: int, is_said: bool
) -> None:
    set_owner(engine, uid, DOCKER, mode)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine}")
    notices = list_socket_notices(Workspace(tmp_path, (RUNNER, DOCKER)))
    assert any(str(engine) in notice for notice in notices) == is_said


def test_files_keep_the_group_of_the_workspace(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine}")
    folder = tmp_path / "repository"
    folder.mkdir()
    os.chown(folder, RUNNER, DOCKER)
    workspace = open_workspace(folder)
    assert workspace.owner == (RUNNER, DOCKER)
    assert workspace.agent_user == (RUNNER, RUNNER)

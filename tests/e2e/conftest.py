"""Fixtures: Docker daemon, image, and folder of tools. Tests are skipped, with a reason, if one is missing."""

import fcntl
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.e2e import ROOT, shared_tools
from tests.e2e.act import RELEASED, RUNNER, Act, instead_of, released_action
from tests.e2e.checkouts import git
from tests.e2e.containers import IMAGE, call
from tests.frameworks.venvs import CACHE
from tests.github.world import REPOSITORY
from tests.ports import free_port

Command: TypeAlias = tuple[str, dict[str, str], str]
"""Name, properties and data of a workflow command."""

REQUIRE = "EVALGATE_REQUIRE_DOCKER"


@pytest.fixture(scope="session")
def docker() -> None:
    """Require a Docker daemon that answers."""
    answer = call("docker", "version") if _on_path("docker") else None
    if answer is None or answer.code:
        _missing("no Docker daemon answers on this machine; start one to run this test")


@pytest.fixture(scope="session")
def image(docker: None) -> str:
    """Build the image from this checkout and return its name."""
    with alone(ROOT / "Dockerfile"):
        built = call("docker", "build", "--tag", IMAGE, ROOT)
    assert built.code == 0, built.log
    return IMAGE


@pytest.fixture
def act_alone(docker: None) -> Iterator[None]:
    """Hold a lock so that no other process on this machine runs act.

    act names containers by workflow and job, and removes existing containers with the same name. It also gives
    the images of all local actions (`uses: ./`) the same name.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    lock = CACHE / "act.lock"
    lock.touch()
    with alone(lock):
        yield


@pytest.fixture
def act(image: str, tmp_path: Path) -> Act:
    """Return a runner of workflows with the action of a release. The action's image is already built."""
    if call("docker", "image", "inspect", RUNNER).code:
        pytest.skip(f"there is no image {RUNNER} to run jobs in")
    released = released_action(tmp_path / "released")
    return Act(tmp_path, (*instead_of(RELEASED, released), "--env", f"GITHUB_REPOSITORY={REPOSITORY}"))


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[str]:
    """Serve an empty git repository that accepts pushes, and yield its address."""
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "served/origin.git")
    port = free_port()
    serve = ["git", "daemon", "--listen=127.0.0.1", f"--port={port}", f"--base-path={tmp_path}/served"]
    server = subprocess.Popen([*serve, "--export-all", "--enable=receive-pack", "--reuseaddr"])
    address = f"git://127.0.0.1:{port}/origin.git"
    try:
        while call("git", "ls-remote", address).code:
            assert server.poll() is None, "the server has ended"
            time.sleep(0.05)
        yield address
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="session")
def tools() -> Path:
    """Return the folder of tools; skip the test if this machine does not have it."""
    found = shared_tools()
    if found is None:
        pytest.skip("the runner's stand-ins are not on this machine; EVALGATE_SHARED names their folder")
    return found


@pytest.fixture(scope="session")
def runner_commands(tools: Path) -> Callable[[Sequence[str]], list[Command]]:
    """Return a function that finds the workflow commands that the real runner would execute for lines of a log."""
    spec = spec_from_file_location("runner_commands", tools / "github_api/runner_commands.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    commands: Callable[[Sequence[str]], list[Command]] = module.commands
    return commands


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Hold a lock of `file`, so that only one process at a time runs the block."""
    with file.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _missing(sentence: str) -> None:
    if os.environ.get(REQUIRE):
        pytest.fail(f"{sentence} ({REQUIRE} is set)")
    pytest.skip(sentence)


def _on_path(program: str) -> bool:
    return any((Path(folder) / program).is_file() for folder in os.get_exec_path())

"""A Docker daemon, the image, and the folder of tools: or the sentence that says why not."""

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
    """A daemon that answers."""
    answer = call("docker", "version") if _on_path("docker") else None
    if answer is None or answer.code:
        _missing("no Docker daemon answers on this machine; start one to run this test")


@pytest.fixture(scope="session")
def image(docker: None) -> str:
    """The name of the image, built from this checkout."""
    with alone(ROOT / "Dockerfile"):
        built = call("docker", "build", "--tag", IMAGE, ROOT)
    assert built.code == 0, built.log
    return IMAGE


@pytest.fixture
def act_alone(docker: None) -> Iterator[None]:
    """Nobody else on this machine runs act.

    It names containers after their workflow and job, removes those of that name that it finds, and gives the
    image of every `uses: ./` the same name.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    lock = CACHE / "act.lock"
    lock.touch()
    with alone(lock):
        yield


@pytest.fixture
def act(image: str, tmp_path: Path) -> Act:
    """Run workflows with the action of a release, whose image was built before."""
    if call("docker", "image", "inspect", RUNNER).code:
        pytest.skip(f"there is no image {RUNNER} to run jobs in")
    released = released_action(tmp_path / "released")
    return Act(tmp_path, (*instead_of(RELEASED, released), "--env", f"GITHUB_REPOSITORY={REPOSITORY}"))


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[str]:
    """The address of an empty repository that anybody may push to."""
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
    """The folder of tools."""
    found = shared_tools()
    if found is None:
        pytest.skip("the runner's stand-ins are not on this machine; EVALGATE_SHARED names their folder")
    return found


@pytest.fixture(scope="session")
def runner_commands(tools: Path) -> Callable[[Sequence[str]], list[Command]]:
    """The workflow commands that the real runner would execute for lines of a log."""
    spec = spec_from_file_location("runner_commands", tools / "github_api/runner_commands.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    commands: Callable[[Sequence[str]], list[Command]] = module.commands
    return commands


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """One process at a time, of all that name the same file."""
    with file.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _missing(sentence: str) -> None:
    if os.environ.get(REQUIRE):
        pytest.fail(f"{sentence} ({REQUIRE} is set)")
    pytest.skip(sentence)


def _on_path(program: str) -> bool:
    return any((Path(folder) / program).is_file() for folder in os.get_exec_path())

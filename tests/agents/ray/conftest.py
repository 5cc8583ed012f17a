"""Fixtures: Ray clusters, and an interpreter with Ray."""

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.agents.ray.runs import Nodes, Rays
from tests.frameworks.venvs import python_with


@pytest.fixture(scope="session")
def ray_python() -> str:
    """Return the path of an interpreter with Ray and evalgate's dependencies."""
    return python_with("ray")


@pytest.fixture
def rays(ray_python: str) -> Iterator[Rays]:
    """Yield an object that starts gates with Ray. Fail if a process of a gate or of its cluster is left."""
    mark = uuid.uuid4().hex
    yield Rays(ray_python, mark)
    _, alive = psutil.wait_procs(list(_marked(mark)), timeout=120)
    left = [" ".join(process.cmdline()) for process in alive]
    for process in alive:
        process.kill()
    assert left == []


def _marked(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and mark in process.environ().values():
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


@pytest.fixture
def nodes(ray_python: str) -> Iterator[Nodes]:
    """Start a cluster with two nodes, with room for one actor each, and yield it."""
    # Not pytest's folder: the names of Ray's sockets would be too long.
    folder = Path(tempfile.mkdtemp(prefix="eg-", dir="/tmp"))
    (folder / "ray").mkdir()
    environ = {**os.environ, "RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    command = [ray_python, str(Path(__file__).with_name("nodes.py"))]
    try:
        with subprocess.Popen(
            command,
            env=environ,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                pytest.fail("no cluster came to be")
            yield Nodes(address, process.stdin, process.stdout)
            process.stdin.close()
            process.wait(300)
    finally:
        shutil.rmtree(folder, ignore_errors=True)

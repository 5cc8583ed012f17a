"""Sample agents, gated as a user would: in a copy of their folder, with the command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.play import running
from tests.ports import free_port

ROOT = Path(__file__).parents[3]


def gate(kind: str, folder: Path, **env: str) -> tuple[int, str]:
    """Run `evalgate run` in a copy of a sample and return its exit code and stderr."""
    shutil.copytree(ROOT / "samples" / "agents" / kind, folder)
    done = subprocess.run(
        [sys.executable, "-m", "evalgate", "run"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(("name", "path"), [("http", ""), ("openai", "/v1"), ("a2a", "")])
def test_a_server(name: str, path: str, tmp_path: Path) -> None:
    port = str(free_port())
    script = ROOT / "samples" / "agents" / name / "server.py"
    with running(sys.executable, "-B", str(script), port, folder=tmp_path, log=tmp_path / "log"):
        code, err = gate(name, tmp_path / "sample", AGENT_URL=f"http://127.0.0.1:{port}{path}")
    assert code == 0, err


def test_per_turn(tmp_path: Path) -> None:
    code, err = gate("per_turn", tmp_path / "sample")
    assert code == 0, err


def test_otel(tmp_path: Path) -> None:
    own_python_first = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    code, err = gate("otel", tmp_path / "sample", PATH=own_python_first)
    assert code == 0, err

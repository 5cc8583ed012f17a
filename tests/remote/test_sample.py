"""Sample agents, gated as a user would: in a copy of their folder, with the command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.remote.test_connection import free_port

ROOT = Path(__file__).parents[2]


def gate(kind: str, folder: Path, **env: str) -> tuple[int, str]:
    """Exit code and stderr of `evalgate run` in a copy of a sample."""
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


def test_http(tmp_path: Path) -> None:
    port = str(free_port())
    script = ROOT / "samples" / "agents" / "http" / "server.py"
    with subprocess.Popen([sys.executable, str(script), port]) as server:
        code, err = gate("http", tmp_path / "sample", AGENT_URL=f"http://127.0.0.1:{port}")
        server.kill()
    assert code == 0, err


def test_per_turn(tmp_path: Path) -> None:
    code, err = gate("per_turn", tmp_path / "sample")
    assert code == 0, err

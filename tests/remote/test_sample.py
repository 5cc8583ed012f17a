"""The sample agent behind a URL, gated as a user would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.remote.test_connection import free_port

SAMPLE = Path(__file__).parents[2] / "samples" / "agents" / "http"


def test_sample_passes_the_gate(tmp_path: Path) -> None:
    folder = shutil.copytree(SAMPLE, tmp_path / "sample")
    port = str(free_port())
    with subprocess.Popen([sys.executable, str(folder / "server.py"), port]) as server:
        env = {"PATH": os.environ["PATH"], "AGENT_URL": f"http://127.0.0.1:{port}", "HOME": str(tmp_path)}
        gate = subprocess.run(
            [sys.executable, "-m", "evalgate", "run"],
            cwd=folder,
            env={**env, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=False,
        )
        server.kill()
    assert gate.returncode == 0, gate.stderr

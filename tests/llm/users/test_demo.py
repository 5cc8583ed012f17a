"""The sample of simulated users does what it says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_sample_with_a_local_user() -> None:
    done = subprocess.run(
        [sys.executable, "samples/users/demo.py"], cwd=ROOT, check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("→ exit code 0") == 3
    assert "weekend: 3 turns, 1 tool call\nalone: 3 turns, 1 tool call\n" in done.stdout
    assert "state `people`: expected 2, got 1" in done.stdout
    assert "call 1: expected `book(people=4, night=" in done.stdout
    assert "no-key-at-all" not in done.stdout + done.stderr

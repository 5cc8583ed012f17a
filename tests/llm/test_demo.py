"""`make demo-judge` does what it says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_sample_with_a_local_judge() -> None:
    done = subprocess.run(
        [sys.executable, "samples/judge/demo.py"], cwd=ROOT, check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout
    assert "Note: The judge agrees with people on 2 of 2 anchors." in told
    assert "0 judge calls, 14 spared by the cache" in told
    assert "final_response_match_v2: the judge agrees with itself 1.00" in told
    assert "1 of 2 cases (chai) missed a threshold." in told
    assert "The judge is unreliable: 1 of 2 anchors" in told
    assert "no-key-at-all" not in told + done.stderr


def test_the_makefile_has_it() -> None:
    assert "\ndemo-judge: .venv\n\t$(BIN)/python samples/judge/demo.py\n" in (ROOT / "Makefile").read_text()

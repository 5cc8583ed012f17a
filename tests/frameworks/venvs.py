"""Virtual environments with frameworks in them, built once and kept in the user's cache."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

REQUIRE = "EVALGATE_REQUIRE_FRAMEWORKS"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evalgate-tests"


def python_with(name: str, *requirements: str) -> str:
    """An interpreter that has `requirements`. What is not pinned is the newest release of this month."""
    folder = CACHE / f"{name}-{_key(requirements)}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".ready").exists():
            _build(folder, requirements)
    return str(folder / "bin" / "python")


def _key(requirements: tuple[str, ...]) -> str:
    month = "" if all("==" in each for each in requirements) else datetime.now(UTC).strftime("%Y-%m")
    words = "\n".join([sys.version, month, *requirements])
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def _build(folder: Path, requirements: tuple[str, ...]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *requirements], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        _missing(f"cannot install {', '.join(requirements)}: {_last_line(done.stderr)}")
    (folder / ".ready").touch()


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "pip says nothing"


def _missing(sentence: str) -> None:
    if os.environ.get(REQUIRE):
        pytest.fail(f"{sentence} ({REQUIRE} is set)")
    pytest.skip(sentence)

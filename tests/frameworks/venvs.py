"""Virtual environments with frameworks, built once and kept in the user's cache.

`requirements/environments/NAME.in` lists the packages of an environment, and `NAME.txt` next to it their releases.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REQUIRE = "EVALGATE_REQUIRE_FRAMEWORKS"
PINS = Path(__file__).parents[2] / "requirements/environments"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evalgate-tests"


def python_with(name: str) -> str:
    """Return the interpreter of the environment `name`. Build the environment if necessary."""
    folder = CACHE / f"{name}-{_key(name)}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".ready").exists():
            _build(folder, name)
    return str(folder / "bin" / "python")


def _key(name: str) -> str:
    files = [(PINS / f"{name}{suffix}").read_bytes() for suffix in (".in", ".txt")]
    return hashlib.sha256(b"\n".join([sys.version.encode(), *files])).hexdigest()[:12]


def _build(folder: Path, name: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder), "install"]
    options = ["--quiet", "--disable-pip-version-check"]
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):  # Python compiles the part that is imported
        options.append("--no-compile")
    wanted = ["--requirement", str(PINS / f"{name}.in"), "--constraint", str(PINS / f"{name}.txt")]
    done = subprocess.run([*pip, *options, *wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        _missing(f"cannot install {name}.in: {_last_line(done.stderr)}")
    (folder / ".ready").touch()


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "pip says nothing"


def _missing(sentence: str) -> None:
    if os.environ.get(REQUIRE):
        pytest.fail(f"{sentence} ({REQUIRE} is set)")
    pytest.skip(sentence)

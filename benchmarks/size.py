"""Measure the disk space of an installation of evalgate."""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main():
    """Install evalgate without extras into an empty folder. Print its size in MB and number of distributions."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=False)
        target = Path(folder) / "packages"
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), str(ROOT)],
            check=True,
        )
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        packages = len(list(target.glob("*.dist-info")))
    print(f"base installation {size / 1e6:.1f} MB, {packages} distributions (goal: under 30 MB)")

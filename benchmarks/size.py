"""How much an installation weighs."""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main():
    """The base installation without extras, beside an empty environment."""
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

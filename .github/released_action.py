"""Make action.yml start a published image: `released_action.py docker://IMAGE@DIGEST action.yml`."""
# ruff: noqa: INP001  a script, and no package

import re
import sys
from pathlib import Path


def main(image: str, file: str) -> None:
    """Replace `image: Dockerfile`, which must stand there exactly once."""
    path = Path(file)
    text, times = re.subn(r"(?m)^  image: Dockerfile$", f"  image: {image}", path.read_text("utf-8"))
    if times != 1:
        sys.exit(f"{file}: `image: Dockerfile` stands there {times} times, not once")
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Test the gate as users run it: as a container, and as an action under two substitutes for GitHub's runner.

One substitute is `act`. The other is a script that starts an image with the mounts and the environment of the real
runner. The script, a runner image for act, and a parser of workflow commands are in the folder that `EVALGATE_SHARED`
names. Without this folder, the tests that need it are skipped.
"""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]


def shared_tools() -> Path | None:
    """Return the folder of tools that `EVALGATE_SHARED` names; None if this machine does not have it."""
    shared = Path(os.environ.get("EVALGATE_SHARED", ROOT.parent / "shared"))
    tools = shared / "tools"
    return tools if tools.is_dir() else None

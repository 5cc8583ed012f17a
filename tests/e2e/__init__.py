"""The gate as its users run it: as a container, and as an action under two stand-ins for GitHub's runner.

One stand-in is `act`; the other is a script that starts an image with the mounts and the environment of the real
runner. The script, a runner image for act and an oracle for workflow commands come from a folder of tools that
`EVALGATE_SHARED` names; tests that need it skip, with a sentence, where there is none.
"""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]


def shared_tools() -> Path | None:
    """The folder of tools, when this machine has it."""
    shared = Path(os.environ.get("EVALGATE_SHARED", ROOT.parent / "shared"))
    tools = shared / "tools"
    return tools if tools.is_dir() else None

"""`evalgate init`: a thresholds file, a sample eval set and a workflow that run as they are."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from evalgate.errors import InvalidInput
from evalgate.frozen import frozen
from evalgate.system.files import atomic_write
from evalgate.system.workspace import Workspace

SCAFFOLD: Mapping[str, str] = {
    "evalgate.yaml": "evalgate.yaml",
    "evals/sample.evalset.json": "sample.evalset.json",
    "evals/sample_agent.py": "sample_agent.py",
    ".github/workflows/evalgate.yml": "github-workflow.yml",
}
"""Path in the user's repository → file in the package's `scaffold` folder."""


@frozen
class Written:
    """What `init` did with one file."""

    path: str
    kept: bool
    """The file was there already and is left as it was."""


def init(workspace: Workspace) -> tuple[Written, ...]:
    """Write the scaffold into the workspace; nothing that exists is touched.

    Raises:
        InvalidInput: a file cannot be written.
    """
    return tuple(_write(workspace, path, source) for path, source in SCAFFOLD.items())


def _write(workspace: Workspace, path: str, source: str) -> Written:
    target: Path = workspace.folder / path
    if target.exists():
        return Written(path, kept=True)
    text = files("evalgate").joinpath("scaffold", source).read_text("utf-8")
    try:
        atomic_write(target, text, workspace.owner)
    except OSError as error:
        raise InvalidInput(
            f"{path}: cannot be written ({error.strerror or error}). "
            "Mend the folder's permissions, or choose another one with -C."
        ) from None
    return Written(path, kept=False)

"""The folder that evalgate works in, and whose it is."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from evalgate.frozen import frozen
from evalgate.system.enginesockets import choose_agent_user, find_reachable_sockets


@frozen
class Workspace:
    """A folder, and the user that files written there must belong to."""

    folder: Path
    owner: tuple[int, int] | None = None
    """uid and gid of the folder's owner when the gate is root and the folder is not root's.

    In a container action the gate is root, but the workspace is the runner's: files left behind as root
    break the next checkout, and an agent that runs as root could read the gate's own environment.
    """

    @property
    def agent_user(self) -> tuple[int, int] | None:
        """Return the uid and gid that the agent and its commands run as; None: those of the gate.

        They are the owner's, but for a group that would open the socket of a container engine.
        """
        return None if self.owner is None else choose_agent_user(self.owner, os.environ)

    def shown(self, path: Path) -> str:
        """`path` as a user in the folder would type it."""
        absolute = self.folder / path
        return os.path.relpath(absolute, self.folder) if absolute.is_relative_to(self.folder) else str(path)

    def home(self, environ: Mapping[str, str]) -> Path:
        """A home folder that the agent can write to."""
        home = environ.get("HOME", "")
        uid = self.owner[0] if self.owner else os.geteuid()
        if home and _belongs_to(Path(home), uid):
            return Path(home)
        own = Path(tempfile.mkdtemp(prefix="evalgate-home-"))
        if self.owner:
            os.chown(own, *self.owner)
        return own


def open_workspace(folder: Path) -> Workspace:
    """The workspace at `folder`, with its owner when that matters.

    Raises:
        NotADirectoryError, FileNotFoundError: there is no such folder.
    """
    folder = folder.resolve(strict=True)
    if not folder.is_dir():
        raise NotADirectoryError(str(folder))
    stat = folder.stat()
    foreign = os.geteuid() == 0 and stat.st_uid != 0
    return Workspace(folder, (stat.st_uid, stat.st_gid) if foreign else None)


def list_socket_notices(workspace: Workspace) -> tuple[str, ...]:
    """Return a sentence if the agent has another user than the gate, but can open an engine's socket."""
    user = workspace.agent_user
    paths = find_reachable_sockets(user, os.environ) if user else ()
    if not paths:
        return ()
    sentence = (
        f"The agent can open {', '.join(paths)}: the file is open to every user, or belongs to the owner of "
        "the workspace. Whoever can open it controls the container engine, and so every secret of this job."
    )
    return (sentence,)


def has_working_folder() -> bool:
    """Return whether the folder that this process stands in is still there."""
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _belongs_to(folder: Path, uid: int) -> bool:
    try:
        return folder.stat().st_uid == uid and folder.is_dir()
    except OSError:
        return False

"""The folder in which evalgate works, and its owner."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.system.isolation import choose_agent_user, find_reachable_sockets


@frozen
class Workspace:
    """Working folder, and the user to which the files that are written into it must belong."""

    folder: Path
    owner: tuple[int, int] | None = None
    """uid and gid of the folder's owner if the gate is root and the folder is not root's; else None.

    In a container action the gate is root, but the workspace is the runner's: files left behind as root
    break the next checkout, and an agent that runs as root could read the gate's own environment.
    """

    @property
    def agent_user(self) -> tuple[int, int] | None:
        """Return the uid and gid as which the agent and its commands run; None: those of the gate.

        Both are the owner's. But if a container engine's socket belongs to the owner's group, the gid is
        another one.
        """
        return None if self.owner is None else choose_agent_user(self.owner, os.environ)

    def format_path(self, path: Path) -> str:
        """Return `path` relative to the folder if it lies inside; return other paths unchanged."""
        absolute = self.folder / path
        return os.path.relpath(absolute, self.folder) if absolute.is_relative_to(self.folder) else str(path)

    def choose_home(self, environ: Mapping[str, str]) -> Path:
        """Return the `HOME` of `environ` if it is a folder of the agent's user, else a new temporary folder.

        The temporary folder belongs to the agent's user. It is removed only when this process ends, because
        the agent's virtual environment may be in it.
        """
        home = environ.get("HOME", "")
        uid = self.owner[0] if self.owner else os.geteuid()
        if home and _has_owner(Path(home), uid):
            return Path(home)
        own = Path(tempfile.mkdtemp(prefix="evalgate-home-"))
        atexit.register(shutil.rmtree, own, ignore_errors=True)
        if self.owner:
            os.chown(own, *self.owner)
        return own


def open_workspace(folder: Path) -> Workspace:
    """Return the workspace at `folder`.

    Its `owner` is set if the gate runs as root and the folder belongs to another user.

    Raises:
        OSError: there is no such folder, or it may not be entered.
    """
    folder = Path(os.path.realpath(folder, strict=True))
    if not folder.is_dir():
        raise NotADirectoryError(str(folder))
    stat = folder.stat()
    foreign = os.geteuid() == 0 and stat.st_uid != 0
    return Workspace(folder, (stat.st_uid, stat.st_gid) if foreign else None)


def resolve_workspace(folder: Path) -> Workspace:
    """Return the workspace at a folder that the user named, with an error for the user if this fails.

    Raises:
        InvalidInputError: there is no such folder, or it may not be entered.
    """
    try:
        return open_workspace(folder)
    except OSError as error:
        raise InvalidInputError(f"{folder}: cannot work there: {error.strerror or 'not a folder'}") from None


def list_socket_notices(workspace: Workspace) -> tuple[str, ...]:
    """Return a warning if the agent can open a container engine's socket.

    Return () if it cannot, or if the agent runs as the same user as the gate.
    """
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
    """Return True if the current folder still exists."""
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _has_owner(folder: Path, uid: int) -> bool:
    try:
        return folder.stat().st_uid == uid and folder.is_dir()
    except OSError:
        return False

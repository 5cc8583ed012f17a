"""Keep a cache out of the agent's reach while a gate that is root uses it."""

import os
import shutil
import stat
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from typing_extensions import override

from evalgate.llm.caching import ResponseCache
from evalgate.system.files import GuardedFolder, Owner, copy_file, replace_with_copy


class PrivateCache(ResponseCache):
    """A cache that works on a copy of its file and replaces the file when it is closed.

    The agent runs as the owner of the workspace. There it could put a link in the place of the file, and
    SQLite would create or change the target of the link as root. What the agent writes into the file is
    lost. A gate that is killed loses the answers that it stored.
    """

    def __init__(
        self, path: Path, root: Path, owner: Owner, *, writes: bool, wall: Callable[[], float]
    ) -> None:
        super().__init__(path, writes=writes, wall=wall)
        self._root = root
        self._owner = owner
        self._folder: TemporaryDirectory[str] | None = None
        self._place: GuardedFolder | None = None
        """Folder of the file in the workspace; None if the file cannot be replaced."""

    @override
    def _prepare_file(self) -> None:
        if self._folder is not None:
            return
        self._folder = TemporaryDirectory(prefix="evalgate-cache-")
        self._file_path = Path(self._folder.name, self.path.name)
        try:
            self._place = GuardedFolder.open_ancestor(self._root, self.path.parent)
            self._copy_from_workspace()
        except FileNotFoundError:
            return
        except OSError as error:
            self._place = None
            self._add_notice(f"is not used: {error.strerror or error}")

    def _copy_from_workspace(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as source:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is no file")
            with self._file_path.open("wb") as target:
                shutil.copyfileobj(source, target, 2**20)

    @override
    def close(self) -> None:
        """Close the file, and replace the one in the workspace."""
        was_open = self._file is not None
        super().close()
        if self._folder is None:
            return
        try:
            if was_open and self._writes and self._place is not None:
                self._copy_to_workspace(self._place)
        except OSError as error:
            self._add_notice(f"could not be stored: {error.strerror or error}")
        finally:
            self._folder.cleanup()
            self._folder = None

    def _copy_to_workspace(self, place: GuardedFolder) -> None:
        with place.open_folder(self._owner) as folder:
            for broken in self._file_path.parent.glob("*.broken-*"):
                names = (f"{self.path.name}.broken-{number}" for number in count(1))
                with broken.open("rb") as source:
                    copy_file(source, folder, names, self._owner)
            with self._file_path.open("rb") as source:
                replace_with_copy(source, folder, self.path.name, self._owner)

"""Keep a cache out of the agent's reach while evalgate, which runs as root, uses it."""

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
    """A cache that works on a copy of its file; `close` replaces the file by the copy.

    The agent runs as the owner of the workspace. It could replace the file by a symbolic link, and SQLite,
    which runs as root, would then create or change the link's target. Changes that the agent makes to the
    file before `close` are overwritten. If evalgate is killed, the answers that it stored are lost.
    """

    def __init__(
        self, path: Path, root: Path, owner: Owner, *, writes: bool, wall: Callable[[], float]
    ) -> None:
        super().__init__(path, writes=writes, wall=wall)
        self._root = root
        self._owner = owner
        self._folder: TemporaryDirectory[str] | None = None
        self._target_folder: GuardedFolder | None = None
        """Folder of the file in the workspace; None if the file cannot be replaced."""

    @override
    def _prepare_file(self) -> None:
        if self._folder is not None:
            return
        self._folder = TemporaryDirectory(prefix="evalgate-cache-")
        self._file_path = Path(self._folder.name, self.path.name)
        try:
            self._target_folder = GuardedFolder.open_ancestor(self._root, self.path.parent)
            self._copy_from_workspace()
        except FileNotFoundError:
            return
        except OSError as error:
            self._target_folder = None
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
        """Close the copy, replace the file in the workspace with the copy, and remove the copy.

        The file is not replaced if the cache is read-only or was not opened. If the file held no usable
        cache, its old content is stored next to it, under a name with `.broken-`.
        """
        was_open = self._file is not None
        super().close()
        if self._folder is None:
            return
        try:
            if was_open and self._writes and self._target_folder is not None:
                self._copy_to_workspace(self._target_folder)
        except OSError as error:
            self._add_notice(f"could not be stored: {error.strerror or error}")
        finally:
            self._folder.cleanup()
            self._folder = None

    def _copy_to_workspace(self, target_folder: GuardedFolder) -> None:
        with target_folder.open_folder(self._owner) as folder:
            for broken in self._file_path.parent.glob("*.broken-*"):
                names = (f"{self.path.name}.broken-{number}" for number in count(1))
                with broken.open("rb") as source:
                    copy_file(source, folder, names, self._owner)
            with self._file_path.open("rb") as source:
                replace_with_copy(source, folder, self.path.name, self._owner)

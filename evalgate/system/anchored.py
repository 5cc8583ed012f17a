"""A folder that is written to after untrusted code has run beside it."""

import contextlib
import errno
import os
import secrets
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evalgate.system.files import Owner

_OPENED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CREATED = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class AnchoredFolder:
    """A folder that is reached from one that was opened early, through folders that are no links.

    An agent may run as the owner of the folder and put a link in its place. Checking the path first would not
    do: the agent could swap it between the check and the writing. So every step is taken from a descriptor.
    Links that were there before the agent started are the user's, and are followed once.
    """

    path: Path
    """As the user named it."""
    anchor: int
    """A descriptor of a folder above it."""
    parts: tuple[str, ...]
    """The way from there."""

    @classmethod
    def anchor_at(cls, root: Path, path: Path) -> "AnchoredFolder":
        """Open `root`, or the parent of `path` if that lies elsewhere. To be called before the agent starts.

        Raises:
            OSError: the folder is not there.
        """
        real, top = path.resolve(), root.resolve()
        if real == top or not real.is_relative_to(top):
            top = real.parent
        folder = cls(path, os.open(top, _OPENED), real.relative_to(top).parts)
        weakref.finalize(folder, os.close, folder.anchor)
        return folder

    @contextmanager
    def open(self, owner: Owner | None = None) -> Iterator[int]:
        """Yield a descriptor of the folder; what is missing of it is created and belongs to `owner`.

        Raises:
            OSError: a link or a file is on the way, or `path` leads somewhere else now.
        """
        descriptor = os.dup(self.anchor)
        try:
            for part in self.parts:
                above, descriptor = descriptor, _enter(descriptor, part, owner)
                os.close(above)
            if not os.path.samestat(os.fstat(descriptor), self.path.stat()):
                raise OSError(errno.ELOOP, "it leads to another folder than before the run")
            yield descriptor
        finally:
            os.close(descriptor)


def _enter(above: int, part: str, owner: Owner | None) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=above)
        if owner is not None:
            os.chown(part, *owner, dir_fd=above, follow_symlinks=False)
    try:
        return os.open(part, _OPENED | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        # Linux says ENOTDIR of a link that may not be followed, and macOS ELOOP.
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise OSError(error.errno, f"{part} was replaced by a link or a file during the run") from None
        raise


def replace_file(folder: int, name: str, text: Iterable[str], owner: Owner | None = None) -> None:
    """Replace a file in an open folder, as `atomic_write` does.

    Raises:
        OSError: it cannot be written; no temporary file is left behind.
    """
    temporary = f".{name[:100]}.{secrets.token_hex(6)}.tmp"
    descriptor = os.open(temporary, _CREATED, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.writelines(text)
            file.flush()
            os.fchmod(descriptor, 0o644)
            if owner is not None:
                os.fchown(descriptor, *owner)
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise

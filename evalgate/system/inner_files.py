"""Read files below a folder in which untrusted code may put links at any time."""

import errno
import os
import stat
from pathlib import Path


def read_inner_file(path: Path, folder: Path) -> bytes:
    """Return the content of a regular file below `folder`. Links are followed within `folder`.

    A link that leads out of `folder` raises an error. Otherwise an agent could put a link to a file that it
    may not read itself, and a gate that runs as root would show the file.

    Raises:
        OSError: the file cannot be read, is no regular file, or is not below `folder`.
    """
    root, place = os.path.realpath(folder), os.path.realpath(path)
    _check_is_inside(place, root)
    # Opening a pipe would wait for a writer.
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        _check_is_inside(_find_opened_path(descriptor) or place, root)
        return file.read()


def _find_opened_path(descriptor: int) -> str:
    """Return the current path of an opened file; "" if the system does not report it.

    The path differs from the path that was checked if a folder on the way was replaced by a link after the
    check. Linux does not report the path to an isolated gate that is not root. This is safe, because such a
    gate may read no more than the agent.
    """
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return ""


def _check_is_inside(place: str, root: str) -> None:
    if not Path(place).is_relative_to(root):
        raise OSError(errno.ELOOP, "it leads out of the folder")
